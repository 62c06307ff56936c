"""The emulator on an event loop: the real service, one port for each VM, and a clock that can be moved."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta

import msgspec
from msgspec.structs import replace

from forewarn.clocks import ManualClock
from forewarn.config.settings import Settings
from forewarn.config.values import ListenAddress
from forewarn.control.server.drain_planner import DrainPlanner
from forewarn.core.commands import AnnouncementTerms, Approve, CancelEvent, ChangeFleet, Enrol
from forewarn.core.errors import BadInput, Unavailable, unknown
from forewarn.core.model import Caller, CallerKind
from forewarn.drivers.simulated import SimulatedDriver, SimulatedSettings
from forewarn.emulator.clock import RunningClock
from forewarn.emulator.event_log import EventLife, EventLog
from forewarn.emulator.faults import Faults
from forewarn.emulator.requests import RequestLog, SentRequest
from forewarn.emulator.setup import IMPACT_DURATIONS, EmulationSetup, with_addresses
from forewarn.emulator.verbs import EMULATOR, Verb, command_on_host, command_on_vm
from forewarn.emulator.vm_ports import VmPorts
from forewarn.journal.memory import MemoryJournal
from forewarn.metadata.service import MetadataService
from forewarn.randomness import new_id
from forewarn.wire.document import render
from forewarn.wire.versions import BY_NAME, NEWEST
from forewarn.wiring import Assembly, limits_of

_FOREVER = 10**9
_PORTS = 65_536
_RATE = 5.0
_PATIENCE = 30.0


class Emulation:
    """One emulated fleet and its service."""

    def __init__(
        self,
        setup: EmulationSetup,
        *,
        virtual_time: bool = False,
        now: datetime | None = None,
        hurry: float = 1.0,
        host: str = "127.0.0.1",
        port: int = 0,
        seed: int = 0,
        patience: float = _PATIENCE,
    ) -> None:
        self.setup = setup
        self.hurry = hurry
        self.host = host
        self.patience = patience
        """Seconds of the real clock that anything may be under way."""
        # Virtual time begins at the real one, so that a client that reads its own clock can make sense of NotBefore.
        self.clock = ManualClock(now or datetime.now(UTC).replace(microsecond=0)) if virtual_time else RunningClock()
        self.event_log = EventLog()
        self.faults = Faults(self.clock, hurry, seed, setup.faults)
        self._virtual_time = virtual_time
        self._port = port
        # Where time stands still, any number of requests comes at the same moment: no rate would be just.
        self._settings = Settings(
            metadata=ListenAddress(host, port),
            hurry=hurry,
            notice=setup.notice,
            user_operation_limit=setup.user_operation_limit,
            rate_limit=0.0 if virtual_time else _RATE,
        )
        driver = SimulatedDriver(_driver_settings(setup), self.clock, hurry)
        self.assembly = Assembly(self._settings, self.clock, MemoryJournal(), driver, self._open_vm_ports)
        self.node = self.assembly.node
        self.node.replica.subscribe(self.event_log)
        self._changed: list[Callable[[], None]] = []
        self._seen: list[Callable[[SentRequest], None]] = []
        self.event_log.changed = self._tell
        self._tasks: set[asyncio.Task[None]] = set()
        self._parts = AsyncExitStack()

    @property
    def requests(self) -> RequestLog:
        return self._vm_ports.requests

    @property
    def vms(self) -> tuple[str, ...]:
        """The VMs there were at the beginning; those that are gone keep their ports."""
        return tuple(self.setup.fleet.vms)

    def url(self, vm: str = "") -> str:
        """Return where a VM asks; the first one when none is named."""
        return f"http://{ListenAddress(self.host, self._vm_ports.port_of(self._known(vm or self.vms[0])))}"

    def watch(self, changed: Callable[[], None]) -> None:
        """Call this after every commit and every request."""
        self._changed.append(changed)

    def watch_requests(self, seen: Callable[[SentRequest], None]) -> None:
        """Call this with every request, when it has come and again when it was answered."""
        self._seen.append(seen)

    async def start(self) -> None:
        """Begin to answer; on failure nothing is left behind."""
        fleet = with_addresses(self.setup.fleet)
        if self._port + len(fleet.vms) > _PORTS:
            raise BadInput(f"{len(fleet.vms)} VMs need as many ports, but above {self._port} there are fewer")
        async with AsyncExitStack() as parts:
            await self.assembly.start()
            if isinstance(self.clock, RunningClock):
                parts.callback(self.clock.close)
            parts.push_async_callback(self.assembly.stop)
            await self.assembly.declare(fleet, EMULATOR)
            if self.setup.enrolled:
                for group in list(self.node.replica.fleet.groups.values()):
                    await self.node.submit(Enrol(id=new_id(), by=EMULATOR, group=group.name, vm=group.vms[0]))
            for number, vm in enumerate(fleet.vms.values()):
                port = self._port + number if self._port else 0
                await self._vm_ports.open(vm.name, vm.address, self.host, port)
            await self.settled()
            self._parts = parts.pop_all()

    async def stop(self) -> None:
        await self._parts.aclose()

    async def do(
        self,
        verb: Verb,
        *,
        vm: str = "",
        host: str = "",
        notice: timedelta | None = None,
        duration: int | None = None,
        description: str | None = None,
    ) -> list[EventLife]:
        """Do something to a VM, or to a host; return the events that it announced.

        ``notice``, hurried like everything else, asks for more of it than the least.
        """
        not_before = None if notice is None else self.clock.now() + notice / self.hurry
        terms = AnnouncementTerms(not_before=not_before, duration=duration, description=description)
        if verb is Verb.EVICT and (known := self.node.replica.fleet.vms.get(vm)) and not known.spot:
            # Only spot VMs are evicted; in the emulator an evicted VM becomes one.
            await self.node.submit(ChangeFleet(id=new_id(), by=EMULATOR, vms=(replace(known, spot=True),)))
        if vm:
            command = command_on_vm(verb, vm, **terms)
        else:
            placements = {}
            if verb is Verb.DRAIN:
                placements = (await DrainPlanner(self.node.replica, None).plan(host, leave_stuck=False)).placements
            command = command_on_host(verb, host, placements, **terms)
        return self.event_log.of(await self.node.submit(command))

    async def approve(self, event: str, by: str = "") -> None:
        """Approve an event in the name of a VM; of the operator when none is named."""
        caller = Caller(CallerKind.VM, self._known(by)) if by else EMULATOR
        await self.node.submit(Approve(id=new_id(), by=caller, events=(event.lower(),)))

    async def cancel(self, event: str) -> None:
        """Take back an event that has not started."""
        await self.node.submit(CancelEvent(id=new_id(), by=EMULATOR, event=event.lower()))

    async def ask(self, vm: str) -> None:
        """Let a VM ask for its document, without its port: nothing is recorded as sent, and nothing goes wrong."""
        head = f"GET /metadata/scheduledevents?api-version={NEWEST.name} HTTP/1.1\r\nHost: {self.host}\r\n"
        request, _ = self._vm_ports.registry.request_cache.read(f"{head}Metadata: true\r\n\r\n".encode())
        receiver = _PendingRequest()
        address = self.node.replica.fleet.vms[vm].address if vm in self.node.replica.fleet.vms else ""
        if self.assembly.metadata.answer(request, b"", address, receiver) is None:
            await receiver.answered

    def document(self, vm: str = "", api_version: str = "") -> bytes:
        """Return what a VM would be shown now, were it to ask; nothing is recorded, and nothing goes wrong."""
        name = self._known(vm or self.vms[0])
        version = BY_NAME[api_version] if api_version else NEWEST
        documents = self.assembly.document_cache.groups.get(self.setup.fleet.vms[name].group)
        if documents is None:
            return b""  # a standalone group is gone with its VM
        return render(documents.events, documents.incarnation, version, documents.terms.kind)

    def spawn(self, work: Coroutine[None, None, None], name: str) -> None:
        """Do something beside everything else; nothing is settled before it is done."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def settled(self) -> None:
        """Return once nothing is under way: whatever is still to happen waits for the clock, or for a caller.

        Raise Unavailable, with the parts that are still busy, when that takes longer than ``patience``.
        """
        try:
            async with asyncio.timeout(self.patience) as limit:
                await self.assembly.settled()
                while self._tasks:
                    done, _ = await asyncio.wait(self._tasks)
                    for task in done:
                        task.result()
                    # Waiting for a finished task does not yield, and it leaves the set in the loop's next turn.
                    await asyncio.sleep(0)
                    await self.assembly.settled()
        except TimeoutError:
            if not limit.expired():
                raise
            busy = [*self.assembly.busy, *(task.get_name() for task in self._tasks)]
            raise Unavailable(
                f"the emulator is still busy after {self.patience:g} s of real time: {', '.join(busy)}"
            ) from None

    async def advance(self, step: timedelta) -> None:
        """Move the clock on, from one thing that falls due to the next, each done before time goes on."""
        end = self.clock.now() + step
        while await self.advance_towards(end):
            pass

    async def advance_towards(self, end: datetime) -> bool:
        """Move the clock on to the next thing that falls due; return whether anything is left until ``end``."""
        await self.settled()
        due = self.clock.next_call()
        is_more = due is not None and due <= end
        self.clock.advance_to(due if due is not None and is_more else end)
        self.assembly.metadata.tick()
        await asyncio.sleep(0)  # where nothing is under way, settling does not yield, and callers wait
        await self.settled()
        return is_more

    def _open_vm_ports(self, service: MetadataService) -> VmPorts:
        limits = limits_of(self._settings)
        if self._virtual_time:
            # A connection is not idle because the clock was moved.
            limits = msgspec.structs.replace(limits, idle=_FOREVER, arrival=_FOREVER, linger=_FOREVER)
        self._vm_ports = VmPorts(service, limits, self.clock, self.faults, beats=not self._virtual_time)
        self._vm_ports.requests.changed = self._note_request
        self.node.replica.subscribe(self._vm_ports.incarnations)
        return self._vm_ports

    def _note_request(self, request: SentRequest) -> None:
        # Who was shown what is of interest at once here, not in batches.
        if self.assembly.records.has_fetches:
            self.spawn(self.assembly.recorder.record_fetches(), "recording who was shown what")
        for seen in self._seen:
            seen(request)
        self._tell()

    def _tell(self) -> None:
        for changed in self._changed:
            changed()

    def _known(self, vm: str) -> str:
        if vm not in self.setup.fleet.vms:
            raise unknown("VM", vm, self.setup.fleet.vms)
        return vm


class _PendingRequest:
    """A caller within the emulator that waits for a response."""

    def __init__(self) -> None:
        self.answered: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def deliver(self, answer: bytes) -> None:
        self.answered.set_result(answer)


def _driver_settings(setup: EmulationSetup) -> SimulatedSettings:
    lasts = {**IMPACT_DURATIONS, **setup.lasts}
    return SimulatedSettings(**{str(type_): duration.total_seconds() for type_, duration in lasts.items()})  # type: ignore[arg-type]
