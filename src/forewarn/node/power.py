"""Has VMs started and stopped as their operator asked: the request is durable first, then the driver is called.

    vm start, vm deallocate ──▶ a request in the fleet ──▶ driver.switch, again until it ends ──▶ vm-switched

The request says where a VM is to be, so a call that a crash or a change of leader cut off is made again. Each VM has
one call at a time; a request that replaces another while that one is under way is called for next. A failure is
recorded, shown by ``vm show`` and health, and holds up nothing; the same command again makes another attempt.
"""

import asyncio
import logging
from collections.abc import Awaitable
from datetime import timedelta
from itertools import islice

from forewarn.clocks import sleep, sleep_until
from forewarn.core.commands import ImpactResult, ReportPowerSwitch
from forewarn.core.errors import ForewarnError, Unavailable
from forewarn.core.facts import FleetChanged, VmDeallocated, VmRemoved, VmStarted, VmSwitched
from forewarn.core.fleet import Fleet
from forewarn.core.model import NODE, PowerRequest, Vm
from forewarn.core.terms import LONGEST_LINE
from forewarn.node.backoff import WorkBackoffs
from forewarn.node.driver import (
    Driver,
    ImpactDone,
    ImpactFailed,
    ImpactNotBegun,
    ImpactUnderway,
    ImpactUnknown,
    can_switch,
)
from forewarn.node.driver_calls import DriverCalls
from forewarn.node.feed import Commit
from forewarn.node.node import Node
from forewarn.randomness import new_id

log = logging.getLogger(__name__)

TOPIC = "power"
_SOONEST = timedelta(seconds=0.2)
"""How long to wait at least before a driver is asked again."""
_NAMED = 5
_TOUCHING = (VmStarted, VmDeallocated, VmSwitched, VmRemoved, FleetChanged)
NO_DRIVER = "the driver does not start and stop VMs any more"


class PowerController:
    """Calls the driver for every power request, each VM in a task of its own."""

    def __init__(self, node: Node, driver: Driver, calls: DriverCalls | None = None) -> None:
        self._node = node
        self._driver = driver
        self._calls = calls or DriverCalls(driver, 16)
        self._term = node.term
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._asleep = 0
        self._backoffs = WorkBackoffs[str](node.clock.seconds)
        """Of the requests, by id, that ended with an error: each is called for again after a pause."""

    @property
    def is_idle(self) -> bool:
        """Whether no driver is at work, and no outcome waits to be recorded."""
        return len(self._tasks) == self._asleep

    def load(self, fleet: Fleet) -> None:
        for request in fleet.power_requests.values():
            self._take(request)
        self._warn(fleet)

    def publish(self, commit: Commit) -> None:
        if not commit.holds(_TOUCHING):
            return
        for fact in (fact for entry in commit.entries for fact in entry.facts):
            if isinstance(fact, VmStarted | VmDeallocated) and fact.request:
                self._take(commit.fleet.power_requests.get(fact.vm))
        self._warn(commit.fleet)

    async def stop(self) -> None:
        """Let go of everything; the next start calls the driver again."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _take(self, request: PowerRequest | None) -> None:
        if request and not request.failure and request.vm not in self._tasks:
            task = asyncio.create_task(self._carry_out(request.vm))
            self._tasks[request.vm] = task
            task.add_done_callback(lambda task: self._drop(request.vm, task))

    def _drop(self, vm: str, task: "asyncio.Task[None]") -> None:
        self._tasks.pop(vm, None)
        if not task.cancelled():
            self._take(self._node.replica.fleet.power_requests.get(vm))  # one that came at the last moment

    async def _carry_out(self, vm: str) -> None:
        while request := self._request(vm):
            declared = self._node.replica.fleet.vms.get(vm)
            if declared is None:
                return
            try:
                await self._switch(request, declared)
            except Exception as error:  # noqa: BLE001 - it is logged
                await self._note_error(request, error)
            else:
                self._backoffs.succeed(request.id)

    async def _switch(self, request: PowerRequest, vm: Vm) -> None:
        """Call the driver once, and record what came of it or wait until it is worth asking again."""
        if not can_switch(self._driver):
            await self._report(request, ImpactResult.FAILED, NO_DRIVER)
            return
        match await self._calls.switch(vm, on=request.on, term=self._term):
            case ImpactDone(detail=detail):
                await self._report(request, ImpactResult.DONE, detail)
            case ImpactUnderway(check_at=check_at):
                until = max(check_at, self._node.clock.now() + _SOONEST)
                await self._sleep(sleep_until(self._node.clock, until))
            case ImpactFailed(reason=reason) | ImpactUnknown(reason=reason):
                await self._report(request, ImpactResult.FAILED, reason)
            case ImpactNotBegun():
                await self._report(request, ImpactResult.FAILED, "the driver did not begin")

    async def _note_error(self, request: PowerRequest, error: Exception) -> None:
        """Log the first error of a request, and wait before the driver is called for it again."""
        if self._backoffs.fail(request.id, str(error)):
            extra = {"fields": {**_fields(request), "reason": str(error)}}
            if isinstance(error, ForewarnError):
                log.warning("the outcome of a power request cannot be recorded", extra=extra)
            else:
                log.error("a power request failed, and is tried again", exc_info=error, extra=extra)
        pause = self._backoffs.pause_after(request.id, self._node.writer.retry_after)
        await self._sleep(sleep(self._node.clock, pause))

    def _request(self, vm: str) -> PowerRequest | None:
        request = self._node.replica.fleet.power_requests.get(vm)
        return request if request and not request.failure else None

    async def _report(self, request: PowerRequest, result: ImpactResult, detail: str) -> None:
        command = ReportPowerSwitch(
            id=new_id(),
            by=NODE,
            vm=request.vm,
            asked=request.id,
            result=result,
            detail=detail[:LONGEST_LINE],
        )
        while True:
            try:
                await self._node.submit(command)
            except Unavailable as error:
                extra = {"fields": {**_fields(request), "reason": str(error)}}
                log.warning("the outcome of a power request waits to be recorded", extra=extra)
                await self._sleep(sleep(self._node.clock, self._node.writer.retry_after))
            else:
                return

    async def _sleep(self, sleeping: Awaitable[None]) -> None:
        self._asleep += 1
        try:
            await sleeping
        finally:
            self._asleep -= 1

    def _warn(self, fleet: Fleet) -> None:
        failed = [request for request in fleet.power_requests.values() if request.failure]
        if not failed:
            self._node.warnings.pop(TOPIC, None)
            return
        sentences = [
            f"{each.vm} could not be {'started' if each.on else 'stopped'}: {each.failure}; "
            f"try it again: forewarn vm {'start' if each.on else 'deallocate'} {each.vm}"
            for each in islice(failed, _NAMED)
        ]
        more = f"; and {len(failed) - _NAMED} more" if len(failed) > _NAMED else ""
        self._node.warnings[TOPIC] = "; ".join(sentences) + more


def _fields(request: PowerRequest) -> dict[str, str]:
    return {"vm": request.vm, "power": "on" if request.on else "off"}
