"""Records of requests: which groups asked, and which VMs were shown which events, collected for batches."""

from collections.abc import Callable
from datetime import datetime, timedelta

import msgspec

from forewarn.core.facts import Fetch, Mark
from forewarn.core.notice import Rules
from forewarn.metadata.document_cache import DocumentCache, GroupDocuments, VmEntry
from forewarn.wire.versions import API_VERSIONS


class SweepResult(msgspec.Struct, frozen=True):
    """Result of one slice of a sweep."""

    asked: list[Mark]
    """Groups that asked since their record became outdated."""
    idle: list[Mark]
    """Enrolled groups that have been idle long enough to be switched off."""
    is_over: bool
    """Every enrolled group was checked once; the next call begins again."""


class RequestRecords:
    """Sweeps the enrolled groups a slice at a time, and records first fetches of events."""

    def __init__(
        self, document_cache: DocumentCache, rules: Rules, seconds: Callable[[], float], now: Callable[[], datetime]
    ) -> None:
        self._document_cache = document_cache
        self._mark_after = rules.mark_after.total_seconds()
        self._idle_after = rules.idle_after.total_seconds()
        self._seconds = seconds
        self._now = now
        self._next = 0
        self._fetches: list[Fetch] = []
        self.noted: Callable[[], None] = lambda: None
        """Called when the first unsubmitted fetch is recorded."""

    def sweep(self, count: int = 2_000, since: float | None = None) -> SweepResult:
        """Check the next ``count`` groups: few enough that no request waits longer than two milliseconds.

        Time before ``since``, when the clock was last found wrong, does not make a group idle.
        """
        seconds, now = self._seconds(), self._now()
        may_be_idle = since is None or seconds - since >= self._idle_after
        asked: list[Mark] = []
        idle: list[Mark] = []
        groups = self._document_cache.enrolled
        for _ in range(count):
            if self._next >= len(groups):
                self._next = 0
                return SweepResult(asked, idle, is_over=True)
            documents = groups[self._next]
            if not documents.is_enrolled:
                # Move the last one here: the order has no meaning, and no other entry has to move.
                groups[self._next] = groups[-1]
                groups.pop()
                documents.is_listed = False
                continue
            self._next += 1
            if may_be_idle and seconds - documents.asked >= self._idle_after:
                idle.append(_mark(documents, now, seconds))
            elif documents.asked > documents.marked and seconds - documents.marked >= self._mark_after:
                asked.append(_mark(documents, now, seconds))
        return SweepResult(asked, idle, is_over=False)

    def last_asked(self, group: str) -> Mark | None:
        """Return when the group last asked, and which VM; without a VM, at the start, if none asked since."""
        documents = self._document_cache.groups.get(group)
        if documents is None or not (documents.asked_by or documents.is_enrolled):
            return None
        return _mark(documents, self._now(), self._seconds())

    def note_shown(self, vm_entry: VmEntry, documents: GroupDocuments, version: int) -> None:
        """Record the events that a VM is shown for the first time."""
        bit = 1 << version
        if vm_entry.shown == documents.incarnation:
            earlier = 0
            vm_entry.shown_in |= bit
        else:
            # Events shown at the last request are recorded already, if this api-version shows them.
            earlier = vm_entry.shown if vm_entry.shown_in & bit else 0
            vm_entry.shown, vm_entry.shown_in = documents.incarnation, bit
        now = self._now()
        name = vm_entry.vm.name
        types = API_VERSIONS[version].types
        for event in documents.events:
            if event.since > earlier and event.type in types and name not in event.fetched_by:
                self._fetches.append(Fetch(event.id, name, now))
                if len(self._fetches) == 1:
                    self.noted()

    @property
    def has_fetches(self) -> bool:
        """Return whether fetches were recorded since the last ``take_fetches``."""
        return bool(self._fetches)

    def take_fetches(self) -> tuple[Fetch, ...]:
        """Return the fetches recorded since the last call."""
        fetches = tuple(self._fetches)
        self._fetches.clear()
        return fetches

    def put_back(self, fetches: tuple[Fetch, ...]) -> None:
        """Take fetches back that could not be submitted. No new events occur meanwhile, so the list stays bounded."""
        self._fetches[:0] = fetches


def _mark(documents: GroupDocuments, now: datetime, seconds: float) -> Mark:
    return Mark(
        documents.terms.name, now - timedelta(seconds=max(0.0, seconds - documents.asked)), documents.asked_by
    )
