"""Contract suite for handlers: subclass ``HandlerContract`` and define the fixture ``trial``.

    class MyTrial(HandlerTrial):
        def make(self, **more): return MyHandler.from_settings({"url": ..., **more}, self.directory)
        def is_ready(self): return application.is_drained
        def hang(self): application.never_drains(); return True

    class TestMyHandler(HandlerContract):
        @pytest.fixture
        def trial(self, tmp_path): return MyTrial(tmp_path / "kept")

Needs pytest, and nothing of Forewarn's agent.
"""

import threading
from abc import ABC, abstractmethod
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import msgspec
import pytest

from forewarn.agent.handler import (
    Direction,
    Handler,
    HandlerDone,
    HandlerFailed,
    HandlerNotBegun,
    HandlerOutcome,
    HandlerResult,
    HandlerUnknown,
    Stopping,
    Task,
)
from forewarn.core.errors import BadInput
from forewarn.core.model import EventSource, EventStatus, EventType
from forewarn.testing.calls import begin, in_time
from forewarn.wire.document import ScheduledEvent


class HandlerTrial(ABC):
    """A handler and its application, as the tests need them. At first the application is not prepared."""

    longest_call = 30.0
    """Seconds within which every call must return while nothing hangs."""
    slack = 5.0
    """Seconds by which a call may miss its deadline, or the stop signal, on a busy machine."""
    hanging_call = 1.0
    """Seconds that a call is given while the application hangs."""
    undo_needs_kept = False
    """Whether undo needs what ``do`` kept; it should not."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        """The handler's directory; it does not exist yet."""

    @abstractmethod
    def make(self, **more: object) -> Handler:
        """Make a fresh handler for the same application, from the same settings and ``more``."""

    @abstractmethod
    def is_ready(self) -> bool:
        """Return whether the application is as ``do`` is to leave it."""

    def is_back(self) -> bool:
        """Return whether the application is as it was before, or as ``undo`` is to leave it."""
        return not self.is_ready()

    @abstractmethod
    def hang(self) -> bool:
        """Make the application hang; return False if the handler waits for nothing."""

    def get_ready_by_hand(self) -> bool:
        """Do what ``do`` does, as an administrator; return False if only the handler can."""
        return False

    def crash_during(self, task: Task) -> None:
        """Begin a call and lose the handler before it could answer. Kill a process here if yours can be killed."""
        self.make().do(task)

    def task(
        self,
        direction: Direction,
        *,
        event: ScheduledEvent | None = None,
        kept: dict[str, str] | None = None,
        seconds: float | None = None,
        stopping: Stopping | None = None,
    ) -> Task:
        """Return a call, by default for a new event and with time enough."""
        return Task(
            event=event or self.event(),
            vm="web-0",
            direction=direction,
            deadline=datetime.now(UTC) + timedelta(seconds=self.longest_call if seconds is None else seconds),
            stopping=stopping or threading.Event(),
            kept=kept or {},
        )

    def event(self) -> ScheduledEvent:
        """Return a new event that the handler gets ready for: a reboot of the VM that it runs in."""
        return ScheduledEvent(
            id=str(uuid4()),
            type=EventType.REBOOT,
            status=EventStatus.SCHEDULED,
            resources=("web-0", "web-1"),
            not_before=datetime.now(UTC).replace(microsecond=0) + timedelta(minutes=15),
            description="Host server is undergoing maintenance.",
            source=EventSource.PLATFORM,
        )


