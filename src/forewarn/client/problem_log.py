"""Logs each problem once, not at each attempt."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from forewarn.client.endpoint_problem import shorten
from forewarn.wire.azure_names import show_id

if TYPE_CHECKING:
    import logging

    from forewarn.wire.document import UnreadableEvent

_FORGET = 60.0
"""Seconds without a problem after which the same problem is logged again."""
_MOST_LOGGED = 10
"""Maximum number of different problems that are logged until the service has recovered."""
_MOST_EVENTS = 10
"""Maximum number of unreadable events of one document that are listed; the rest is counted."""


class ProblemLog:
    """Logs a warning when a problem begins or changes, and a line when it has ended."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._logged: set[str] = set()
        self._last = 0.0
        self._is_warned = False
        self.present = ""
        """The current problem as a sentence; empty if there is none."""
        self._unreadable: frozenset[UnreadableEvent] = frozenset()
        self._recoveries = 0

    def recovery(self) -> Callable[[], bool]:
        """Return a function that says whether the problem has ended since now, for any call of the client."""
        seen = self._recoveries
        return lambda: self._recoveries != seen

    def begin(self, kind: str, sentence: str) -> None:
        """Note a problem; it is not logged again if it was logged before."""
        now = self._seconds()
        if not self.present and now - self._last > _FORGET:
            self._logged.clear()
        self._last = now
        self.present = sentence
        if kind in self._logged or len(self._logged) > _MOST_LOGGED:
            return
        self._logged.add(kind)
        self._is_warned = True
        if len(self._logged) > _MOST_LOGGED:
            _logger().warning("%s; asking again, and further troubles are not logged", sentence)
        else:
            _logger().warning("%s; asking again", sentence)

    def over(self) -> None:
        if not self.present:
            return
        self._last = self._seconds()
        self.present = ""
        self._recoveries += 1
        if self._is_warned:
            self._is_warned = False
            _logger().info("the service answers again")

    def ignored(self, unreadable: "tuple[UnreadableEvent, ...]") -> None:
        """Warn once of each unreadable event while the document contains it."""
        news = [event for event in dict.fromkeys(unreadable) if event not in self._unreadable]
        self._unreadable = frozenset(unreadable)
        for event in news[:_MOST_EVENTS]:
            _logger().warning(
                "the entry of event %s cannot be read and is ignored: %s",
                shorten(show_id(event.id)) or "(no id)",
                shorten(event.reason),
            )
        if len(news) > _MOST_EVENTS:
            _logger().warning("%d more entries cannot be read and are ignored", len(news) - _MOST_EVENTS)


def _logger() -> "logging.Logger":
    import logging  # noqa: PLC0415 - its import costs more than the rest of a client without problems

    return logging.getLogger("forewarn.client")
