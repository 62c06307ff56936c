"""Replays a recording: the real metadata service shows the recorded documents.

Time counts from the first request. Documents follow each other at the recorded intervals, divided by ``hurry``. In
the recorded api-version they are returned byte for byte, except NotBefore, which is moved to the present in its
recorded format; in other versions they are rendered from their content. Approvals are answered like those of the
endpoint, but change nothing: the replay ends with its last document.
"""

import asyncio
import re
from collections.abc import Callable, Iterator
from datetime import datetime

from msgspec.structs import replace

from forewarn.clocks import Clock
from forewarn.core import lifecycle
from forewarn.core.errors import Unknown
from forewarn.core.facts import AnyFact, Enrolled, Entry, FleetChanged, GroupSet, Postponed
from forewarn.core.fleet import Fleet
from forewarn.core.model import NODE, Event, EventSource, EventStatus, EventType, GroupKind, GroupTerms, Operation, Vm
from forewarn.core.notice import Rules, whole_second
from forewarn.emulator.faults import Faults
from forewarn.emulator.recording import RecordedDocument, Recording
from forewarn.emulator.vm_ports import VmPorts
from forewarn.metadata.caller import CallerResolver
from forewarn.metadata.document_cache import DocumentCache, GroupDocuments
from forewarn.metadata.limits import Limits
from forewarn.metadata.request_records import RequestRecords
from forewarn.metadata.service import MetadataService
from forewarn.node.feed import Commit
from forewarn.wire.approval import Approval
from forewarn.wire.dates import read_time, show_time
from forewarn.wire.document import ScheduledEvent
from forewarn.wire.versions import API_VERSIONS, BY_NAME

GROUP = "recorded"
_NOT_BEFORE = re.compile(r'(?<="NotBefore")(\s*:\s*)"([^"]+)"')
_ISO = re.compile(r"\d{4}-\d\d-\d\d([T ])\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d)?")


class _RecordedDocumentCache(DocumentCache):
    """Returns a document byte for byte in the api-version in which it was recorded."""

    def __init__(self, seconds: Callable[[], float], api_version: str) -> None:
        super().__init__(seconds)
        self.body = b""
        known = BY_NAME.get(api_version)
        self._version = API_VERSIONS.index(known) if known else -1

    def prepare(self, documents: GroupDocuments) -> list[bytes | None]:
        super().prepare(documents)
        documents.rendered = [None] * len(
            API_VERSIONS
        )  # those that all empty groups share are not the recorded bytes
        return documents.rendered

    def _body(self, documents: GroupDocuments, version: int) -> bytes:
        return self.body if version == self._version else super()._body(documents, version)