class HandlerContract:
    """The rules, one test each. Subclass it and define the fixture ``trial``."""

    @pytest.fixture
    def trial(self) -> HandlerTrial:
        pytest.fail(f"{type(self).__name__} defines no fixture 'trial' that returns a HandlerTrial")

    def test_do_gets_ready(self, trial: HandlerTrial) -> None:
        """What is done ends Done, and the application is ready."""
        handler = trial.make()

        assert isinstance(do(trial, handler), HandlerDone)
        assert trial.is_ready()
        handler.close()

    def test_undo_puts_back(self, trial: HandlerTrial) -> None:
        """Undo ends Done and the application is as before, however often it is called."""
        handler, event = trial.make(), trial.event()
        kept = done(do(trial, handler, event)).kept

        for _ in range(2):
            assert isinstance(undo(trial, handler, event, kept), HandlerDone)
            assert trial.is_back()
        handler.close()

    def test_a_fresh_handler_puts_back(self, trial: HandlerTrial) -> None:
        """Undo needs no more than what was kept: the reboot lies in between, and kept has been through JSON."""
        handler, event = trial.make(), trial.event()
        encoded = msgspec.json.encode(do(trial, handler, event))
        handler.close()
        fresh = trial.make()
        answer: HandlerDone | HandlerFailed = msgspec.json.decode(encoded, type=HandlerDone | HandlerFailed)

        assert isinstance(undo(trial, fresh, event, done(answer).kept), HandlerDone)
        assert trial.is_back()
        fresh.close()

    def test_it_serves_the_next_event(self, trial: HandlerTrial) -> None:
        """After an event is over, the next one finds the handler as good as new."""
        handler = trial.make()
        for event in (trial.event(), trial.event()):
            kept = done(do(trial, handler, event)).kept
            assert trial.is_ready()
            assert isinstance(undo(trial, handler, event, kept), HandlerDone)
            assert trial.is_back()
        handler.close()

    def test_undo_of_nothing_changes_nothing(self, trial: HandlerTrial) -> None:
        """Undoing what was never done is Done, and leaves the application alone."""
        handler = trial.make()

        assert isinstance(undo(trial, handler), HandlerDone)
        assert trial.is_back()
        handler.close()

    def test_undo_after_a_crash_puts_back(self, trial: HandlerTrial) -> None:
        """Where the answer of do was lost, undo puts back all the same."""
        event = trial.event()
        trial.crash_during(trial.task(Direction.DO, event=event))
        fresh = trial.make()
        answer = undo(trial, fresh, event)

        assert trial.undo_needs_kept or isinstance(answer, HandlerDone)
        assert trial.undo_needs_kept or trial.is_back()
        fresh.close()

    def test_doing_it_again_after_a_crash_forgets_nothing(self, trial: HandlerTrial) -> None:
        """A handler that repeats is called again after a crash, is then ready, and still knows what to put back."""
        handler, event = trial.make(), trial.event()
        if handler.repeats:
            trial.crash_during(trial.task(Direction.DO, event=event))
            kept = done(do(trial, handler, event)).kept
            assert trial.is_ready()
            assert isinstance(undo(trial, handler, event, kept), HandlerDone)
            assert trial.is_back()
        handler.close()

    def test_what_others_did_stays(self, trial: HandlerTrial) -> None:
        """What an administrator had brought about before is not undone."""
        handler, event = trial.make(), trial.event()
        if trial.get_ready_by_hand():
            kept = done(do(trial, handler, event)).kept
            assert isinstance(undo(trial, handler, event, kept), HandlerDone)
            assert trial.is_ready()
        handler.close()

    def test_outcome_of_what_never_began(self, trial: HandlerTrial) -> None:
        """A handler that does not repeat claims nothing before it was called, and touches nothing when asked."""
        handler = trial.make()
        if not handler.repeats:
            assert isinstance(outcome_of(trial, handler, trial.event()), HandlerNotBegun | HandlerUnknown)
            assert trial.is_back()
            assert not trial.is_ready()
        handler.close()

    def test_outcome_of_what_was_cut_off(self, trial: HandlerTrial) -> None:
        """A handler that does not repeat tells the truth after a crash, and touches nothing when asked."""
        handler, event = trial.make(), trial.event()
        if not handler.repeats:
            trial.crash_during(trial.task(Direction.DO, event=event))
            was_ready = trial.is_ready()
            outcome = outcome_of(trial, handler, event)
            assert trial.is_ready() == was_ready
            assert was_ready or not isinstance(outcome, HandlerDone)
            assert not (was_ready and isinstance(outcome, HandlerNotBegun))
        handler.close()

    def test_it_fails_at_the_deadline(self, trial: HandlerTrial) -> None:
        """With an application that never gets ready, do fails by the deadline with one sentence, and undo returns."""
        handler, event = trial.make(), trial.event()
        if trial.hang():
            patience = trial.hanging_call + trial.slack
            task = trial.task(Direction.DO, event=event, seconds=trial.hanging_call)
            answer = in_time("handler", patience, begin(lambda: handler.do(task)))
            assert isinstance(answer, HandlerFailed)
            assert is_one_sentence(answer.reason)
            task = trial.task(Direction.UNDO, event=event, seconds=trial.hanging_call)
            in_time("handler", patience, begin(lambda: handler.undo(task)))
        handler.close()

    def test_it_stops_waiting_when_told_to(self, trial: HandlerTrial) -> None:
        """When the agent stops, a call that waits fails soon, whatever time it has left."""
        handler, stopping = trial.make(), threading.Event()
        if trial.hang():
            task = trial.task(Direction.DO, seconds=600, stopping=stopping)
            timer = threading.Timer(0.2, stopping.set)
            timer.start()
            answer = in_time("handler", 0.2 + trial.slack, begin(lambda: handler.do(task)))
            timer.join()
            assert isinstance(answer, HandlerFailed)
            assert is_one_sentence(answer.reason)
        handler.close()

    def test_making_one_touches_nothing(self, trial: HandlerTrial) -> None:
        """A configuration can be checked anywhere: a handler that is made and closed has left no trace."""
        trial.make().close()

        assert not trial.is_ready()
        assert not trial.directory.exists()

    def test_it_says_whether_it_repeats_and_is_shared(self, trial: HandlerTrial) -> None:
        """``repeats`` and ``shared`` are a plain yes or no, for the agent's plan reads them."""
        handler = trial.make()

        assert handler.repeats in (True, False)
        assert handler.shared in (True, False)
        handler.close()

    def test_unknown_settings_are_refused(self, trial: HandlerTrial) -> None:
        """A setting that does not exist is refused with the names of the handler and of the setting."""
        with pytest.raises(BadInput, match=r"(?=.*no_such_setting)handler '[^']+'"):
            trial.make(no_such_setting=1)

    def test_close_may_be_repeated(self, trial: HandlerTrial) -> None:
        """Closing twice is no error."""
        handler = trial.make()
        handler.close()
        handler.close()


def do(trial: HandlerTrial, handler: Handler, event: ScheduledEvent | None = None) -> HandlerResult:
    task = trial.task(Direction.DO, event=event)
    return in_time("handler", trial.longest_call, begin(lambda: handler.do(task)))


def undo(
    trial: HandlerTrial, handler: Handler, event: ScheduledEvent | None = None, kept: dict[str, str] | None = None
) -> HandlerResult:
    task = trial.task(Direction.UNDO, event=event, kept=kept)
    return in_time("handler", trial.longest_call, begin(lambda: handler.undo(task)))


def outcome_of(trial: HandlerTrial, handler: Handler, event: ScheduledEvent) -> HandlerOutcome:
    task = trial.task(Direction.DO, event=event)
    return in_time("handler", trial.longest_call, begin(lambda: handler.outcome_of(task)))


def done(answer: HandlerResult) -> HandlerDone:
    """Return an answer that must be Done."""
    assert isinstance(answer, HandlerDone), answer
    return answer


def is_one_sentence(reason: str) -> bool:
    return bool(reason.strip()) and "\n" not in reason
