"""The published handler contract: it must fail handlers that break it."""

import threading
from pathlib import Path
from typing import Self

import msgspec
import pytest

from forewarn.agent.handler import (
    Handler,
    HandlerDone,
    HandlerFailed,
    HandlerNotBegun,
    HandlerOutcome,
    HandlerResult,
    HandlerUnknown,
    Task,
)
from forewarn.config.tables import read_table
from forewarn.testing.handler_contract import HandlerContract, HandlerTrial


class Server:
    """An application: a server that is in its load balancer's rotation, or drained."""

    def __init__(self) -> None:
        self.is_drained = False
        self.drained_for: str | None = None
        self.hangs = False
        self.released = threading.Event()


class NoSettings(msgspec.Struct, frozen=True):
    """A table without a key."""


class HonestHandler:
    """Keeps the contract: the server itself remembers for whom it was drained."""

    repeats = True
    shared = True

    def __init__(self, server: Server, directory: Path) -> None:
        self.server = server
        self.directory = directory

    @classmethod
    def made_from(cls, settings: dict[str, object], server: Server, directory: Path) -> Self:
        read_table("handler 'honest'", settings, NoSettings)
        return cls(server, directory)

    def do(self, task: Task) -> HandlerResult:
        if self.server.hangs:
            self.wait(task)
            return HandlerFailed("the server has sessions still")
        if not self.server.is_drained:
            self.server.is_drained = True
            self.server.drained_for = task.event.id
        return HandlerDone()

    def wait(self, task: Task) -> None:
        while not task.stopping.wait(0.01) and task.deadline.timestamp() > now(task):
            pass

    def undo(self, task: Task) -> HandlerResult:
        if self.server.drained_for == task.event.id:
            self.server.is_drained = False
        return HandlerDone()

    def outcome_of(self, task: Task) -> HandlerOutcome:
        return HandlerDone() if self.server.drained_for == task.event.id else HandlerNotBegun()

    def close(self) -> None:
        pass


def now(task: Task) -> float:
    assert task.deadline.tzinfo is not None
    return type(task.deadline).now(task.deadline.tzinfo).timestamp()


class Once(HonestHandler):
    """Keeps the contract, and does not repeat."""

    repeats = False


class ServerTrial(HandlerTrial):
    """Makes handlers of any kind."""

    longest_call = 30.0
    slack = 30.0
    hanging_call = 0.1

    def __init__(self, handler: type[HonestHandler], directory: Path) -> None:
        super().__init__(directory)
        self.server = Server()
        self._handler = handler

    def make(self, **more: object) -> Handler:
        return self._handler.made_from(more, self.server, self.directory)

    def is_ready(self) -> bool:
        return self.server.is_drained

    def hang(self) -> bool:
        self.server.hangs = True
        return True

    def get_ready_by_hand(self) -> bool:
        self.server.is_drained = True
        return True


@pytest.fixture(params=[HonestHandler, Once])
def handler(request: pytest.FixtureRequest) -> type[HonestHandler]:
    kind: type[HonestHandler] = request.param
    return kind


class TestHonestHandler(HandlerContract):
    """A handler as small as can be keeps the contract, whether it repeats or not."""

    @pytest.fixture
    def trial(self, handler: type[HonestHandler], tmp_path: Path) -> HandlerTrial:
        return ServerTrial(handler, tmp_path / "kept")


class Idle(HonestHandler):
    """Says Done and does nothing."""

    def do(self, task: Task) -> HandlerResult:
        return HandlerDone()


class Raising(HonestHandler):
    """Raises instead of answering."""

    def do(self, task: Task) -> HandlerResult:
        raise RuntimeError("no")


class OneWay(HonestHandler):
    """Never puts back."""

    def undo(self, task: Task) -> HandlerResult:
        return HandlerDone()


class Sulky(HonestHandler):
    """Fails where there is nothing to undo."""

    def undo(self, task: Task) -> HandlerResult:
        if not self.server.is_drained:
            return HandlerFailed("the server is not drained")
        return super().undo(task)


class Toggling(HonestHandler):
    """Turns the server over whatever it is."""

    def undo(self, task: Task) -> HandlerResult:
        self.server.is_drained = not self.server.is_drained
        return HandlerDone()


class Forgetful(HonestHandler):
    """Knows what to put back from its own memory alone."""

    did = False

    def do(self, task: Task) -> HandlerResult:
        self.did = True
        self.server.is_drained = True
        return HandlerDone()

    def undo(self, task: Task) -> HandlerResult:
        if self.did:
            self.server.is_drained = False
        return HandlerDone()


class Trusting(HonestHandler):
    """Keeps whether it changed anything, and is wrong when called again."""

    def do(self, task: Task) -> HandlerResult:
        changed = not self.server.is_drained
        self.server.is_drained = True
        return HandlerDone({"changed": "yes" if changed else ""})

    def undo(self, task: Task) -> HandlerResult:
        if task.kept.get("changed"):
            self.server.is_drained = False
        return HandlerDone()


class Numbering(HonestHandler):
    """Keeps what is no text."""

    def do(self, task: Task) -> HandlerResult:
        super().do(task)
        return HandlerDone({"number": 1})  # type: ignore[dict-item]


class Lasting(HonestHandler):
    """Gets ready once in its life."""

    did = False

    def do(self, task: Task) -> HandlerResult:
        if self.did:
            return HandlerDone()
        self.did = True
        return super().do(task)


