"""The newest lines of the history that pages have read, so that the next page reads only what came since."""

from forewarn.audit.history_lines import HistoryLine
from forewarn.core.fleet import Fleet
from forewarn.core.model import Role
from forewarn.node.feed import Commit

_Key = tuple[Role, int]
"""A role, which says what may be seen, and a number of lines. Owners see different lines, and are not among them."""


class KnownLines:
    """Remembers lines, and the revision up to which they were read."""

    def __init__(self) -> None:
        self._known: dict[_Key, tuple[int, tuple[HistoryLine, ...]]] = {}

    def load(self, fleet: Fleet) -> None:
        """Forget everything: the journal may be another one."""
        self._known.clear()

    def publish(self, commit: Commit) -> None:
        """Do nothing: the next page reads what is newer."""

    def get(self, key: _Key) -> tuple[int, tuple[HistoryLine, ...]]:
        """Return the revision up to which lines were read, and the newest of them."""
        return self._known.get(key, (0, ()))

    def keep(self, key: _Key, revision: int, lines: tuple[HistoryLine, ...]) -> None:
        """Keep what was read, unless another page has read further meanwhile."""
        if self.get(key)[0] < revision:
            self._known[key] = revision, lines
