"""Records observations of drivers."""

import asyncio
import logging
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import replace

from forewarn.clocks import sleep
from forewarn.core.commands import RecordObservation
from forewarn.core.errors import ForewarnError, Unavailable
from forewarn.core.model import NODE, Observation, ObservationKind, Vm
from forewarn.core.terms import LONGEST_LINE
from forewarn.node.driver import Driver, SupportsObservation, SupportsResync
from forewarn.node.node import Node
from forewarn.randomness import new_id
from forewarn.threads import THREADS

log = logging.getLogger(__name__)

LIMIT = 10
"""Observations of one VM that are recorded within ``WINDOW``."""
WINDOW = timedelta(minutes=1)
_REMEMBERED = 10_000
_MOST = 10_000
"""Observations that may wait to be recorded: as many as when all machines of a large fleet fail at once."""


class Observer:
    """Turns each observation into a command, in order."""

    def __init__(self, node: Node, driver: Driver, *, expected_call: float = 1.0) -> None:
        """``expected_call``: seconds that a start waits for a driver to begin to watch."""
        self._expected_call = expected_call
        self._node = node
        self._driver = driver
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_watching = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._throttle = ObservationThrottle()

    @property
    def is_idle(self) -> bool:
        """Whether no observation waits to be recorded."""
        return not self._tasks

    async def start(self) -> None:
        """Begin to listen, where the driver has something to tell; it is asked to watch only once.

        When this process leads again, the driver tells how the machines are now: no process has listened meanwhile.
        """
        self._loop = loop = asyncio.get_running_loop()
        if isinstance(self._driver, SupportsObservation) and not self._is_watching:
            self._is_watching = True
            # A driver that watches within the call never returns from it, so it has a thread.
            watching = loop.run_in_executor(THREADS, self._watch, self._driver)
            await asyncio.wait([watching], timeout=self._expected_call)
        elif isinstance(self._driver, SupportsResync):
            loop.run_in_executor(THREADS, self._resync, self._driver)

    def _watch(self, driver: SupportsObservation) -> None:
        try:
            driver.watch(self._hear)
        except BaseException:  # third-party code; its events are carried out all the same
            log.exception("the driver cannot watch its machines")
            self._node.warnings["driver"] = "the driver cannot watch its machines; the log says why"

    def _resync(self, driver: SupportsResync) -> None:
        try:
            driver.resync()
        except BaseException:  # third-party code; what happens from now on is reported all the same
            log.exception("the driver cannot tell how its machines are")

    async def stop(self) -> None:
        """Hear nothing more until it is started again."""
        self._loop = None
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _hear(self, observation: Observation) -> None:
        """Pass an observation on from a driver's thread to the event loop."""
        if (loop := self._loop) is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._take, observation)

    def _take(self, seen: Observation) -> None:
        try:
            seen = msgspec.convert(msgspec.structs.asdict(seen), Observation)
            msgspec.json.encode(seen)  # the journal holds no text that is not Unicode
        except (msgspec.ValidationError, TypeError, UnicodeEncodeError) as error:
            log.error("the driver reported an invalid observation", extra={"fields": {"reason": str(error)}})  # noqa: TRY400
            return
        vm = self._named(seen)
        if vm is None or (seen.what is ObservationKind.MOVED and vm.standing_on == seen.host):
            return  # not ours, or no news: a driver tells at each start where machines are
        observation = self._throttle.admit(replace(seen, vm=vm.name, vm_id="", detail=seen.detail[:LONGEST_LINE]))
        if observation is None:
            return
        if len(self._tasks) >= _MOST:
            log.warning("an observation is not recorded: too many wait", extra={"fields": _fields(observation)})
            return
        # A task each: one that waits for the journal must not let the driver's word on an impact overtake the rest.
        task = asyncio.create_task(self._record(observation))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _named(self, seen: Observation) -> Vm | None:
        """Return the observed VM: by its UUID, where it has one; else by its name."""
        vms = self._node.replica.fleet.vms
        vm = vms.get(seen.vm)
        if not seen.vm_id or (vm and vm.instance.vm_id.lower() in ("", seen.vm_id)):
            return vm
        return next((each for each in vms.values() if each.instance.vm_id.lower() == seen.vm_id), None)

    async def _record(self, observation: Observation) -> None:
        command = RecordObservation(id=new_id(), by=NODE, observation=observation)
        is_again = False
        while True:
            try:
                if not is_again or await self._node.writer.recorded(command.id) is None:
                    await self._node.submit(command)
            except Unavailable as error:
                log.warning("an observation waits to be recorded", extra={"fields": _fields(observation, error)})
                await sleep(self._node.clock, self._node.writer.retry_after)
                is_again = True  # it may have been recorded although the append failed
            except ForewarnError as error:
                log.warning("an observation cannot be recorded", extra={"fields": _fields(observation, error)})
                return
            else:
                return


def _fields(observation: Observation, error: ForewarnError | None = None) -> dict[str, str]:
    fields = {"vm": observation.vm, "seen": str(observation.what)}
    return {**fields, "reason": str(error)} if error else fields


class _RecentObservations(msgspec.Struct):
    since: datetime
    count: int = 0


class ObservationThrottle:
    """Counts what is seen of each VM: a guest that reboots itself in a loop must not fill the journal."""

    def __init__(self) -> None:
        self._recent: dict[str, _RecentObservations] = {}

    def admit(self, observation: Observation) -> Observation | None:
        """Return what is to be recorded; None for what happens too often. A crash is always recorded."""
        if observation.what is ObservationKind.CRASHED:
            return observation
        recent = self._recent.get(observation.vm)
        if recent is None or not recent.since <= observation.at < recent.since + WINDOW:
            self._make_room(observation.at)
            recent = self._recent[observation.vm] = _RecentObservations(observation.at)
        recent.count += 1
        if recent.count < LIMIT:
            return observation
        if recent.count > LIMIT:
            return None
        detail = f"{observation.detail}; it goes on like this, and is recorded again after a minute".removeprefix(
            "; "
        )
        return replace(observation, detail=detail)

    def _make_room(self, now: datetime) -> None:
        if len(self._recent) >= _REMEMBERED:
            self._recent = {vm: each for vm, each in self._recent.items() if now < each.since + WINDOW}
