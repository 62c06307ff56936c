"""Events that ended lately and approvals with their times, kept in memory for pages that are read again and again.

The fleet holds neither: an event leaves it with its end, and it knows who approved but not when. What happened before
this process began to follow is read from the journal once for each set of groups that is asked for; from then on
commits keep it current. Both memories are bounded.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import get_args

import msgspec

from forewarn.core import lifecycle
from forewarn.core.access import Principal
from forewarn.core.facts import Approved, Entry, EventCreated, EventEnded, EventFact, Failed, Fetched
from forewarn.core.fleet import Fleet
from forewarn.core.model import Event
from forewarn.core.subjects import FINISHED, event_of, subject_of_event, subject_of_group
from forewarn.journal.port import Journal
from forewarn.node.feed import Commit
from forewarn.node.node import Node

FAILURES_FOR = timedelta(hours=12)
"""How long failed events are shown, however many have ended since."""
_READ = 500
"""Ended events that are read from the journal at first."""
_SEARCHED = 5_000
"""Ended events among which failures are searched at first."""


class TimedApproval(msgspec.Struct, frozen=True, gc=False):
    """One approval, with its time."""

    by: str
    at: datetime


class EndedEvent(msgspec.Struct, frozen=True, gc=False):
    """An event that has ended, and how."""

    event: Event
    at: datetime
    reason: str = ""
    """Why it failed or was canceled."""
    approvals: tuple[TimedApproval, ...] = ()


class _FollowedEvents:
    """Folds facts of events; calls back with each one that ends."""

    def __init__(self) -> None:
        self.live: dict[str, Event] = {}
        self.approvals: dict[str, tuple[TimedApproval, ...]] = {}

    def follow(self, facts: Iterable[object]) -> Iterable[EndedEvent]:
        for fact in facts:
            if not isinstance(fact, EventFact):
                continue
            id_ = event_of(fact)
            event = lifecycle.follow(self.live.get(id_), fact)
            if event is None:
                continue
            self.live[id_] = event
            if isinstance(fact, Approved):
                given = TimedApproval(fact.by.name, fact.at)
                self.approvals[id_] = (*self.approvals.get(id_, ()), given)
            if isinstance(fact, EventEnded):
                del self.live[id_]
                reason = str(getattr(fact, "reason", "") or getattr(fact, "because", ""))
                yield EndedEvent(event, fact.at, reason, self.approvals.pop(id_, ()))


class RecentEvents:
    """Follows commits; answers what ended lately, and when an unfinished event was approved."""

    def __init__(self, node: Node, journal: Journal, *, most: int = 2_000, read: int = _READ) -> None:
        """``most``: ended events that are kept, and failed ones beside them; ``read``: those read at first."""
        self._node = node
        self._journal = journal
        self._most = most
        self._read = read
        self._followed = _FollowedEvents()
        self._ended: dict[str, EndedEvent] = {}
        self._failed: dict[str, EndedEvent] = {}
        self._known: set[tuple[str, ...]] = set()
        """Sets of groups whose past was read; the empty one is all."""

    def load(self, fleet: Fleet) -> None:
        self._followed = _FollowedEvents()
        self._followed.live = dict(fleet.events)
        self._ended.clear()
        self._failed.clear()
        self._known.clear()

    def publish(self, commit: Commit) -> None:
        if not commit.holds((*get_args(EventFact), Fetched)):
            return
        for ended in self._followed.follow(fact for entry in commit.entries for fact in entry.facts):
            self._keep(ended)
        for entry in commit.entries:
            for fact in entry.facts:
                named = [each.event for each in fact.fetches] if isinstance(fact, Fetched) else ()
                for id_ in named:
                    if event := commit.fleet.events.get(id_):
                        self._followed.live[id_] = event

    async def ended(self, principal: Principal, limit: int, group: str = "") -> list[EndedEvent]:
        """Return the events that ended last, of one group or of all that it may see, the latest at the end."""
        await self._read_past(principal, group)
        fitting = {id_: each for id_, each in self._ended.items() if _fits(each, principal, group)}
        groups = _groups_of(principal, group)
        if groups and len(fitting) < limit and len(self._ended) >= self._most and _sees(principal, group):
            # Events of other groups have displaced them.
            found, _ = await self._node.replica.read(lambda: self._past(groups, self._node.clock.now(), []))
            fitting = {id_: each for id_, each in found.items() if _fits(each, principal, group)} | fitting
        return sorted(fitting.values(), key=_end)[-limit:]

    async def failures(self, principal: Principal) -> list[EndedEvent]:
        """Return the events that failed in the last hours, the latest first."""
        await self._read_past(principal, "")
        since = self._node.clock.now() - FAILURES_FOR
        fitting = (each for each in self._failed.values() if each.at >= since and _fits(each, principal, ""))
        return sorted(fitting, key=_end, reverse=True)

    def kept(self) -> tuple[Event, ...]:
        """Return the ended events that are in memory, whoever may see them."""
        return tuple(each.event for each in self._ended.values())

    def approvals_of(self, id_: str) -> tuple[TimedApproval, ...]:
        """Return the approvals of an unfinished event."""
        return self._followed.approvals.get(id_, ())

    def _keep(self, ended: EndedEvent) -> None:
        for kept in (self._ended, *((self._failed,) if ended.event.status is lifecycle.LEADS_TO[Failed] else ())):
            kept[ended.event.id] = ended
            while len(kept) > self._most:
                del kept[next(iter(kept))]

    async def _read_past(self, principal: Principal, group: str) -> None:
        groups = _groups_of(principal, group)
        if groups in self._known or not _sees(principal, group):
            return
        if len(self._known) >= self._most:
            self._known.clear()
        self._known.add(groups)
        live = [event.id for event in principal.known_events(self._node.replica.fleet) if _is_approved(event)]
        since = self._node.clock.now() - FAILURES_FOR
        try:
            found, approvals = await self._node.replica.read(lambda: self._past(groups, since, live[: self._read]))
        except BaseException:
            self._known.discard(groups)
            raise
        later = [each for each in self._ended.values() if each.event.id not in found]
        failed_later = [each for each in self._failed.values() if each.event.id not in found]
        self._ended.clear()
        self._failed.clear()
        for each in sorted((*found.values(), *later, *failed_later), key=_end):
            self._keep(each)
        for id_, given in approvals.items():
            if id_ in self._followed.live and len(given) > len(self.approvals_of(id_)):
                self._followed.approvals[id_] = given

    def _past(
        self, groups: tuple[str, ...], since: datetime, live: list[str]
    ) -> tuple[dict[str, EndedEvent], dict[str, tuple[TimedApproval, ...]]]:
        found: dict[str, EndedEvent] = {}
        for id_ in self._ended_ids(groups, since):
            found.update({each.event.id: each for each in self._fold(id_)[0] if each.event.id == id_})
        return found, {id_: self._fold(id_)[1].approvals.get(id_, ()) for id_ in live}

    def _fold(self, id_: str) -> tuple[list[EndedEvent], _FollowedEvents]:
        followed = _FollowedEvents()
        facts = (fact for entry in self._journal.history(subject_of_event(id_)) for fact in entry.facts)
        mine = (fact for fact in facts if isinstance(fact, EventFact) and event_of(fact) == id_)
        return list(followed.follow(mine)), followed

    def _ended_ids(self, groups: tuple[str, ...], since: datetime) -> list[str]:
        """Return events that may have ended last, and those that failed lately."""
        entries: dict[int, Entry] = {}
        for subject in [subject_of_group(name) for name in groups] or [FINISHED]:
            entries |= {entry.revision: entry for entry in self._journal.history(subject, limit=_SEARCHED)}
        facts = (fact for revision in sorted(entries) for fact in entries[revision].facts)
        if groups:  # the index of a group has announcements, not ends; what has not ended is left out by the fold
            created = (fact.event for fact in facts if isinstance(fact, EventCreated))
            return list(dict.fromkeys(event.id for event in created if event.group in groups))[-self._read :]
        ends = [fact for fact in facts if isinstance(fact, EventEnded)]
        older = (fact for fact in ends[: -self._read] if isinstance(fact, Failed) and fact.at >= since)
        return [fact.event for fact in (*older, *ends[-self._read :])]


def _groups_of(principal: Principal, group: str) -> tuple[str, ...]:
    return (group,) if group else () if principal.sees_all else tuple(sorted(principal.groups))


def _sees(principal: Principal, group: str) -> bool:
    return not group or principal.sees(group)


def _end(ended: EndedEvent) -> datetime:
    return ended.at


def _fits(ended: EndedEvent, principal: Principal, group: str) -> bool:
    return principal.sees(ended.event.group) and group in ("", ended.event.group)


def _is_approved(event: Event) -> bool:
    return bool(event.approvals or event.neighbours or event.approved_by)
