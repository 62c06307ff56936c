"""Machines in libvirt's own test hypervisor, which lives in this process, and what befell them."""

import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any
from uuid import uuid4

import libvirt
import pytest

from forewarn.clocks import SystemClock
from forewarn.config.tables import read_table
from forewarn.core.model import Event, EventSource, EventStatus, EventType, InstanceFacts, Operation, Vm
from forewarn.drivers.executor import ImpactJob
from forewarn.drivers.libvirt.driver import LibvirtDriver
from forewarn.drivers.libvirt.guests import LibvirtGuest
from forewarn.drivers.libvirt.hosts import run_event_loop
from forewarn.drivers.libvirt.settings import LibvirtSettings
from forewarn.node.driver import Driver, Impact, ImpactOutcome, ImpactUnderway

URI = "test:///default"

DOMAIN = """\
<domain type="test">
  <name>{name}</name>
  <uuid>{uuid}</uuid>
  <memory unit="MiB">64</memory>
  <os><type arch="i686">hvm</type></os>
  <devices>
    <disk type="file" device="disk"><source file="{pool}/{name}.img"/><target dev="vda"/></disk>
    <disk type="file" device="disk"><source file="{pool}/{name}-swap.img"/><target dev="vdb"/></disk>
    <disk type="file" device="cdrom"><source file="/guest/cd"/><target dev="hdc"/><readonly/></disk>
    <interface type="network"><mac address="{mac}"/><source network="default"/></interface>
  </devices>
</domain>
"""
VOLUME = '<volume><name>{name}.img</name><capacity unit="bytes">{size}</capacity></volume>'


def wait_for(is_so: Callable[[], bool], seconds: float = 60.0) -> None:
    until = monotonic() + seconds
    while not is_so():
        assert monotonic() < until, "it did not come about in time"
        threading.Event().wait(0.01)


class Machines:
    """A test hypervisor, drivers for it, and a count of what was seen."""

    def __init__(self, place: Path) -> None:
        run_event_loop()
        self.place = place
        self.seen: Counter[tuple[str, int, int]] = Counter()
        self.connection = libvirt.open(URI)
        self.connection.domainEventRegisterAny(None, libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE, self._see, None)
        self.names: dict[str, str] = {}
        """The machine of each event."""
        self._made: list[LibvirtDriver] = []

    def _see(self, _: object, domain: libvirt.virDomain, event: int, detail: int, __: object) -> None:
        self.seen[domain.name(), event, detail] += 1

    def driver(self, **more: object) -> LibvirtDriver:
        settings = {"hosts": {"h1": URI}, **more}
        read = read_table("driver 'libvirt'", settings, LibvirtSettings)
        self._made.append(LibvirtDriver(read, SystemClock(), self.place / "records", reconnect_every=0.02))
        return self._made[-1]

    def define(self, *, starts: bool = True) -> Vm:
        """Make a machine of a name that nobody had before."""
        uuid = uuid4()
        name = f"vm-{uuid.hex[:12]}"
        mac = "52:54:00:" + ":".join(uuid.hex[place : place + 2] for place in (0, 2, 4))
        text = DOMAIN.format(name=name, uuid=uuid, pool="/default-pool", mac=mac)
        domain = self.connection.defineXML(text)
        if starts:
            domain.create()
        return Vm(name, "web", host="h1", instance=InstanceFacts(vm_id=str(uuid)))

    def add_disk(self, name: str, size: int = 1 << 20) -> str:
        pool = self.connection.storagePoolLookupByName("default-pool")
        pool.createXML(VOLUME.format(name=name, size=size))
        return str(pool.storageVolLookupByName(f"{name}.img").path())

    def sizes(self, path: str) -> list[int]:
        """Return the bytes that a disk has, and those that are allocated."""
        return [int(size) for size in self.connection.storageVolLookupByPath(path).info()[1:]]

    def impact(
        self, type: EventType, *vms: Vm, duration: int = 0, deletes: bool = False, operation: str = ""
    ) -> Impact:
        now = datetime.now(UTC)
        event = Event(
            id=str(uuid4()),
            type=type,
            source=EventSource.PLATFORM,
            group="web",
            resources=tuple(vm.name for vm in vms),
            status=EventStatus.STARTED,
            not_before=now,
            announced_at=now,
            operation=Operation(operation or f"vm {type}"),
            duration=duration,
        )
        self.names[event.id] = vms[0].name
        return Impact(event, vms, now, deletes=deletes)

    def domain(self, vm: Vm) -> libvirt.virDomain:
        return self.connection.lookupByName(vm.name)

    def state(self, vm: Vm) -> int:
        return int(self.domain(vm).info()[0])

    def is_there(self, vm: Vm) -> bool:
        return vm.name in [domain.name() for domain in self.connection.listAllDomains()]

    def settle(self, *vms: Vm) -> None:
        """Return once all that has happened to machines was seen."""
        for vm in vms:
            key = vm.name, libvirt.VIR_DOMAIN_EVENT_DEFINED, libvirt.VIR_DOMAIN_EVENT_DEFINED_UPDATED
            before = self.seen[key]
            self.connection.defineXML(self.domain(vm).XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE))
            wait_for(lambda key=key, before=before: self.seen[key] > before)  # type: ignore[misc]

    def times(self, name: str, event: int, detail: int) -> int:
        """Count an event of libvirt's."""
        self.settle(Vm(name, name))
        return self.seen[name, event, detail]

    def close(self) -> None:
        for driver in self._made:
            driver.close()
        for domain in self.connection.listAllDomains():
            if domain.name().startswith("vm-"):
                with suppress(libvirt.libvirtError):
                    domain.destroy()
                with suppress(libvirt.libvirtError):
                    domain.undefineFlags(libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE)
        self.connection.close()


