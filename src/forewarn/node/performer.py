"""Carries Started events out: an ``Attempted`` fact first, then the driver, then its word as a command.

After a crash the fleet tells what was begun and not reported; the driver is asked what came of it before anything
is done again. Nothing is knowingly done twice.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from uuid import uuid4

from forewarn.core.commands import Attempt, Report, Result
from forewarn.core.errors import ForewarnError, Unavailable
from forewarn.core.facts import Started, StartedAtOnce
from forewarn.core.fleet import Fleet
from forewarn.core.model import NODE, Event, EventStatus, EventType, EvictionPolicy, Vm
from forewarn.node.driver import (
    Berth,
    Done,
    Driver,
    Failed,
    Impact,
    NotBegun,
    Outcome,
    Underway,
    Unknowable,
    moves,
)
from forewarn.node.feed import Commit
from forewarn.node.node import Node

log = logging.getLogger(__name__)

_RETRY = timedelta(seconds=1)
_NOT_REPEATED = "unknown outcome, not repeated"


class Performer:
    """Calls the driver for every Started event, each in a task of its own, the driver's calls in threads."""

    def __init__(self, node: Node, driver: Driver, threads: int = 32) -> None:
        self._node = node
        self._driver = driver
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="driver")
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._asleep = 0
        """How many of them wait for nothing but the clock."""

    @property
    def is_idle(self) -> bool:
        """Tell whether no driver is at work, and no outcome waits to be recorded."""
        return len(self._tasks) == self._asleep

    def load(self, fleet: Fleet) -> None:
        for event in fleet.events.values():
            if event.status is EventStatus.STARTED:
                self._take(event.id)

    def publish(self, commit: Commit) -> None:
        for entry in commit.entries:
            for fact in entry.facts:
                if isinstance(fact, Started):
                    self._take(fact.event)
                elif isinstance(fact, StartedAtOnce):
                    self._take(fact.event.id)

    async def stop(self) -> None:
        """Let go of everything; the next start asks the driver what came of it."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._driver.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _take(self, event: str) -> None:
        if event not in self._tasks:
            task = asyncio.create_task(self._carry_out(event))
            self._tasks[event] = task
            task.add_done_callback(lambda _: self._drop(event))

    def _drop(self, event: str) -> None:
        self._tasks.pop(event, None)
        self._node.progress.pop(event, None)

    async def _carry_out(self, id_: str) -> None:
        begun = self._event(id_)
        outcome: Outcome = NotBegun()
        if begun and begun.attempts:
            outcome = await self._ask(self._driver.outcome_of, id_)
        while event := self._event(id_):
            match outcome:
                case NotBegun():
                    if not await self._attempt(event):
                        return
                    outcome = await self._ask(self._driver.perform, id_)
                    if isinstance(outcome, NotBegun):
                        outcome = Failed("the driver did not begin")
                case Underway(check_at=check_at, progress=progress):
                    self._node.progress[id_] = progress
                    await self._sleep_until(check_at)
                    outcome = await self._ask(self._driver.outcome_of, id_)
                case Done(hosts=hosts, detail=detail):
                    await self._report(id_, Result.DONE, detail, hosts)
                case Failed(reason=reason, hosts=hosts):
                    await self._report(id_, Result.FAILED, reason, hosts)
                case Unknowable(reason=reason):
                    await self._report(id_, Result.FAILED, ": ".join(filter(None, (_NOT_REPEATED, reason))))

    async def _attempt(self, event: Event) -> bool:
        """Make durable that the driver will be called; False when the event has ended meanwhile."""
        while True:
            try:
                await self._node.submit(Attempt(id=uuid4().hex, by=NODE, event=event.id))
            except Unavailable as error:
                log.warning("event %s waits to be carried out: %s", event.id, error)
                await self._pause()
            except ForewarnError:
                return False
            else:
                return True

    async def _report(
        self, event: str, result: Result, detail: str = "", hosts: dict[str, str] | None = None
    ) -> None:
        command = Report(id=uuid4().hex, by=NODE, event=event, result=result, detail=detail, hosts=hosts or {})
        while True:
            try:
                await self._node.submit(command)
            except Unavailable as error:
                log.warning("the end of event %s waits to be recorded: %s", event, error)
                await self._pause()
            else:
                return

    async def _ask(self, question: Callable[[Impact], Outcome], id_: str) -> Outcome:
        event = self._event(id_)
        if event is None:
            return Unknowable("the event has ended")
        impact = Impact(
            event,
            tuple(self._impacted(event)),
            event.attempted_at or self._node.clock.now(),
            deletes=self._deletes(event),
            berths=tuple(self._berths(event)) if moves(event) else (),
        )
        if not impact.vms:
            return Done(detail="no VM was left to be impacted")
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, question, impact)
        except Exception as error:  # a driver is somebody else's code; its failure ends the event, not us
            log.exception("the driver failed on event %s", id_)
            return Failed(f"the driver failed: {str(error) or type(error).__name__}")

    def _impacted(self, event: Event) -> list[Vm]:
        """Return the VMs that are still there to be impacted."""
        vms = [self._node.fleet.vms[name] for name in event.vms]
        if event.type is EventType.TERMINATE:
            return vms
        is_of_host = event.operation.startswith("host ")
        return [vm for vm in vms if not vm.deallocated and not (is_of_host and vm.standing_on != event.host)]

    def _deletes(self, event: Event) -> bool:
        if event.type is EventType.PREEMPT:
            return self._node.fleet.groups[event.group].terms.eviction is EvictionPolicy.DELETE
        return event.type is EventType.TERMINATE

    def _berths(self, event: Event) -> Iterator[Berth]:
        """Yield the hosts that the event's VMs could go to, and who of their group stands there."""
        fleet = self._node.fleet
        standing: dict[str, list[Vm]] = {}
        for name in fleet.groups[event.group].vms:
            standing.setdefault(fleet.vms[name].standing_on, []).append(fleet.vms[name])
        for host in fleet.hosts.values():
            if host.name != event.host:
                yield Berth(host, tuple(standing.get(host.name, ())))

    def _event(self, id_: str) -> Event | None:
        event = self._node.fleet.events.get(id_)
        return event if event and event.status is EventStatus.STARTED else None

    async def _pause(self) -> None:
        await self._sleep_until(self._node.clock.now() + _RETRY)

    async def _sleep_until(self, when: datetime) -> None:
        woken = asyncio.Event()

        def wake() -> None:
            self._asleep -= 1
            woken.set()

        self._asleep += 1
        timer = self._node.clock.call_at(when, wake)
        try:
            await woken.wait()
        finally:
            timer.cancel()
            if not woken.is_set():
                self._asleep -= 1
