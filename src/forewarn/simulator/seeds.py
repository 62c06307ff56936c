"""Runs simulations: one plan, one seed, or many seeds in several processes."""

import gc
import multiprocessing
import signal
import tempfile
import threading
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import msgspec

from forewarn.simulator.environment.loop import Livelock
from forewarn.simulator.generator import make_plan
from forewarn.simulator.plan import Plan
from forewarn.simulator.simulation import Simulation

LONGEST = 60.0
"""Seconds of real time after which a simulation is given up."""
NEVER_ENDED = f"the simulation did not end in {LONGEST:g} s of real time"
_MEMORY = Path("/dev/shm")  # noqa: S108 - each run makes a directory of its own there
_AT_A_TIME = 10
_LONGEST_LIFE = 100
"""Portions of seeds after which a worker is replaced, so that nothing it forgot to free adds up."""
_app: object = None
"""The control API's application, which takes long to make: one for all simulations of a process."""


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


def run_seeds(seeds: Sequence[int], jobs: int = 1, sqlite_percent: int | None = None) -> Iterator[SeedRun]:
    """Run seeds in so many processes; yield what came of each, in their order."""
    run = partial(run_seed, sqlite_percent=sqlite_percent)
    if jobs == 1:
        yield from map(run, seeds)
        return
    processes = multiprocessing.get_context("fork")
    with processes.Pool(jobs, initializer=_ignore_interrupts, maxtasksperchild=_LONGEST_LIFE) as pool:
        yield from pool.imap(run, seeds, chunksize=_AT_A_TIME)


def run_seed(seed: int, *, sqlite_percent: int | None = None) -> SeedRun:
    """Run the plan of a seed."""
    return run_plan(plan_of(seed, sqlite_percent))


def plan_of(seed: int, sqlite_percent: int | None = None) -> Plan:
    """Return the plan of a seed. ``sqlite_percent``: the share of seeds with a real journal, if not the usual one."""
    return make_plan(seed, has_sqlite=None if sqlite_percent is None else seed % 100 < sqlite_percent)


def run_plan(plan: Plan, *, has_transcript: bool = False) -> SeedRun:
    """Run a plan. A simulation that fails itself, or does not end, is a problem like any other."""
    global _app  # noqa: PLW0603 - it belongs to the process
    parent = _MEMORY if _MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(dir=parent, prefix="forewarn-simulation-") as directory:
        simulation = None
        try:
            with _time_limit():
                simulation = Simulation(plan, Path(directory), has_transcript=has_transcript, app=_app)
                result = simulation.run()
        except (Exception, TookTooLong, Livelock) as error:  # noqa: BLE001 - whatever it is, the seed is to be named
            lines = list(simulation.transcript.lines) if simulation else []
            return SeedRun(plan.seed, [_describe(error)], 0, 0.0, "", Counter(), lines)
        if _app is None:
            gc.collect()
            gc.freeze()  # what stays is not searched at the end of each simulation
        _app = simulation.app
    problems = [*map(simulation.transcript.tell_problem, result.problems)] if has_transcript else result.problems
    return SeedRun(plan.seed, problems, result.steps, result.seconds, result.digest, result.reached, result.lines)


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

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, LONGEST)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _ignore_interrupts() -> None:
    """Leave Ctrl-C to the process that started the workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
