"""History queries: by VM, group, host, event, caller and time, in pages from either end.

The journal's index finds the entries. The history of a VM, group or host contains the entries that name it, and all
entries of its events. Times are converted to revisions by binary search: entries are ordered by time.

The history of an owner is read from the entries of its own groups only, so that neither a response nor its duration
reveals anything about other owners.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import takewhile

import msgspec

from forewarn.audit.history_lines import HistoryFocus, HistoryFormatter, HistoryLine
from forewarn.core.access import Action, Principal
from forewarn.core.facts import Entry, EventCreated
from forewarn.core.fleet import Fleet
from forewarn.core.model import CallerKind, Event
from forewarn.core.subjects import (
    subject_of_event,
    subject_of_group,
    subject_of_host,
    subject_of_rollout,
    subject_of_vm,
)
from forewarn.journal.port import Journal
from forewarn.wire.azure_names import read_id

_CHUNK = 200
"""Number of entries that are read at a time if it is unknown how many are needed."""
_GROWTH = 8
"""How many times as many are read next if there were too few lines in them."""
_MOST_READ = 10_000
"""Entries of one subject among which the newest lines of some kinds are looked for."""
_PEOPLE = frozenset({CallerKind.OPERATOR, CallerKind.OWNER})
_TOKEN_FACTS = frozenset({"token-created", "token-revoked"})
_SUBSCRIPTION_FACTS = frozenset({"subscription-set", "subscription-removed", "delivered"})


class HistoryQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A query; entries must match all of its fields."""

    vm: str = ""
    group: str = ""
    host: str = ""
    rollout: str = ""
    event: str = ""
    """The complete id of an event."""
    caller: str = ""
    facts: frozenset[str] = frozenset()
    """Kinds of facts; all, if there are none."""
    only_people: bool = False
    """Leave out what VMs and the service itself did."""
    since: datetime | None = None
    until: datetime | None = None
    """Lines before this time."""
    oldest_first: bool = False
    limit: int = 100
    after: int = 0
    """Lines of entries after this revision."""
    behind: tuple[int, int] | None = None
    """The position of the last line of the previous page."""


class HistoryPage(msgspec.Struct, frozen=True):
    """A page of the history."""

    lines: tuple[HistoryLine, ...]
    is_all: bool
    """This is the last page."""


def read_history_page(
    journal: Journal, fleet: Fleet, last: int, query: HistoryQuery, principal: Principal
) -> HistoryPage:
    """Read a page of the history, up to revision ``last``. It reads the disk: do not call it on the event loop."""
    return _HistoryReader(journal, fleet, query, principal).answer(last)


def read_newest_lines(
    journal: Journal, fleet: Fleet, last: int, query: HistoryQuery, principal: Principal, known: Iterable[Event]
) -> tuple[HistoryLine, ...]:
    """Read the newest lines, up to revision ``last``: what it costs goes by their number, not by the whole history.

    ``known`` are events that have not ended, or ended lately. The end of any other event is found if its announcement
    is among the newest entries. It reads the disk: do not call it on the event loop.
    """
    return _HistoryReader(journal, fleet, query, principal).newest(last, known)


