"""Performs Started events: appends ``Attempted``, calls the driver, submits its result as a command.

After a crash the fleet shows which events were attempted and have no result; the driver is asked for their outcome
before anything is done again. Nothing is knowingly done twice.

Another leader may have made an attempt, and may be about to call its driver still. For such an event the driver is
called only if it fences terms.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import assert_never

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
from forewarn.node.backoff import WorkBackoffs
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
    fences_terms,
    has_local_records,
)
from forewarn.node.driver_calls import DriverCalls
from forewarn.node.event_timers import EventTimers
from forewarn.node.feed import Commit
from forewarn.node.node import Node
from forewarn.randomness import new_id
from forewarn.wire.azure_names import show_id

log = logging.getLogger(__name__)

_HEEDED = (Started, StartedAtOnce, ClockStepped, FleetChanged, FleetDeclared)
"""The facts that begin something; an attempt means something with its start only."""
_PAUSE = timedelta(seconds=1)
_LONGEST_PAUSE = timedelta(hours=1)
"""After so long a driver is asked again, even if it named a later time, perhaps by mistake."""
_NOT_REPEATED = "unknown outcome, not repeated"


class Performer:
    """Calls the driver for every Started event, each in a task of its own, the driver's calls in threads.

    An event that waits for nothing but the time that the driver named has no task meanwhile.
    """

    def __init__(self, node: Node, driver: Driver, calls: DriverCalls | None = None) -> None:
        self._node = node
        self._term = node.term
        self._fences_terms = fences_terms(driver)
        self._has_local_records = has_local_records(driver)
        self._driver = calls or DriverCalls(driver, 32)
        self._locating = driver if isinstance(driver, SupportsLocation) else None
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._attempted: set[str] = set()
        """The events that were recorded as started and attempted at once: the driver was not called yet."""
        self._pauses: set[Callable[[], None]] = set()
        """What ends the pauses of tasks that wait until the journal can be written."""
        self._underway = EventTimers(node.clock, self._ask_again)
        """The events that the driver is asked about later."""
        self._hurried: dict[str, int] = {}
        """How often in a row the driver named a time for them that had passed."""
        self._backoffs = WorkBackoffs[str](node.clock.seconds)
        """Of the events that were not carried out because of an error."""
        self._attempted_at: dict[str, datetime] = {}
        """When events were attempted, where a clock that was ahead recorded another time."""

    @property
    def is_idle(self) -> bool:
        """Whether no driver is at work, and no outcome waits to be recorded."""
        return len(self._tasks) == len(self._pauses)

    def load(self, fleet: Fleet) -> None:
        if self._locating:
            self._locating.know_hosts(tuple(fleet.hosts))
        for event in fleet.events.values():
            if event.status is EventStatus.STARTED:
                self._take(event.id)

    def publish(self, commit: Commit) -> None:
        if not commit.holds(_HEEDED):
            return
        started: set[str] = set()
        for entry in commit.entries:
            for fact in entry.facts:
                if type(fact) is Approved:
                    continue
                if type(fact) is Attempted:
                    if fact.event in started and self._is_own(fact.term, fact.node):
                        self._attempted.add(fact.event)
                    continue
                match fact:
                    case Started(event=id_) | StartedAtOnce(event=Event(id=id_)):
                        self._take(id_)
                        started.add(id_)
                    case ClockStepped():
                        self._underway.ring_all()  # the times that the driver named mean nothing any more
                        for end_pause in tuple(self._pauses):
                            end_pause()
                    case FleetChanged() | FleetDeclared():
                        if self._locating:
                            self._locating.know_hosts(tuple(self._node.replica.fleet.hosts))
                    case Announced() | Waiting() | Postponed() | BroughtForward():
                        pass
                    case _ if isinstance(fact, (EventEnded, Fetched, NonEventFact)):
                        pass
                    case _:
                        assert_never(fact)

    async def stop(self) -> None:
        """Let go of everything; the next start asks the driver what came of it."""
        self._underway.clear()
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _take(self, event: str) -> None:
        if event not in self._tasks and event not in self._underway:
            self._begin(event, self._carry_out)

    def _ask_again(self, event: str) -> None:
        self._begin(event, self._follow)

    def _begin(self, event: str, work: Callable[[str], Awaitable[None]]) -> None:
        task = asyncio.create_task(self._insist(event, work))
        self._tasks[event] = task
        task.add_done_callback(partial(self._drop, event))

    def _drop(self, event: str, task: asyncio.Task[None]) -> None:
        if self._tasks.get(event) is not task:
            return  # the driver is asked again already
        del self._tasks[event]
        self._attempted.discard(event)
        if event not in self._underway:
            self._attempted_at.pop(event, None)
            self._hurried.pop(event, None)
            self._backoffs.succeed(event)
            self._node.progress.pop(event, None)

    async def _insist(self, id_: str, work: Callable[[str], Awaitable[None]]) -> None:
        """Do the work for an event. After an unexpected error, do what a new process would do, but after a pause."""
        while True:
            try:
                await work(id_)
            except Exception as error:
                if self._backoffs.fail(id_, str(error)):
                    fields = _fields(id_, error)
                    log.exception("an event was not carried out, and is tried again", extra={"fields": fields})
                self._attempted.discard(id_)
                await self._pause(id_)
                work = self._carry_out
            else:
                return

    async def _carry_out(self, id_: str) -> None:
        begun = self._event(id_)
        is_attempted = id_ in self._attempted
        if begun and begun.attempts and not is_attempted:
            await self._proceed(id_, await self._outcome_of_attempt(begun))
        else:
            await self._proceed(id_, ImpactNotBegun(), is_attempted=is_attempted)

    async def _follow(self, id_: str) -> None:
        if event := self._event(id_):
            await self._proceed(id_, await self._outcome_of_attempt(event))

    async def _proceed(self, id_: str, outcome: ImpactOutcome, *, is_attempted: bool = False) -> None:
        """Do what follows from an outcome, until the event has ended or is under way."""
        while event := self._event(id_):
            match outcome:
                case ImpactNotBegun():
                    if not is_attempted and not await self._attempt(event):
                        return
                    is_attempted = False
                    outcome = await self._ask(self._driver.perform, id_)
                    if isinstance(outcome, ImpactNotBegun):
                        outcome = ImpactFailed("the driver did not begin")
                case ImpactUnderway(check_at=check_at, progress=progress):
                    self._node.progress[id_] = progress
                    now = self._node.clock.now()
                    if check_at > now:
                        self._hurried.pop(id_, None)
                        self._underway.set(id_, min(check_at, now + _LONGEST_PAUSE))
                    else:
                        self._hurried[id_] = in_a_row = self._hurried.get(id_, 0) + 1
                        # A driver that is always in a hurry must not keep all threads busy.
                        self._underway.set(id_, now + _PAUSE if in_a_row > 1 else now)
                    return
                case ImpactDone(hosts=hosts, detail=detail):
                    await self._report(id_, ImpactResult.DONE, detail, hosts)
                case ImpactFailed(reason=reason, hosts=hosts):
                    await self._report(id_, ImpactResult.FAILED, reason, hosts)
                case ImpactUnknown(reason=reason):
                    await self._report(id_, ImpactResult.FAILED, ": ".join(filter(None, (_NOT_REPEATED, reason))))

    async def _outcome_of_attempt(self, event: Event) -> ImpactOutcome:
        """Tell what came of an attempt, perhaps made by an earlier process or another leader."""
        if self._fences_terms or self._is_own(event.attempt_term, event.attempt_node):
            return await self._ask(self._driver.outcome_of, event.id)
        who = (
            f"node {event.attempt_node} attempted it in term {event.attempt_term}"
            if event.attempt_term
            else "it was attempted before several nodes shared the journal"
        )
        if not self._has_local_records or self._is_attempted_elsewhere(event):
            return ImpactUnknown(f"{who}, and the driver does not fence terms")
        outcome = await self._ask(self._driver.outcome_of, event.id)
        if isinstance(outcome, ImpactNotBegun):
            return ImpactUnknown(f"{who}, and there is no record of it on this node")
        return outcome

    def _is_own(self, term: int, node: str) -> bool:
        """Return whether this leader made an attempt; another one may have had the number of its term."""
        return (term, node) == (self._term, self._node.name)

    def _is_attempted_elsewhere(self, event: Event) -> bool:
        return bool(event.attempts) and event.attempt_node != self._node.name

    async def _attempt(self, event: Event) -> bool:
        """Make durable that the driver will be called; False when the event has ended meanwhile."""
        while True:
            try:
                await self._node.submit(
                    RecordAttempt(
                        id=new_id(),
                        by=NODE,
                        event=event.id,
                        term=self._term,
                        node=self._node.name,
                        driver=self._node.driver_name,
                    )
                )
            except Unavailable as error:
                log.warning("an event waits to be carried out", extra={"fields": _fields(event.id, error)})
                await self._pause(event.id)
                with suppress(Unavailable):
                    await self._node.writer.confirm()
                if (now := self._event(event.id)) and now.attempts > event.attempts:
                    # It was recorded although the append seemed to fail; or another leader recorded one.
                    return self._is_own(now.attempt_term, now.attempt_node)
            except ForewarnError as error:
                if self._event(event.id) is None:
                    return False
                if self._backoffs.fail(event.id, str(error)):
                    log.warning("an event waits to be carried out", extra={"fields": _fields(event.id, error)})
                await self._pause(event.id)
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
                log.warning("the end of an event waits to be recorded", extra={"fields": _fields(event, error)})
                await self._pause(event)
            except ForewarnError as error:  # the rules refused it by mistake
                if self._backoffs.fail(event, str(error)):
                    log.warning("the end of an event waits to be recorded", extra={"fields": _fields(event, error)})
                await self._pause(event)
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
            term=self._term,
            attempt=event.attempts,
            attempted_elsewhere=self._is_attempted_elsewhere(event),
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

    async def _pause(self, id_: str) -> None:
        """Wait until it is worth trying again."""
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def end() -> None:
            if not over.done():
                self._pauses.discard(end)
                over.set_result(None)

        self._pauses.add(end)
        timer = self._node.clock.call_later(self._backoffs.pause_after(id_, self._node.writer.retry_after), end)
        try:
            await over
        finally:
            timer.cancel()
            self._pauses.discard(end)


def _fields(id_: str, error: Exception) -> dict[str, str]:
    return {"event": show_id(id_), "reason": str(error)}
