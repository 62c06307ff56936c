"""The newest lines of the history that pages have read, so that the next page reads only what came since."""

from collections.abc import Hashable
from typing import get_args

from forewarn.audit.history_lines import HistoryLine
from forewarn.core.access import Principal
from forewarn.core.facts import Fetched, RecordSetChanged
from forewarn.core.fleet import Fleet
from forewarn.core.model import Role
from forewarn.core.subjects import group_of, groups_of
from forewarn.node.feed import Commit

_Lines = tuple[HistoryLine, ...]
_Wanted = Hashable
"""Which lines, and how many."""
_Key = tuple[Role, _Wanted]
"""A role, which says what may be seen, and what is wanted."""
_OwnedKey = tuple[frozenset[str], _Wanted]
"""The groups of an owner, and what is wanted."""
_MOST_OWNED = 1_000
"""Sets of groups whose lines are kept."""


class KnownLines:
    """Remembers lines, and the revision up to which they were read."""

    def __init__(self) -> None:
        self._known: dict[_Key, tuple[int, _Lines]] = {}

    def load(self, fleet: Fleet) -> None:
        """Forget everything: the journal may be another one."""
        self._known.clear()

    def publish(self, commit: Commit) -> None:
        """Do nothing: the next page reads what is newer."""

    def get(self, key: _Key) -> tuple[int, _Lines]:
        """Return the revision up to which lines were read, and the newest of them."""
        return self._known.get(key, (0, ()))

    def keep(self, key: _Key, revision: int, lines: _Lines) -> None:
        """Keep what was read, unless another page has read further meanwhile."""
        if self.get(key)[0] < revision:
            self._known[key] = revision, lines


class OwnedLines:
    """Remembers the lines of owners until something happens to one of their groups.

    So the next page of an owner reads nothing because of what happened to others.
    """

    def __init__(self) -> None:
        self._known: dict[_OwnedKey, _Lines | object] = {}

    def load(self, fleet: Fleet) -> None:
        """Forget everything: the journal may be another one."""
        self._known.clear()

    def publish(self, commit: Commit) -> None:
        """Forget the lines of the groups that the commit concerns."""
        if not self._known:
            return
        if commit.holds(get_args(RecordSetChanged)):
            self._known.clear()
            return
        changed = _groups_of(commit)
        for key in [key for key in self._known if not changed.isdisjoint(key[0])]:
            del self._known[key]

    def get(self, principal: Principal, wanted: _Wanted) -> _Lines | None:
        """Return the newest lines if they are known."""
        lines = self._known.get((principal.groups, wanted))
        return lines if isinstance(lines, tuple) else None

    def begin(self, principal: Principal, wanted: _Wanted) -> object:
        """Say that lines are about to be read up to the present revision; pass the result to ``keep``."""
        while len(self._known) >= _MOST_OWNED:
            del self._known[next(iter(self._known))]
        reading = self._known[principal.groups, wanted] = object()
        return reading

    def keep(self, principal: Principal, wanted: _Wanted, reading: object, lines: _Lines) -> None:
        """Keep what was read, unless something happened to these groups meanwhile."""
        if self._known.get((principal.groups, wanted)) is reading:
            self._known[principal.groups, wanted] = lines


def _groups_of(commit: Commit) -> set[str]:
    """Return the groups that lines of these facts name."""
    vms, events = commit.fleet.vms, commit.fleet.events
    found: set[str] = set()
    for entry in commit.entries:
        for fact in entry.facts:
            found.update(groups_of(fact))
            found.add(group_of(fact, entry, lambda vm: vms[vm].group if vm in vms else "", lambda _: ""))
            if isinstance(fact, Fetched):
                found.update(events[each.event].group for each in fact.fetches if each.event in events)
    return found
