"""Sixteen ways in which somebody else's driver can be wrong, for the tests of the node and of the contract."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from forewarn.node.driver import Done, Impact, Outcome, Underway
from forewarn.node.driver import Failed as FailedOutcome

RELEASED = threading.Event()
"""Lets calls return that never would; a test that made some sets it at its end."""


def _raise(error: BaseException) -> Any:
    raise error


def hang() -> Any:
    RELEASED.wait(20)


class WrongDriver:
    """Answers wrongly for web-0 and rightly for other VMs; cannot be closed."""

    moves_live = False

    def __init__(self, answer: Callable[[], Any]) -> None:
        self._answer = answer

    def perform(self, impact: Impact) -> Outcome:
        answer: Outcome = self._answer() if impact.vms[0].name == "web-0" else Done()
        return answer

    def outcome_of(self, impact: Impact) -> Outcome:
        return self.perform(impact)

    def close(self) -> None:
        raise RuntimeError("closed badly")


class Hurried(WrongDriver):
    """The fourteenth way: wants to be asked again at a time that has passed, four times."""

    def __init__(self, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        super().__init__(Done)
        self._now = now
        self.asked_at: list[datetime] = []

    def perform(self, impact: Impact) -> Outcome:
        self.asked_at.append(self._now())
        return Underway(self._now() - timedelta(seconds=1)) if len(self.asked_at) < 5 else Done()


ANSWERS: dict[str, tuple[Callable[[], Any], str]] = {
    "returns nothing": (lambda: None, "returned None, which is no outcome"),
    "returns a word": (lambda: "done", "returned 'done', which is no outcome"),
    "returns a class": (lambda: Done, "returned Done, a class, which is no outcome"),
    "returns a detail that is no text": (lambda: Done(detail=7), "a Done that is wrong"),  # type: ignore[arg-type]
    "returns hosts that are no mapping": (lambda: Done(hosts=["h1"]), "a Done that is wrong"),  # type: ignore[arg-type]
    "returns a reason that is no text": (lambda: FailedOutcome(None), "a Failed that is wrong"),  # type: ignore[arg-type]
    "returns a time that is none": (lambda: Underway("soon"), "Underway that is wrong"),  # type: ignore[arg-type]
    "returns a time without a zone": (lambda: Underway(datetime(2026, 1, 1)), "no time zone"),  # noqa: DTZ001
    "raises an error": (
        lambda: _raise(RuntimeError("boom")),
        "raised RuntimeError: boom at tests.node.wrong_drivers:",
    ),
    "raises an error without words": (lambda: _raise(KeyError()), "raised KeyError at tests.node.wrong_drivers:"),
    "ends the process": (lambda: _raise(SystemExit(3)), "raised SystemExit: 3 at tests.node.wrong_drivers:"),
    "raises an error that is not Unicode": (lambda: _raise(RuntimeError("\ud800")), "RuntimeError: \\ud800"),
    "returns a reason that is not Unicode": (lambda: FailedOutcome("\ud800"), "a Failed that is wrong"),
    "raises StopIteration": (lambda: _raise(StopIteration()), "raised StopIteration at tests.node.wrong_drivers:"),
    "never returns": (hang, "not return"),
}
"""What each of them answers, and what is said of it."""

INCOMPLETE: dict[str, object] = {
    "was not made": None,
    "lacks members": type("Half", (), {"perform": print, "moves_live": True})(),
}
"""The fifteenth and sixteenth."""
