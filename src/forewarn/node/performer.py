"""Carries Started events out: an ``Attempted`` fact first, then the driver, then its word as a command.

After a crash the fleet tells what was begun and not reported; the driver is asked what came of it before anything
is done again. Nothing is knowingly done twice.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from typing import assert_never

from forewarn.clocks import Timer
from forewarn.core.commands import ImpactResult, RecordAttempt, ReportImpact
from forewarn.core.errors import ForewarnError, Unavailable
from forewarn.core.event_types import moves_vms
from forewarn.core.facts import (
    Announced,
    Approved,
    Attempted,
    BroughtForward,
    ClockStepped,
    EventEnded,
    Fetched,
    FleetChanged,
    FleetDeclared,
    NonEventFact,
    Postponed,
    Started,
    StartedAtOnce,
    Waiting,
)
from forewarn.core.fleet import Fleet
from forewarn.core.impact_results import removes_vms
from forewarn.core.model import NODE, Event, EventStatus, EventType, HostState, Vm
from forewarn.node.driver import (
    CandidateHost,
    Driver,
    Impact,
    ImpactDone,
    ImpactFailed,
    ImpactNotBegun,
    ImpactOutcome,
    ImpactUnderway,
    ImpactUnknown,
    SupportsLocation,
)
from forewarn.node.driver_calls import DriverCalls
from forewarn.node.feed import Commit
from forewarn.node.node import Node
from forewarn.randomness import new_id
from forewarn.wire.azure_names import show_id

log = logging.getLogger(__name__)

_PAUSE = timedelta(seconds=1)
_LONGEST_PAUSE = timedelta(hours=1)
"""After so long a driver is asked again, even if it named a later time, perhaps by mistake."""
_NOT_REPEATED = "unknown outcome, not repeated"


class Performer:
    """Calls the driver for every Started event, each in a task of its own, the driver's calls in threads."""

    def __init__(self, node: Node, driver: Driver, calls: DriverCalls | None = None) -> None:
        self._node = node
        self._driver = calls or DriverCalls(driver, 32)
        self._locating = driver if isinstance(driver, SupportsLocation) else None
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._asleep: set[Callable[[], None]] = set()
        """What wakes those of them that wait for nothing but the clock."""
        self._attempted_at: dict[str, datetime] = {}
        """When events were attempted, where a clock that was ahead recorded another time."""

    @property
    def is_idle(self) -> bool:
        """Tell whether no driver is at work, and no outcome waits to be recorded."""
        return len(self._tasks) == len(self._asleep)

    def load(self, fleet: Fleet) -> None:
        if self._locating:
            self._locating.know_hosts(tuple(fleet.hosts))
        for event in fleet.events.values():
            if event.status is EventStatus.STARTED:
                self._take(event.id)

    def publish(self, commit: Commit) -> None:
        for entry in commit.entries:
            for fact in entry.facts:
                match fact:
                    case Started(event=id_) | StartedAtOnce(event=Event(id=id_)):
                        self._take(id_)
                    case ClockStepped():
                        for wake in tuple(self._asleep):
                            wake()  # the time at which it was to ask the driver means nothing any more
                    case FleetChanged() | FleetDeclared():
                        if self._locating:
                            self._locating.know_hosts(tuple(self._node.replica.fleet.hosts))
                    case Announced() | Approved() | Waiting() | Postponed() | BroughtForward() | Attempted():
                        pass
                    case _ if isinstance(fact, (EventEnded, Fetched, NonEventFact)):
                        pass
                    case _:
                        assert_never(fact)

    async def stop(self) -> None:
        """Let go of everything; the next start asks the driver what came of it."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _take(self, event: str) -> None:
        if event not in self._tasks:
            task = asyncio.create_task(self._carry_out(event))
            self._tasks[event] = task
            task.add_done_callback(lambda _: self._drop(event))

    def _drop(self, event: str) -> None:
        self._tasks.pop(event, None)
        self._attempted_at.pop(event, None)
        self._node.progress.pop(event, None)

    async def _carry_out(self, id_: str) -> None:
        begun = self._event(id_)
        outcome: ImpactOutcome = ImpactNotBegun()
        in_a_row = 0
        if begun and begun.attempts:
            outcome = await self._ask(self._driver.outcome_of, id_)
        while event := self._event(id_):
            match outcome:
                case ImpactNotBegun():
                    if not await self._attempt(event):
                        return
                    outcome = await self._ask(self._driver.perform, id_)
                    if isinstance(outcome, ImpactNotBegun):
                        outcome = ImpactFailed("the driver did not begin")
                case ImpactUnderway(check_at=check_at, progress=progress):
                    self._node.progress[id_] = progress
                    in_a_row = in_a_row + 1 if check_at <= self._node.clock.now() else 0
                    if in_a_row > 1:  # a driver that is always in a hurry must not keep everybody busy
                        await self._sleep(lambda wake: self._node.clock.call_later(_PAUSE, wake))
                    else:
                        await self._sleep_until(min(check_at, self._node.clock.now() + _LONGEST_PAUSE))
                    outcome = await self._ask(self._driver.outcome_of, id_)
                case ImpactDone(hosts=hosts, detail=detail):
                    await self._report(id_, ImpactResult.DONE, detail, hosts)
                case ImpactFailed(reason=reason, hosts=hosts):
                    await self._report(id_, ImpactResult.FAILED, reason, hosts)
                case ImpactUnknown(reason=reason):
                    await self._report(id_, ImpactResult.FAILED, ": ".join(filter(None, (_NOT_REPEATED, reason))))

    async def _attempt(self, event: Event) -> bool:
        """Make durable that the driver will be called; False when the event has ended meanwhile."""
        while True:
            try:
                await self._node.submit(RecordAttempt(id=new_id(), by=NODE, event=event.id))
            except Unavailable as error:
                fields = {"event": show_id(event.id), "reason": str(error)}
                log.warning("an event waits to be carried out", extra={"fields": fields})
                await self._pause()
                with suppress(Unavailable):
                    await self._node.writer.confirm()
                if (now := self._event(event.id)) and now.attempts > event.attempts:
                    return True  # it was recorded although nobody could tell at first
            except ForewarnError:
                return False
            else:
                return True

    async def _report(
        self, event: str, result: ImpactResult, detail: str = "", hosts: dict[str, str] | None = None
    ) -> None:
        command = ReportImpact(id=new_id(), by=NODE, event=event, result=result, detail=detail, hosts=hosts or {})
        while True:
            try:
                await self._node.submit(command)
            except Unavailable as error:
                fields = {"event": show_id(event), "reason": str(error)}
                log.warning("the end of an event waits to be recorded", extra={"fields": fields})
                await self._pause()
            else:
                return

    async def _ask(self, question: Callable[[Impact], Awaitable[ImpactOutcome]], id_: str) -> ImpactOutcome:
        event = self._event(id_)
        if event is None:
            return ImpactUnknown("the event has ended")
        impact = Impact(
            event,
            tuple(self._impacted(event)),
            self._when_attempted(event),
            deletes=removes_vms(self._node.replica.fleet, event),
            candidates=tuple(self._candidates(event)) if moves_vms(event) else (),
        )
        if not impact.vms:
            return ImpactDone(detail="no VM was left to be impacted")
        return await question(impact)

    def _when_attempted(self, event: Event) -> datetime:
        now = self._node.clock.now()
        if event.attempted_at is None or event.attempted_at > now:
            return self._attempted_at.setdefault(event.id, now)
        return event.attempted_at

    def _impacted(self, event: Event) -> list[Vm]:
        """Return the VMs that are still there to be impacted."""
        vms = [self._node.replica.fleet.vms[name] for name in event.vms]
        if event.type is EventType.TERMINATE:
            return vms
        is_of_host = event.operation.is_of_host
        return [
            vm
            for vm in vms
            if not vm.deallocated
            and not (is_of_host and vm.standing_on != event.host)
            and not (event.target and vm.standing_on == event.target)
        ]

    def _candidates(self, event: Event) -> Iterator[CandidateHost]:
        """Yield the hosts that the event's VMs could go to, and who of their group stands there.

        None has failed or is cordoned, and none is about to fail where others are not, unless it was named.
        """
        fleet = self._node.replica.fleet
        left = {fleet.vms[name].standing_on for name in event.vms}
        named = event.targets
        hosts = [
            host
            for host in fleet.hosts.values()
            if host.name not in left and host.name not in fleet.cordoned and (not named or host.name in named)
        ]
        states = {host.name: fleet.state_of(host.name) for host in hosts}
        is_any_up = not named and HostState.UP in states.values()
        wanted = {HostState.UP} if is_any_up else {HostState.UP, HostState.DEGRADED}
        standing: dict[str, list[Vm]] = {}
        for name in fleet.groups[event.group].vms:
            standing.setdefault(fleet.vms[name].standing_on, []).append(fleet.vms[name])
        for host in hosts:
            if states[host.name] in wanted:
                yield CandidateHost(host, tuple(standing.get(host.name, ())))

    def _event(self, id_: str) -> Event | None:
        event = self._node.replica.fleet.events.get(id_)
        return event if event and event.status is EventStatus.STARTED else None

    async def _pause(self) -> None:
        await self._sleep(lambda wake: self._node.clock.call_later(self._node.writer.retry_after, wake))

    async def _sleep_until(self, when: datetime) -> None:
        await self._sleep(lambda wake: self._node.clock.call_at(when, wake))

    async def _sleep(self, set_timer: Callable[[Callable[[], None]], Timer]) -> None:
        woken = asyncio.Event()

        def wake() -> None:
            if not woken.is_set():
                self._asleep.discard(wake)
                woken.set()

        self._asleep.add(wake)
        timer = set_timer(wake)
        try:
            await woken.wait()
        finally:
            timer.cancel()
            self._asleep.discard(wake)
