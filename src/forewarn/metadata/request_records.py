"""Records of requests: which groups asked, which VMs were shown which events; submitted to the node in batches."""

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime, timedelta

import msgspec

from forewarn.clocks import Timer
from forewarn.core.commands import Command, RecordAsked, RecordFetched, SwitchOff
from forewarn.core.errors import ForewarnError
from forewarn.core.facts import Fetch, Mark
from forewarn.core.model import NODE
from forewarn.core.notice import Rules
from forewarn.metadata.document_cache import DocumentCache, GroupDocuments, VmEntry
from forewarn.node.node import Node
from forewarn.randomness import new_id
from forewarn.wire.versions import API_VERSIONS

log = logging.getLogger(__name__)


_GROUPS_IN_A_ROW = 20_000
"""Groups that are looked at for one report: few enough that no request waits longer than some milliseconds."""
_RECORDS_IN_AN_ENTRY = 2_000
"""Marks or fetches in one command: every process that follows takes in an entry in one step."""


class GroupAsked(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """That a VM of a group asked, in seconds of the cache's clock, which all processes of a machine share."""

    group: str
    seconds: float
    vm: str


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
        self,
        document_cache: DocumentCache,
        rules: Rules,
        seconds: Callable[[], float],
        now: Callable[[], datetime],
        *,
        groups_in_a_row: int = _GROUPS_IN_A_ROW,
    ) -> None:
        self._document_cache = document_cache
        self._groups_in_a_row = groups_in_a_row
        self._mark_after = rules.mark_after.total_seconds()
        self._idle_after = rules.idle_after.total_seconds()
        self._seconds = seconds
        self._now = now
        self._next = 0
        self._fetches: list[Fetch] = []
        self.noted: Callable[[], None] = lambda: None
        """Called when the first unsubmitted fetch is recorded."""

    def sweep(self, count: int = _RECORDS_IN_AN_ENTRY, since: float | None = None) -> SweepResult:
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
                self._remove_next()
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

    def add_fetches(self, fetches: tuple[Fetch, ...]) -> None:
        """Record the fetches that another process of this service answered."""
        if fetches:
            self._fetches += fetches
            self.noted()

    def take_asked(self) -> tuple[GroupAsked, ...]:
        """Return the groups among the next ones that asked since this last returned them.

        For a process that reports to another one, which sweeps.
        """
        groups = self._document_cache.enrolled
        asked: list[GroupAsked] = []
        for _ in range(min(self._groups_in_a_row, len(groups))):
            if self._next >= len(groups):
                self._next = 0
            documents = groups[self._next]
            if not documents.is_enrolled:
                self._remove_next()
                if not groups:
                    break
                continue
            self._next += 1
            if documents.asked > documents.marked:
                documents.marked = documents.asked
                asked.append(GroupAsked(documents.terms.name, documents.asked, documents.asked_by))
        return tuple(asked)

    def _remove_next(self) -> None:
        """Remove a group from those to sweep."""
        groups = self._document_cache.enrolled
        # Move the last one here: the order has no meaning, and no other entry has to move.
        groups[self._next].is_listed = False
        groups[self._next] = groups[-1]
        groups.pop()

    def note_asked(self, group: str, seconds: float, vm: str) -> None:
        """Record a request that another process of this service answered, at a time of the cache's clock."""
        documents = self._document_cache.groups.get(group)
        if documents is not None and seconds > documents.asked:
            documents.asked, documents.asked_by = seconds, vm


def _mark(documents: GroupDocuments, now: datetime, seconds: float) -> Mark:
    return Mark(
        documents.terms.name, now - timedelta(seconds=max(0.0, seconds - documents.asked)), documents.asked_by
    )


_FETCHES_EVERY = timedelta(seconds=2)
_SWEEP_EVERY = timedelta(minutes=1)
_MARKS_EVERY = timedelta(minutes=10)
_EXACT = 0.001
"""Seconds; times in floating point are not more precise."""


