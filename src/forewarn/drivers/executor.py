"""Executor of impacts that take long: one thread and one progress file per event, with progress reports.

    perform ──▶ a thread locks the progress file and works ──▶ within a second: the result
                                                        └───▶ else Underway with progress, until outcome_of returns it

Each step is durable before it is carried out. After a crash ``outcome_of`` starts a thread that continues from the
last step: nothing is done twice, and no guest stays frozen.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from pathlib import Path

from forewarn.clocks import Clock
from forewarn.drivers.progress_store import ImpactEnding, ProgressFile, ProgressStore
from forewarn.drivers.run_record import RecordLocked
from forewarn.drivers.term_store import TermRefused, TermStore
from forewarn.node.driver import Impact, ImpactFailed, ImpactNotBegun, ImpactOutcome, ImpactUnderway, ImpactUnknown

_WORTH_WAITING = 1.0
"""Seconds that a call waits for the result, so that short work is reported immediately."""
_ASK_AGAIN = timedelta(milliseconds=100)


class WorkInterrupted(Exception):
    """The driver is being closed; the rest is done after the next start."""


class ImpactJob:
    """One impact being carried out. Thread-safe."""

    def __init__(
        self, impact: Impact, progress_file: ProgressFile, closing: threading.Event, *, is_resumed: bool
    ) -> None:
        self.impact = impact
        self.progress_file = progress_file
        self.closing = closing
        self.is_resumed = is_resumed
        """Whether an earlier process began it."""
        self._said: dict[str, str] = {}

    def tell(self, words: str, vm: str = "") -> None:
        """Set the progress of one VM, or of the whole impact."""
        self._said[vm] = words

    @property
    def progress(self) -> str:
        return join_details(self._said.copy(), len(self.impact.vms))


class WorkExecutor:
    """Carries out impacts, each once."""

    def __init__(
        self,
        name: str,
        directory: Path | None,
        clock: Clock,
        do: Callable[[ImpactJob], ImpactEnding],
        *,
        worth_waiting: float = _WORTH_WAITING,
        terms: TermStore | None = None,
    ) -> None:
        """``terms``: where the highest term is stored; a leader of a lower one begins nothing."""
        self.closing = threading.Event()
        self._name = name
        self._progress_store = ProgressStore(directory, clock)
        self._clock = clock
        self._do = do
        self._worth_waiting = worth_waiting
        self._terms = terms
        self._running: dict[str, _RunningJob] = {}
        self._lock = threading.Lock()

    def perform(self, impact: Impact) -> ImpactOutcome:
        return self._await(impact, self._run_of(impact))

    def outcome_of(self, impact: Impact) -> ImpactOutcome:
        with self._lock:
            running = self._running.get(impact.event.id)
        if running:
            return self._await(impact, running)
        try:
            with self._fence(impact):
                pass  # no leader of a lower term begins it after this answer
            progress_file = self._progress_store.read(impact.event.id)
        except RecordLocked:
            return self._later()
        except TermRefused as error:
            return ImpactUnknown(str(error))
        except OSError as error:
            return ImpactUnknown(f"cannot read the record of the work: {error}")
        if progress_file.ending:
            return progress_file.ending
        if progress_file.begun:
            # The file is not locked, so a crash interrupted the work. The node asks, so it is still wanted: continue.
            return self.perform(impact)
        if self._progress_store.may_have_forgotten(impact.attempted_at):
            return ImpactUnknown("it was attempted so long ago that its record has been deleted")
        return ImpactNotBegun()

    def close(self, within: float) -> None:
        """Wait, at most ``within`` seconds, until all work has reached a point where it can be interrupted."""
        self.closing.set()
        with self._lock:
            runs = [run.ended for run in self._running.values()]
        wait(runs, within)
        self._progress_store.close()

    def _run_of(self, impact: Impact) -> "_RunningJob":
        """Return the running job of an event; start it if there is none."""
        with self._lock:
            run = self._running.get(impact.event.id)
            if run is None:
                run = self._running[impact.event.id] = _RunningJob()
                work = threading.Thread(target=self._work, args=(impact, run), name=self._name, daemon=True)
                work.start()
        return run

    def _await(self, impact: Impact, run: "_RunningJob") -> ImpactOutcome:
        try:
            outcome = run.ended.result(self._worth_waiting)
        except TimeoutError:
            return self._later(run.job.progress if run.job else "")
        finally:
            if run.ended.done():
                self._forget(impact.event.id, run)
        return outcome

    def _forget(self, event: str, run: "_RunningJob") -> None:
        """Remove a reported job; keep a newer one of the same event."""
        with self._lock:
            if self._running.get(event) is run:
                del self._running[event]

    def _work(self, impact: Impact, run: "_RunningJob") -> None:
        try:
            run.ended.set_result(self._carry_out(impact, run))
        except BaseException as error:  # noqa: BLE001 it is raised again in the caller's thread
            run.ended.set_exception(error)

    def _carry_out(self, impact: Impact, run: "_RunningJob") -> ImpactOutcome:
        """Do what is left to do for an event, and record the result."""
        try:
            with self._progress_store.held(impact.event.id) as progress_file:
                if progress_file.ending:
                    return progress_file.ending
                is_resumed = progress_file.begun is not None
                with self._fence(impact):
                    if progress_file.begun is None:
                        progress_file.begin(impact)
                run.job = ImpactJob(progress_file.begun or impact, progress_file, self.closing, is_resumed=is_resumed)
                return progress_file.end(self._do(run.job))
        except (RecordLocked, WorkInterrupted):
            return self._later()
        except TermRefused as error:
            return ImpactUnknown(str(error))
        except OSError as error:
            place = self._progress_store.directory
            return ImpactFailed(f"cannot record the work before doing it: {error}; free space in {place}")

    def _fence(self, impact: Impact) -> AbstractContextManager[None]:
        return self._terms.held(impact.term) if self._terms else nullcontext()

    def _later(self, progress: str = "") -> ImpactUnderway:
        return ImpactUnderway(self._clock.now() + _ASK_AGAIN, progress)


class _RunningJob:
    """A job and its thread."""

    def __init__(self) -> None:
        self.ended: Future[ImpactOutcome] = Future()
        self.job: ImpactJob | None = None


def join_details(words: Mapping[str, str], count: int) -> str:
    """Join details of ``count`` VMs; a single VM's without its name."""
    if count == 1:
        return next(iter(words.values()), "")
    return "; ".join(f"{name}: {text}" if name else text for name, text in sorted(words.items()) if text)


_POLL_EVERY = 0.1


class MigrationSlots:
    """Semaphore for migrations over all events."""

    def __init__(self, count: int) -> None:
        self._free = threading.Semaphore(count)

    @contextmanager
    def taken(self, closing: threading.Event, tell: Callable[[str], None]) -> Iterator[None]:
        """Wait for a slot and hold it; raise WorkInterrupted if the driver is closed meanwhile."""
        if not self._free.acquire(blocking=False):
            tell("waiting for other migrations to end")
            while not self._free.acquire(timeout=_POLL_EVERY):
                if closing.is_set():
                    raise WorkInterrupted
        try:
            yield
        finally:
            self._free.release()