FELT = {
    EventType.FREEZE: (libvirt.VIR_DOMAIN_EVENT_SUSPENDED, libvirt.VIR_DOMAIN_EVENT_SUSPENDED_PAUSED),
    EventType.REDEPLOY: (libvirt.VIR_DOMAIN_EVENT_STOPPED, libvirt.VIR_DOMAIN_EVENT_STOPPED_DESTROYED),
    EventType.PREEMPT: (libvirt.VIR_DOMAIN_EVENT_STOPPED, libvirt.VIR_DOMAIN_EVENT_STOPPED_DESTROYED),
}
"""What libvirt tells when a machine feels an impact. (Its test hypervisor tells nothing of a reboot.)"""


class Crash(BaseException):
    """Stands for the end of the process: nothing of ours catches it."""


def crash_at(machines: Machines, impact: Impact, steps: int, **settings: object) -> None:
    """Perform an impact with a driver that dies when it has written down so many steps, and before the next."""
    driver: Any = machines.driver(**settings)
    left = steps

    def die(*_: object, **__: object) -> None:
        raise Crash

    with driver._executor._progress_store.held(impact.event.id) as progress_file:
        progress_file.begin(impact)
        note = progress_file.note

        def count(name: str, vm: str = "", **seen: str) -> None:
            nonlocal left
            if left == 0:
                driver._hosts.domain = driver._hosts.connection = die  # the dead touch nothing
                die()
            left -= 1
            note(name, vm, **seen)

        progress_file.note, progress_file.end = count, die
        with pytest.raises(Crash):
            progress_file.end(
                driver._do(ImpactJob(impact, progress_file, driver._executor.closing, is_resumed=False))
            )
    driver.close()


CHANGES = (
    "ask_to_go_down",
    "ask_to_reboot",
    "destroy",
    "reset",
    "resume",
    "save",
    "start",
    "start_as",
    "suspend",
    "undefine",
)
"""What a driver does to a machine."""


def crash_after(
    driver: Any, impact: Impact, points: int, patch: pytest.MonkeyPatch, die: Callable[[], None] | None = None
) -> list[str]:
    """Perform an impact with a driver that dies when it has written down or done so many things; return which."""
    happened: list[str] = []

    def dying(name: str, do: Callable[..., None]) -> Callable[..., None]:
        def act(*given: object, **more: object) -> None:
            do(*given, **more)
            happened.append(name)
            if len(happened) == points:
                if die is None:
                    raise Crash
                die()

        return act

    with patch.context() as patched, driver._executor._progress_store.held(impact.event.id) as progress_file:
        progress_file.begin(impact)
        for change in CHANGES:
            patched.setattr(LibvirtGuest, change, dying(change, getattr(LibvirtGuest, change)))
        write: Any = progress_file.note
        progress_file.note = lambda name, vm="", **seen: dying(name, write)(name, vm, **seen)
        with pytest.raises(Crash):
            driver._do(ImpactJob(impact, progress_file, driver._executor.closing, is_resumed=False))
    driver.close()
    return happened


def when_ended(driver: Driver, asked: Impact) -> ImpactOutcome:
    while isinstance(outcome := driver.outcome_of(asked), ImpactUnderway):
        threading.Event().wait(0.01)
    return outcome