class Overbearing(HonestHandler):
    """Puts back what it did not change."""

    def undo(self, task: Task) -> HandlerResult:
        self.server.is_drained = False
        return HandlerDone()


class Boasting(Once):
    """Says Done before anything was done."""

    def outcome_of(self, task: Task) -> HandlerOutcome:
        return HandlerDone()


class Meddling(Once):
    """Acts when asked."""

    def outcome_of(self, task: Task) -> HandlerOutcome:
        self.do(task)
        return HandlerUnknown()


class Denying(Once):
    """Takes what was done for not begun."""

    def outcome_of(self, task: Task) -> HandlerOutcome:
        return HandlerNotBegun()


class Patient(HonestHandler):
    """Waits as long as it takes."""

    def wait(self, task: Task) -> None:
        self.server.released.wait(60)


class Deaf(HonestHandler):
    """Waits until the deadline whoever stops."""

    def wait(self, task: Task) -> None:
        while task.deadline.timestamp() > now(task) and not self.server.released.wait(0.01):
            pass


class Optimistic(HonestHandler):
    """Says Done when its time is over."""

    def do(self, task: Task) -> HandlerResult:
        answer = super().do(task)
        return HandlerDone() if isinstance(answer, HandlerFailed) else answer


class Wordy(HonestHandler):
    """Gives a page for a reason."""

    def do(self, task: Task) -> HandlerResult:
        answer = super().do(task)
        return HandlerFailed("the server\nhas sessions") if isinstance(answer, HandlerFailed) else answer


class Eager(HonestHandler):
    """Acts when it is made."""

    def __init__(self, server: Server, directory: Path) -> None:
        super().__init__(server, directory)
        directory.mkdir(exist_ok=True)


class Undecided(HonestHandler):
    """Leaves open whether it repeats."""

    repeats = None  # type: ignore[assignment]


class Swallowing(HonestHandler):
    """Takes any setting."""

    @classmethod
    def made_from(cls, settings: dict[str, object], server: Server, directory: Path) -> Self:
        return cls(server, directory)


class Nameless(HonestHandler):
    """Refuses a setting without saying whose."""

    @classmethod
    def made_from(cls, settings: dict[str, object], server: Server, directory: Path) -> Self:
        read_table("it", settings, NoSettings)
        return cls(server, directory)


class ClosingOnce(HonestHandler):
    """Cannot be closed twice."""

    closed = False

    def close(self) -> None:
        if self.closed:
            raise RuntimeError("closed already")
        self.closed = True


@pytest.mark.parametrize(
    ("handler", "rule"),
    [
        (Idle, "test_do_gets_ready"),
        (Raising, "test_do_gets_ready"),
        (OneWay, "test_undo_puts_back"),
        (Toggling, "test_undo_puts_back"),
        (OneWay, "test_a_fresh_handler_puts_back"),
        (Forgetful, "test_a_fresh_handler_puts_back"),
        (Numbering, "test_a_fresh_handler_puts_back"),
        (Lasting, "test_it_serves_the_next_event"),
        (Sulky, "test_undo_of_nothing_changes_nothing"),
        (Toggling, "test_undo_of_nothing_changes_nothing"),
        (Trusting, "test_undo_after_a_crash_puts_back"),
        (Trusting, "test_doing_it_again_after_a_crash_forgets_nothing"),
        (Overbearing, "test_what_others_did_stays"),
        (Boasting, "test_outcome_of_what_never_began"),
        (Meddling, "test_outcome_of_what_never_began"),
        (Denying, "test_outcome_of_what_was_cut_off"),
        (Patient, "test_it_fails_at_the_deadline"),
        (Optimistic, "test_it_fails_at_the_deadline"),
        (Wordy, "test_it_fails_at_the_deadline"),
        (Deaf, "test_it_stops_waiting_when_told_to"),
        (Optimistic, "test_it_stops_waiting_when_told_to"),
        (Eager, "test_making_one_touches_nothing"),
        (Undecided, "test_it_says_whether_it_repeats_and_is_shared"),
        (Swallowing, "test_unknown_settings_are_refused"),
        (Nameless, "test_unknown_settings_are_refused"),
        (ClosingOnce, "test_close_may_be_repeated"),
    ],
)
def test_a_handler_that_breaks_a_rule_fails_its_test(handler: type[HonestHandler], rule: str, tmp_path: Path) -> None:
    """Each rule has a handler that it catches."""
    trial = ServerTrial(handler, tmp_path / "kept")
    trial.slack = 0.2
    with pytest.raises((AssertionError, pytest.fail.Exception, RuntimeError, msgspec.ValidationError)):
        getattr(HandlerContract(), rule)(trial)
    trial.server.released.set()


def test_every_rule_has_a_handler_that_it_catches() -> None:
    """No rule stands there untried."""
    mark = next(iter(test_a_handler_that_breaks_a_rule_fails_its_test.pytestmark))  # type: ignore[attr-defined]
    tried = {rule for _, rule in mark.args[1]}

    assert tried == {name for name in dir(HandlerContract) if name.startswith("test_")}


def test_outcomes_after_a_crash_are_compared_with_the_application(tmp_path: Path) -> None:
    """One that says Done though the crash came before anything was done is caught too."""

    class CutOff(ServerTrial):
        def crash_during(self, task: Task) -> None:
            pass

    with pytest.raises(AssertionError):
        HandlerContract().test_outcome_of_what_was_cut_off(CutOff(Boasting, tmp_path / "kept"))