class RequestRecorder:
    """Submits request records to the node in batches while the service runs.

    A crash loses at most the last seconds of them. At each start every group counts as having asked: another process
    may have answered it before.
    """

    def __init__(self, node: Node, records: RequestRecords) -> None:
        self._node = node
        self._records = records
        # With hurry, a group may be idle after seconds: sweep often enough to notice.
        self._sweep_every = min(_SWEEP_EVERY, node.writer.rules.idle_after / 24)
        self._marks_every = min(_MARKS_EVERY, node.writer.rules.mark_after / 6)
        self._asked: list[Mark] = []
        self._sweep_at = self._marks_at = node.clock.seconds()
        self._timer: Timer | None = None
        self._fires_at = self._sweep_at
        self._is_stopped = False
        self._began = self._sweep_at
        self._recording: asyncio.Task[None] | None = None

    @property
    def is_idle(self) -> bool:
        """Return whether no submission is in progress."""
        return self._recording is None

    def start(self) -> None:
        self._is_stopped = False
        self._began = self._node.clock.seconds()
        self._sweep_at = self._began + self._sweep_every.total_seconds()
        self._set_timer(self._sweep_at)
        self._records.noted = self._expect_more

    async def stop(self) -> None:
        """Submit the records still in memory."""
        self._is_stopped = True
        self._records.noted = lambda: None
        if self._timer:
            self._timer.cancel()
        if self._recording:
            await self._recording
        await self.record_fetches()

    def _expect_more(self) -> None:
        """Schedule a submission soon, so that records of the next moments are submitted together."""
        soon = self._node.clock.seconds() + max(_FETCHES_EVERY, self._node.writer.retry_after).total_seconds()
        if self._recording is None and soon < self._fires_at and not self._is_stopped:
            self._set_timer(soon)

    def _set_timer(self, when: float) -> None:
        if self._timer:
            self._timer.cancel()
        self._fires_at = when
        delay = timedelta(seconds=max(0.0, when - self._node.clock.seconds()))
        self._timer = self._node.clock.call_later(delay, self._fire)

    def _fire(self) -> None:
        self._timer = None
        self._recording = asyncio.create_task(self._record())

    async def _record(self) -> None:
        now = self._node.clock.seconds()
        await self.record_fetches()
        if now >= self._sweep_at - _EXACT:
            self._sweep_at = now + self._sweep_every.total_seconds()
            await self._node.check_clock()
            await self._sweep(now)
        self._recording = None
        if not self._is_stopped:
            self._set_timer(self._sweep_at)
            if self._records.has_fetches:
                self._expect_more()

    async def record_fetches(self) -> None:
        """Submit the recorded fetches now."""
        fetches = self._records.take_fetches()
        for begin in range(0, len(fetches), _RECORDS_IN_AN_ENTRY):
            some = fetches[begin : begin + _RECORDS_IN_AN_ENTRY]
            if not await self._submit(RecordFetched(id=new_id(), by=NODE, fetches=some)):
                self._records.put_back(fetches[begin:])
                return

    async def _sweep(self, now: float) -> None:
        """Check every enrolled group, a slice at a time, and switch off idle ones."""
        self._asked.clear()
        is_over = False
        while not is_over:
            swept = self._records.sweep(since=max(self._began, self._node.writer.timekeeper.stepped_seconds or 0.0))
            is_over = swept.is_over
            self._asked += swept.asked
            if swept.idle:
                await self._submit(SwitchOff(id=new_id(), by=NODE, marks=tuple(swept.idle)))
            await asyncio.sleep(0)
        if self._asked and now >= self._marks_at - _EXACT:
            self._marks_at = now + self._marks_every.total_seconds()
            for begin in range(0, len(self._asked), _RECORDS_IN_AN_ENTRY):
                marks = tuple(self._asked[begin : begin + _RECORDS_IN_AN_ENTRY])
                if not await self._submit(RecordAsked(id=new_id(), by=NODE, marks=marks)):
                    return  # the next sweep finds the others again

    async def _submit(self, command: Command) -> bool:
        """Submit a command; return whether it was committed."""
        try:
            await self._node.submit(command)
        except ForewarnError as error:
            log.warning("requests of VMs were not recorded", extra={"fields": {"reason": str(error)}})
            return False
        return True
