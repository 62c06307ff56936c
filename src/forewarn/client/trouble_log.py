"""Tells the log about trouble once, not at each attempt."""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import logging

_FORGET = 60.0
"""Seconds without trouble after which the same trouble is news again."""


class TroubleLog:
    """One warning when trouble begins or becomes another, one line when it is over."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._told: set[str] = set()
        self._last = 0.0
        self._is_warned = False
        self.present = ""
        """The present trouble as a sentence; empty while all is well."""

    def begin(self, kind: str, sentence: str) -> None:
        """Hear of trouble, of a kind that was told already or not."""
        now = self._seconds()
        if not self.present and now - self._last > _FORGET:
            self._told.clear()
        self._last = now
        self.present = sentence
        if kind not in self._told:
            self._told.add(kind)
            self._is_warned = True
            _logger().warning("%s; asking again", sentence)

    def over(self) -> None:
        """Hear that all is well."""
        if not self.present:
            return
        self._last = self._seconds()
        self.present = ""
        if self._is_warned:
            self._is_warned = False
            _logger().info("the service answers again")


def _logger() -> "logging.Logger":
    import logging  # noqa: PLC0415 - it costs more than all the rest of a client that has nothing to complain about

    return logging.getLogger("forewarn.client")
