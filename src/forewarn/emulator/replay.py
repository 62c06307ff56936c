"""Plays a recording again: the real metadata plane, shown what was recorded instead of what rules decide.

Documents come as far apart as they were recorded, or hurried; their times are moved to now. What a client approves is
answered as the endpoint would have answered, but changes nothing: the recording is over when its last document came.
"""

import asyncio
from collections.abc import Iterator
from datetime import datetime, timedelta

from forewarn.clocks import Clock
from forewarn.core.errors import Unknown
from forewarn.core.facts import (
    Announced,
    AnyFact,
    Canceled,
    Completed,
    Enrolled,
    Entry,
    FleetChanged,
    GroupSet,
    Postponed,
    Started,
    StartedAtOnce,
)
from forewarn.core.fleet import Fleet
from forewarn.core.model import (
    NODE,
    Event,
    EventSource,
    EventStatus,
    EventType,
    GroupKind,
    GroupTerms,
    Vm,
)
from forewarn.core.notice import Rules, whole_second
from forewarn.emulator.doors import Doors
from forewarn.emulator.faults import Faults
from forewarn.emulator.recording import Recording, Take
from forewarn.metadata.caller import Callers
from forewarn.metadata.desk import Desk
from forewarn.metadata.limits import Limits
from forewarn.metadata.records import Records
from forewarn.metadata.service import Service
from forewarn.node.feed import Commit
from forewarn.wire.approval import Approval
from forewarn.wire.document import ScheduledEvent

GROUP = "recorded"
_JITTER = timedelta(seconds=1)
"""Whole seconds, moved and hurried, may come out one apart."""


class Replay:
    """One performance of a recording."""

    def __init__(self, recording: Recording, clock: Clock, *, hurry: float = 1.0) -> None:
        self._recording = recording
        self._clock = clock
        self._hurry = hurry
        self._fleet = Fleet()
        self._revision = 0
        self._desk = Desk(clock.seconds)
        limits = Limits()
        service = Service(
            self._desk,
            Callers(self._desk),
            Records(self._desk, Rules(), clock.seconds, clock.now),
            limits,
            enrol=self._enrol,
            approve=self._approve,
            seconds=clock.seconds,
            now=clock.now,
        )
        self.doors = Doors(service, limits, clock, Faults(clock), beats=True)
        self.is_over = asyncio.Event()

    @property
    def vms(self) -> tuple[str, ...]:
        return self._recording.vms

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> None:
        """Begin to answer, and to show one document after the other."""
        vms = tuple(Vm(name, GROUP, address=f"192.0.2.{number}") for number, name in enumerate(self.vms, start=1))
        terms = GroupTerms(GROUP, GroupKind.AVAILABILITY_SET)
        self._commit([FleetChanged(groups=(terms,), vms=vms), Enrolled(GROUP, self._clock.now(), vms[0].name)])
        first = self._recording.takes[0]
        self._show(first)
        begin = self._clock.now()
        for take in self._recording.takes[1:]:
            self._clock.call_at(begin + (take.at - first.at) / self._hurry, lambda take=take: self._show(take))  # type: ignore[misc]
        last = self._recording.takes[-1]
        self._clock.call_at(begin + (last.at - first.at) / self._hurry, self.is_over.set)
        await self.doors.start()
        for number, vm in enumerate(vms):
            await self.doors.open(vm.name, vm.address, host, port + number if port else 0)

    async def stop(self) -> None:
        await self.doors.stop()

    def _show(self, take: Take) -> None:
        document = take.document
        facts = list(self._changes(take, {event.id: event for event in document.events}))
        # The recorded number counts, not the one that our own count would give.
        self._fleet.groups[GROUP].incarnation = document.incarnation - len(facts)
        self._commit([*facts, GroupSet(self._fleet.groups[GROUP].terms)])

    def _changes(self, take: Take, shown: dict[str, ScheduledEvent]) -> Iterator[AnyFact]:
        """Yield what must have happened between the document before and this one."""
        now = self._clock.now()
        for event in self._fleet.events_of(GROUP):
            later = shown.pop(event.id, None)
            if later is None and event.status is EventStatus.STARTED:
                yield Completed(event.id, now)
            elif later is None:
                yield Canceled(event.id, now, "gone from the recording")
            elif later.status == EventStatus.STARTED and event.status is EventStatus.SCHEDULED:
                yield Started(event.id, now, "recorded")
            elif later.not_before and abs((moved := self._moved(take, later)) - event.not_before) > _JITTER:
                yield Postponed(event.id, now, NODE, 0, moved)
        for new in shown.values():
            if isinstance(new.type, EventType):
                event = self._event(take, new)
                is_started = event.status is EventStatus.STARTED
                yield StartedAtOnce(event) if is_started else Announced(event)

    def _event(self, take: Take, shown: ScheduledEvent) -> Event:
        now = self._clock.now()
        return Event(
            id=shown.id,
            type=EventType(shown.type),
            source=shown.source if isinstance(shown.source, EventSource) else EventSource.PLATFORM,
            group=GROUP,
            resources=tuple(map(self._recording.plain_name, shown.resources)),
            status=EventStatus.STARTED if shown.status == EventStatus.STARTED else EventStatus.SCHEDULED,
            not_before=self._moved(take, shown),
            announced_at=now,
            operation="recorded",
            description=shown.description,
            duration=shown.duration,
        )

    def _moved(self, take: Take, shown: ScheduledEvent) -> datetime:
        """Return the NotBefore of now: as far ahead as it was when it was recorded."""
        now = self._clock.now()
        return whole_second(now + ((shown.not_before or take.at) - take.at) / self._hurry)

    def _commit(self, facts: list[AnyFact]) -> None:
        self._revision += 1
        for fact in facts:
            self._fleet.evolve(fact)
        entry = Entry(self._revision, self._clock.now(), f"{self._revision:032x}", NODE, tuple(facts))
        self._desk.publish(Commit((entry,), self._fleet))

    async def _enrol(self, group: str, vm: str) -> None:
        """Do nothing: the group is on from the beginning."""

    async def _approve(self, vm: str, said: Approval) -> None:
        for id_ in said.events:
            if id_ not in self._fleet.events:
                raise Unknown(f"there is no unfinished event {id_!r}")
