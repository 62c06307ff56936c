"""Runs simulations: one plan, one seed, or many seeds in several processes."""

import gc
import multiprocessing
import os
import shutil
import signal
import tempfile
import threading
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import msgspec

from forewarn.simulator.environment.loop import Livelock
from forewarn.simulator.generator import make_plan
from forewarn.simulator.plan import Plan
from forewarn.simulator.simulation import Simulation

LONGEST = 60.0
"""Seconds of processor time after which a simulation is given up, however busy the machine is."""
NEVER_ENDED = f"the simulation did not end in {LONGEST:g} s of processor time"
_MEMORY = Path("/dev/shm")  # noqa: S108 - each run makes a directory of its own there
_PREFIX = "forewarn-simulation-"
"""Begins the names of those directories; the id of the process follows."""
_AT_A_TIME = 10
_LONGEST_LIFE = 100
"""Portions of seeds after which a worker is replaced, so that nothing it forgot to free adds up."""
_apps: Sequence[object] = ()
"""The control API's applications, one of each node: made once for all simulations of a process."""


class SeedRun(msgspec.Struct):
    """What came of one simulation."""

    seed: int
    problems: list[str]
    """Promises that were broken; in the words of the transcript, if there is one."""
    steps: int
    seconds: float
    """Simulated time."""
    digest: str
    """Equal for equal runs."""
    reached: Counter[str]
    lines: list[str]
    """The transcript; empty unless it was wanted."""


class TookTooLong(KeyboardInterrupt):
    """A simulation did not end. It is of a kind that event loops let through."""


class PlanShares(msgspec.Struct, frozen=True):
    """Percent of the seeds with a real journal, several nodes, and rollouts; None for the usual share."""

    sqlite: int | None = None
    nodes: int | None = None
    rollouts: int | None = None


_USUAL = PlanShares()
_MIXED = (_USUAL, PlanShares(sqlite=100), PlanShares(nodes=100), PlanShares(rollouts=100))


def run_seeds(seeds: Sequence[int], jobs: int = 1, shares: PlanShares = _USUAL) -> Iterator[SeedRun]:
    """Run seeds in so many processes; yield what came of each, in their order."""
    run = partial(run_seed, shares=shares)
    remove_left_over()
    if jobs == 1:
        yield from map(run, seeds)
        return
    if not _apps:
        run_plan(make_plan(0, has_nodes=True))  # each worker would make the applications of the nodes for itself
    processes = multiprocessing.get_context("fork")
    try:
        with processes.Pool(jobs, initializer=_leave_signals_alone, maxtasksperchild=_LONGEST_LIFE) as pool:
            yield from pool.imap(run, seeds, chunksize=_AT_A_TIME)
    finally:
        remove_left_over()  # workers that were ended in the middle of a simulation remove nothing


def remove_left_over() -> None:
    """Remove the directories of simulations whose processes are dead."""
    for path in _parent().glob(f"{_PREFIX}*"):
        process = path.name.removeprefix(_PREFIX).partition("-")[0]
        if process.isdecimal() and not _is_alive(int(process)):
            shutil.rmtree(path, ignore_errors=True)  # another user's stay


def _is_alive(process: int) -> bool:
    with suppress(PermissionError):
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return False
    return True


def _parent() -> Path:
    """Return where simulations make their directories: in memory, if possible."""
    return _MEMORY if _MEMORY.is_dir() else Path(tempfile.gettempdir())


def run_seed(seed: int, shares: PlanShares = _USUAL) -> SeedRun:
    """Run the plan of a seed."""
    return run_plan(plan_of(seed, shares))


def plan_of(seed: int, shares: PlanShares = _USUAL) -> Plan:
    """Return the plan of a seed."""
    return make_plan(
        seed,
        has_sqlite=_is_of(seed, shares.sqlite),
        has_nodes=_is_of(seed, shares.nodes),
        has_rollouts=_is_of(seed, shares.rollouts),
    )


def digests(seeds: Iterable[int]) -> Iterator[str]:
    """Yield the digests of seeds; a quarter each has a real journal, several nodes, and rollouts."""
    for number, seed in enumerate(seeds):
        yield run_seed(seed, _MIXED[number % len(_MIXED)]).digest


def _is_of(seed: int, percent: int | None) -> bool | None:
    return None if percent is None else seed % 100 < percent


def run_plan(plan: Plan, *, has_transcript: bool = False) -> SeedRun:
    """Run a plan. A simulation that fails itself, or does not end, is a problem like any other."""
    global _apps  # noqa: PLW0603 - it belongs to the process
    with (
        _collection_paused(),
        tempfile.TemporaryDirectory(dir=_parent(), prefix=f"{_PREFIX}{os.getpid()}-") as directory,
    ):
        simulation = None
        try:
            with _time_limit():
                simulation = Simulation(plan, Path(directory), has_transcript=has_transcript, apps=_apps)
                result = simulation.run()
        except (Exception, TookTooLong, Livelock) as error:  # noqa: BLE001 - whatever it is, the seed is to be named
            lines = list(simulation.transcript.lines) if simulation else []
            return SeedRun(plan.seed, [_describe(error)], 0, 0.0, "", Counter(), lines)
        if len(simulation.apps) > len(_apps):
            _apps = simulation.apps
            gc.collect()
            gc.freeze()  # what is there now lasts as long as the process
    problems = [*map(simulation.transcript.tell_problem, result.problems)] if has_transcript else result.problems
    return SeedRun(plan.seed, problems, result.steps, result.seconds, result.digest, result.reached, result.lines)


@contextmanager
def _collection_paused() -> Iterator[None]:
    """Leave the garbage to the end of a simulation.

    This also keeps large changes from exempting what their process has made; here that would add up.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _describe(error: BaseException) -> str:
    if isinstance(error, TookTooLong):
        return NEVER_ENDED
    place = traceback.extract_tb(error.__traceback__)[-1]
    return (
        f"the simulation failed: {type(error).__name__}: {error} ({Path(place.filename).name}, line {place.lineno})"
    )


@contextmanager
def _time_limit() -> Iterator[None]:
    """Raise TookTooLong in the block when it takes too long; only the main thread of a process can."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def give_up(*_: object) -> None:
        raise TookTooLong

    before, before_alarm = signal.signal(signal.SIGPROF, give_up), signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_PROF, LONGEST)
    signal.setitimer(signal.ITIMER_REAL, 20 * LONGEST)  # one that waits for ever takes no processor time
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGPROF, before)
        signal.signal(signal.SIGALRM, before_alarm)


def _leave_signals_alone() -> None:
    """Leave Ctrl-C to the process that started the workers; it ends them by SIGTERM."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