class _HistoryReader:
    """The evaluation of one query."""

    def __init__(self, journal: Journal, fleet: Fleet, query: HistoryQuery, principal: Principal) -> None:
        self._journal = journal
        self._fleet = fleet
        self._query = query
        self._principal = principal
        self._events: dict[str, Event | None] = {}
        groups = frozenset({query.group} if query.group else principal.groups)
        self._formatter = HistoryFormatter(self._event_of, self._group_of, HistoryFocus(query.vm, groups, query.host))

    def answer(self, last: int) -> HistoryPage:
        return self._page(self._entries(*self._between(last)))

    def newest(self, last: int, known: Iterable[Event]) -> tuple[HistoryLine, ...]:
        low, high = self._between(last)
        subjects = self._subjects()
        if not subjects:
            return self.answer(last).lines
        events = {event.id: event for event in known if self._concerns(event)}
        size, is_chosen = max(_CHUNK, self._query.limit), bool(self._query.facts or self._query.only_people)
        while True:
            floor, entries = self._newest_lives(subjects, events, low, high, size)
            page = self._page(entries)
            is_read = is_chosen and size > _MOST_READ
            if floor == low or is_read or len(page.lines) == self._query.limit:
                return page.lines
            size *= _GROWTH

    def _page(self, entries: Iterable[Entry]) -> HistoryPage:
        found: list[HistoryLine] = []
        for entry in entries:
            lines = list(self._formatter.lines(entry))
            for line in lines if self._query.oldest_first else reversed(lines):
                if not self._fits(line):
                    continue
                if len(found) == self._query.limit:
                    return HistoryPage(tuple(found), is_all=False)
                found.append(line)
        return HistoryPage(tuple(found), is_all=True)

    def _between(self, last: int) -> tuple[int, int]:
        """Return the lower and upper bound (both exclusive) of the revisions to read."""
        query = self._query
        low = first_revision_since(self._journal, query.since, last) - 1 if query.since else 0
        low = max(low, query.after)
        high = first_revision_since(self._journal, query.until, last) if query.until else last + 1
        if query.behind and query.oldest_first:
            low = max(low, query.behind[0] - 1)
        elif query.behind:
            high = min(high, query.behind[0] + 1)
        return low, high

    def _entries(self, low: int, high: int) -> Iterator[Entry]:
        """Yield the matching entries, and possibly others, in the order of the query."""
        query = self._query
        if (subjects := self._subjects()) is not None:
            return self._lives(subjects, low, high)
        if query.event:
            return self._about(subject_of_event(query.event), low, high)
        if query.rollout:
            return self._about(subject_of_rollout(query.rollout), low, high)
        if query.caller:
            return self._about(f"caller:{query.caller}", low, high)
        return self._all(low, high)

    def _subjects(self) -> list[str] | None:
        """Return the subjects of a query for which the entries of their events count as well; None for any other."""
        query = self._query
        if query.event:
            return None
        if not self._principal.sees_all:
            return self._owned()
        if query.vm:
            return [subject_of_vm(query.vm)]
        if query.group:
            return self._subjects_of_group(query.group)
        return [subject_of_host(query.host)] if query.host and not query.rollout else None

    def _owned(self) -> list[str]:
        """Return the subjects of an owner's query: the VM or group that it names, else all of its groups."""
        query, groups = self._query, self._principal.groups
        if query.vm and self._group_of(query.vm) in groups:
            return [subject_of_vm(query.vm)]
        named = groups & {query.group} if query.group else groups
        return [subject for group in sorted(named) for subject in self._subjects_of_group(group)]

    def _subjects_of_group(self, name: str) -> list[str]:
        group = self._fleet.groups.get(name)
        return [subject_of_group(name), *(subject_of_vm(vm) for vm in (group.vms if group else ()))]

    def _lives(self, subjects: list[str], low: int, high: int) -> Iterator[Entry]:
        """Yield the entries that name the subjects, and all entries of their events."""
        found: dict[int, Entry] = {}
        events: dict[str, Event] = {}
        for subject in subjects:
            for entry in self._journal.history(subject, before=high):
                events.update((event.id, event) for event in _announced_events(entry) if self._concerns(event))
                if entry.revision > low:
                    found[entry.revision] = entry
        for id_ in events:
            lives = self._journal.history(subject_of_event(id_), after=low, before=high)
            found.update((entry.revision, entry) for entry in lives)
        self._events.update(events)
        for revision in sorted(found, reverse=not self._query.oldest_first):
            yield found[revision]

    def _newest_lives(
        self, subjects: list[str], known: dict[str, Event], low: int, high: int, size: int
    ) -> tuple[int, list[Entry]]:
        """Return what ``_lives`` yields above a revision, the newest first, and this revision.

        It is so high that fewer than ``size`` entries concern any of the subjects, or any of the events.
        """
        found: dict[int, Entry] = {}

        def read(subject: str) -> None:
            nonlocal low
            part = self._journal.history(subject, after=low, before=high, limit=size)
            if len(part) == size:
                low = part[0].revision
            found.update((entry.revision, entry) for entry in part)

        for subject in subjects:
            read(subject)
        created = (event for entry in found.values() for event in _announced_events(entry))
        events = {**known, **{event.id: event for event in created if self._concerns(event)}}
        for id_ in events:
            read(subject_of_event(id_))
        self._events.update(events)
        return low, [found[revision] for revision in sorted(found, reverse=True) if revision > low]

    def _about(self, subject: str, low: int, high: int) -> Iterator[Entry]:
        oldest_first = self._query.oldest_first
        while part := self._journal.history(subject, after=low, before=high, limit=_CHUNK, from_oldest=oldest_first):
            yield from part if oldest_first else reversed(part)
            low, high = (part[-1].revision, high) if oldest_first else (low, part[0].revision)

    def _all(self, low: int, high: int) -> Iterator[Entry]:
        size = 1  # a single entry may hold all lines that are needed, and be large
        while low + 1 < high:
            begin = low if self._query.oldest_first else max(low, high - 1 - size)
            found = self._journal.entries(begin, min(size, high - 1 - begin))
            size = min(2 * size, _CHUNK)
            # If the oldest entries were deleted, the first entry of the journal may be above ``high``.
            part = list(takewhile(lambda entry: entry.revision < high, found))  # noqa: B023 - it is consumed here
            if not part:
                return
            yield from part if self._query.oldest_first else reversed(part)
            low, high = (part[-1].revision, high) if self._query.oldest_first else (low, begin + 1)

    def _concerns(self, event: Event) -> bool:
        query = self._query
        return (
            (not query.vm or query.vm in event.resources)
            and query.group in ("", event.group)
            and query.host in ("", event.host)
            and self._principal.sees(event.group)
        )

    def _fits(self, line: HistoryLine) -> bool:
        query, principal = self._query, self._principal
        if query.behind and not (line.place > query.behind if query.oldest_first else line.place < query.behind):
            return False
        return (
            principal.sees(line.group)
            and (principal.may(Action.KEEP_TOKENS) or line.fact not in _TOKEN_FACTS)
            and (principal.may(Action.KEEP_SUBSCRIPTIONS) or line.fact not in _SUBSCRIPTION_FACTS)
            and (not query.vm or query.vm in line.vms)
            and query.group in ("", line.group)
            and query.host in ("", line.host)
            and query.rollout in ("", line.detail.get("rollout"))
            and query.event in ("", read_id(line.event))
            and query.caller in ("", line.by)
            and (not query.facts or line.fact in query.facts)
            and (not query.only_people or line.kind in _PEOPLE)
        )

    def _group_of(self, vm: str) -> str:
        known = self._fleet.vms.get(vm)
        return known.group if known else ""

    def _event_of(self, id_: str) -> Event | None:
        """Find an event by its first entry, which announced it."""
        if id_ not in self._events:
            first = self._journal.history(subject_of_event(id_), limit=1, from_oldest=True)
            born = (event for entry in first for event in _announced_events(entry) if event.id == id_)
            self._events[id_] = next(born, None)
        return self._events[id_]


def first_revision_since(journal: Journal, when: datetime, last: int) -> int:
    """Return the first revision at or after a time; if there is none, the one after the last."""
    low, high = 1, last + 1
    while low < high:
        middle = (low + high) // 2
        # If entries were deleted, the first kept one is used instead.
        entry = next(iter(journal.entries(middle - 1, 1)), None)
        if entry is not None and entry.at < when:
            low = max(entry.revision, middle) + 1
        else:
            high = middle
    return low


def _announced_events(entry: Entry) -> Iterator[Event]:
    return (fact.event for fact in entry.facts if isinstance(fact, EventCreated))
