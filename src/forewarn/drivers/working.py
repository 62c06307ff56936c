"""Work on machines that lasts: for each event a thread, its page of the ledger, and a word on how far it is.

    perform ──▶ a thread holds the page and works ──▶ within a second: how it ended
                                                └───▶ else Underway, and how far it is, until outcome_of finds the end

What the thread is about to do is written down before it is done. After a crash ``outcome_of`` lets another thread go
on from there: nothing is done twice, and no guest stays frozen.
"""

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from datetime import timedelta
from pathlib import Path

from forewarn.clocks import Clock
from forewarn.drivers.ledger import Ending, Ledger, Page
from forewarn.drivers.record import Locked
from forewarn.node.driver import Failed, Impact, NotBegun, Outcome, Underway, Unknowable

_WORTH_WAITING = 1.0
"""Seconds that a call waits for the end, so that whoever asked hears of it at once."""
_ASK_AGAIN = timedelta(milliseconds=100)


class Interrupted(Exception):
    """The driver is being closed; what is left is done after the next start."""


class Job:
    """One impact that is being carried out. Its threads may all use it at once."""

    def __init__(self, impact: Impact, page: Page, closing: threading.Event, *, is_resumed: bool) -> None:
        self.impact = impact
        self.page = page
        self.closing = closing
        self.is_resumed = is_resumed
        """Whether an earlier process began it."""
        self._said: dict[str, str] = {}

    def tell(self, words: str, vm: str = "") -> None:
        """Say how far the work is, with one VM or as a whole."""
        self._said[vm] = words

    @property
    def progress(self) -> str:
        return told(self._said.copy(), len(self.impact.vms))


class Workshop:
    """Has impacts carried out, each once."""

    def __init__(self, name: str, directory: Path | None, clock: Clock, do: Callable[[Job], Ending]) -> None:
        self.closing = threading.Event()
        self._name = name
        self._ledger = Ledger(directory, clock)
        self._clock = clock
        self._do = do
        self._running: dict[str, _Run] = {}
        self._lock = threading.Lock()

    def perform(self, impact: Impact) -> Outcome:
        return self._await(impact, self._run_of(impact))

    def outcome_of(self, impact: Impact) -> Outcome:
        with self._lock:
            running = self._running.get(impact.event.id)
        if running:
            return self._await(impact, running)
        try:
            page = self._ledger.read(impact.event.id)
        except Locked:
            return self._later()
        except OSError as error:
            return Unknowable(f"the record of the work cannot be read: {error}")
        if page.ending:
            return page.ending
        if page.begun:
            # Nobody holds it, so a crash cut it off. It is still wanted, for the node asks; so it goes on.
            return self.perform(impact)
        if self._ledger.may_have_forgotten(impact.attempted_at):
            return Unknowable("it was attempted so long ago that no record of it is kept")
        return NotBegun()

    def close(self, within: float) -> None:
        """Have all work come to a point where it can be left, for so many seconds at most."""
        self.closing.set()
        with self._lock:
            runs = [run.ended for run in self._running.values()]
        wait(runs, within)
        self._ledger.close()

    def _run_of(self, impact: Impact) -> "_Run":
        """Return the run of an event; begin it if there is none."""
        with self._lock:
            run = self._running.get(impact.event.id)
            if run is None:
                run = self._running[impact.event.id] = _Run()
                work = threading.Thread(target=self._work, args=(impact, run), name=self._name, daemon=True)
                work.start()
        return run

    def _await(self, impact: Impact, run: "_Run") -> Outcome:
        try:
            outcome = run.ended.result(_WORTH_WAITING)
        except TimeoutError:
            return self._later(run.job.progress if run.job else "")
        finally:
            if run.ended.done():
                self._forget(impact.event.id, run)
        return outcome

    def _forget(self, event: str, run: "_Run") -> None:
        """Let go of a run whose end is told; by now another one may stand there, and goes on."""
        with self._lock:
            if self._running.get(event) is run:
                del self._running[event]

    def _work(self, impact: Impact, run: "_Run") -> None:
        try:
            run.ended.set_result(self._carry_out(impact, run))
        except BaseException as error:  # noqa: BLE001 it is raised again in the caller's thread
            run.ended.set_exception(error)

    def _carry_out(self, impact: Impact, run: "_Run") -> Outcome:
        """Do what is left to do for an event, and write down how it ended."""
        try:
            with self._ledger.held(impact.event.id) as page:
                if page.ending:
                    return page.ending
                is_resumed = page.begun is not None
                if page.begun is None:
                    page.begin(impact)
                run.job = Job(page.begun or impact, page, self.closing, is_resumed=is_resumed)
                return page.end(self._do(run.job))
        except (Locked, Interrupted):
            return self._later()
        except OSError as error:
            place = self._ledger.directory
            return Failed(f"what is done must be written down first, and cannot be: {error}; make room in {place}")

    def _later(self, progress: str = "") -> Underway:
        return Underway(self._clock.now() + _ASK_AGAIN, progress)


class _Run:
    """A thread at work."""

    def __init__(self) -> None:
        self.ended: Future[Outcome] = Future()
        self.job: Job | None = None


def told(words: Mapping[str, str], count: int) -> str:
    """Say what there is to say of each of so many VMs; of one alone without its name."""
    if count == 1:
        return next(iter(words.values()), "")
    return "; ".join(f"{name}: {text}" if name else text for name, text in sorted(words.items()) if text)