class Replay:
    """One replay of a recording."""

    def __init__(self, recording: Recording, clock: Clock, *, hurry: float = 1.0) -> None:
        self._recording = recording
        self._clock = clock
        self._hurry = hurry
        self._fleet = Fleet()
        self._revision = 0
        self._document_cache = _RecordedDocumentCache(clock.seconds, recording.beginning.api_version)
        self._shown: set[str] = set()
        """The events of the present document, by id."""
        self._begins_at = clock.now()
        self._has_begun = False
        limits = Limits()
        service = MetadataService(
            self._document_cache,
            CallerResolver(self._document_cache),
            RequestRecords(self._document_cache, Rules(), clock.seconds, clock.now),
            limits,
            enrol=self._enrol,
            approve=self._approve,
            seconds=clock.seconds,
            now=clock.now,
        )
        self.vm_ports = VmPorts(service, limits, clock, Faults(clock), beats=True)
        self.vm_ports.requests.changed = lambda _: self.begin()
        self.is_over = asyncio.Event()

    @property
    def vms(self) -> tuple[str, ...]:
        return self._recording.vms

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> None:
        """Start listening; the first document stays until ``begin``."""
        vms = tuple(Vm(name, GROUP, address=f"192.0.2.{number}") for number, name in enumerate(self.vms, start=1))
        terms = GroupTerms(GROUP, GroupKind.AVAILABILITY_SET)
        self._commit([FleetChanged(groups=(terms,), vms=vms), Enrolled(GROUP, self._clock.now(), vms[0].name)])
        self._show(self._recording.takes[0])
        await self.vm_ports.start()
        for number, vm in enumerate(vms):
            await self.vm_ports.open(vm.name, vm.address, host, port + number if port else 0)

    def begin(self) -> None:
        """Start the timeline now, unless it has started."""
        if self._has_begun:
            return
        self._has_begun = True
        self._begins_at = self._clock.now()
        first, *others = self._recording.takes
        self._show(first)
        for take in others:
            self._clock.call_at(self._moved(take.at), lambda take=take: self._show(take))  # type: ignore[misc]
        self._clock.call_at(self._moved(self._recording.takes[-1].at), self.is_over.set)

    async def stop(self) -> None:
        await self.vm_ports.stop()

    def _show(self, take: RecordedDocument) -> None:
        document = take.document
        self._shown = {event.id for event in document.events}
        self._document_cache.body = _NOT_BEFORE.sub(self._respelled, take.body).encode()
        facts = list(self._changes({event.id: event for event in document.events}))
        # The recorded number counts, not the one that our own count would give.
        group = replace(self._fleet.groups[GROUP], incarnation=document.incarnation - len(facts))
        self._fleet.groups[GROUP] = group
        self._commit([*facts, GroupSet(group.terms)])
        self._document_cache.groups[GROUP].rendered = None  # also where the number stayed the same

    def _respelled(self, found: "re.Match[str]") -> str:
        """Return NotBefore moved to the present in its recorded format; a value that is not a time is unchanged."""
        try:
            recorded = read_time(found[2])
        except ValueError:
            return found[0]
        if iso := _ISO.fullmatch(found[2]):
            between, fraction, zone = iso.groups(default="")
            moved = self._moved(recorded) if fraction else self._not_before(recorded)
            spelled = f"{moved:%Y-%m-%d}{between}{moved:%H:%M:%S}{f'.{moved:%f}0'[: len(fraction)]}"
            spelled += zone if zone in ("", "Z") else "+00:00"
        else:
            spelled = show_time(self._not_before(recorded))
        return f'{found[1]}"{spelled}"'

    def _changes(self, shown: dict[str, ScheduledEvent]) -> Iterator[AnyFact]:
        """Yield the facts that lead from the previous document to this one."""
        now = self._clock.now()
        for event in self._fleet.events_of(GROUP):
            later = shown.pop(event.id, None)
            if later is None and event.status is EventStatus.STARTED:
                yield lifecycle.complete(event, now)
            elif later is None:
                yield lifecycle.cancel(event, now, "gone from the recording")
            elif later.status == EventStatus.STARTED and event.status is EventStatus.SCHEDULED:
                yield lifecycle.start(event, now, "recorded")
            elif later.not_before and (moved := self._not_before(later.not_before)) != event.not_before:
                yield Postponed(event.id, now, NODE, 0, moved, group=GROUP)
        for new in shown.values():
            if isinstance(new.type, EventType):
                event, is_started = self._event(new), new.status == EventStatus.STARTED
                yield lifecycle.start_at_once(event, now) if is_started else lifecycle.announce(event)

    def _event(self, shown: ScheduledEvent) -> Event:
        now = self._clock.now()
        return Event(
            id=shown.id,
            type=EventType(shown.type),
            source=shown.source if isinstance(shown.source, EventSource) else EventSource.PLATFORM,
            group=GROUP,
            resources=tuple(map(self._recording.plain_name, shown.resources)),
            status=EventStatus.SCHEDULED,
            not_before=self._not_before(shown.not_before) if shown.not_before else whole_second(now),
            announced_at=now,
            operation=Operation("recorded"),
            description=shown.description,
            duration=shown.duration,
        )

    def _moved(self, recorded: datetime) -> datetime:
        """Return the replay time of a recorded time."""
        return self._begins_at + (recorded - self._recording.takes[0].at) / self._hurry

    def _not_before(self, recorded: datetime) -> datetime:
        """Return NotBefore in replay time, in whole seconds."""
        return whole_second(self._moved(recorded))

    def _commit(self, facts: list[AnyFact]) -> None:
        self._revision += 1
        for fact in facts:
            self._fleet.evolve(fact)
        entry = Entry(self._revision, self._clock.now(), f"{self._revision:032x}", NODE, tuple(facts))
        self._document_cache.publish(Commit((entry,), self._fleet))

    async def _enrol(self, group: str, vm: str) -> None:
        """Do nothing: the group is enrolled from the start."""

    async def _approve(self, vm: str, said: Approval) -> None:
        for id_ in said.events:
            if id_ not in self._shown:
                raise Unknown(f"there is no unfinished event {id_!r}")
