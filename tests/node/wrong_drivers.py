"""Sixteen ways in which somebody else's driver can be wrong, for the tests of the node and of the contract."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from forewarn.node.driver import Impact, ImpactDone, ImpactOutcome, ImpactUnderway
from forewarn.node.driver import ImpactFailed as FailedOutcome

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

    def perform(self, impact: Impact) -> ImpactOutcome:
        answer: ImpactOutcome = self._answer() if impact.vms[0].name == "web-0" else ImpactDone()
        return answer

    def outcome_of(self, impact: Impact) -> ImpactOutcome:
        return self.perform(impact)

    def close(self) -> None:
        raise RuntimeError("closed badly")


class Hurried(WrongDriver):
    """The fourteenth way: wants to be asked again at a time that has passed, four times."""

    def __init__(self, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        super().__init__(ImpactDone)
        self._now = now
        self.asked_at: list[datetime] = []

    def perform(self, impact: Impact) -> ImpactOutcome:
        self.asked_at.append(self._now())
        return ImpactUnderway(self._now() - timedelta(seconds=1)) if len(self.asked_at) < 5 else ImpactDone()


ANSWERS: dict[str, tuple[Callable[[], Any], str]] = {
    "returns nothing": (lambda: None, "returned None, which is not an outcome"),
    "returns a word": (lambda: "done", "returned 'done', which is not an outcome"),
    "returns a class": (lambda: ImpactDone, "returned ImpactDone, a class, which is not an outcome"),
    "returns a detail that is no text": (lambda: ImpactDone(detail=7), "a wrong ImpactDone"),  # type: ignore[arg-type]
    "returns hosts that are no mapping": (lambda: ImpactDone(hosts=["h1"]), "a wrong ImpactDone"),  # type: ignore[arg-type]
    "returns a reason that is no text": (lambda: FailedOutcome(None), "a wrong ImpactFailed"),  # type: ignore[arg-type]
    "returns a time that is none": (lambda: ImpactUnderway("soon"), "a wrong ImpactUnderway"),  # type: ignore[arg-type]
    "returns a time without a zone": (lambda: ImpactUnderway(datetime(2026, 1, 1)), "no time zone"),  # noqa: DTZ001
    "raises an error": (
        lambda: _raise(RuntimeError("boom")),
        "raised RuntimeError: boom at tests.node.wrong_drivers:",
    ),
    "raises an error without words": (lambda: _raise(KeyError()), "raised KeyError at tests.node.wrong_drivers:"),
    "ends the process": (lambda: _raise(SystemExit(3)), "raised SystemExit: 3 at tests.node.wrong_drivers:"),
    "raises an error that is not Unicode": (lambda: _raise(RuntimeError("\ud800")), "RuntimeError: \\ud800"),
    "returns a reason that is not Unicode": (lambda: FailedOutcome("\ud800"), "a wrong ImpactFailed"),
    "raises StopIteration": (lambda: _raise(StopIteration()), "raised StopIteration at tests.node.wrong_drivers:"),
    "never returns": (hang, "not return"),
}
"""What each of them answers, and what is said of it."""

INCOMPLETE: dict[str, object] = {
    "was not made": None,
    "lacks members": type("Half", (), {"perform": print, "moves_live": True})(),
}
"""The fifteenth and sixteenth."""
