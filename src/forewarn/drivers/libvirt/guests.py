"""A VM as libvirt has it: what it is doing, and what can be done to it, with errors in our words."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from uuid import UUID
from xml.etree import ElementTree as ET

import libvirt
import msgspec

from forewarn.core.model import Vm
from forewarn.drivers.libvirt.hosts import Hosts
from forewarn.drivers.libvirt.problems import Absent, Trouble, Unsupported, trouble

_RUNNING = {libvirt.VIR_DOMAIN_RUNNING, libvirt.VIR_DOMAIN_BLOCKED, libvirt.VIR_DOMAIN_NOSTATE}
_LEFT_BEHIND = (
    libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE
    | libvirt.VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA
    | libvirt.VIR_DOMAIN_UNDEFINE_NVRAM
)


class Look(msgspec.Struct, frozen=True):
    """What a machine was doing when we looked."""

    state: int = -1
    reason: int = 0
    id: int = -1
    """Another one for each start of its process; -1 while there is none."""

    @property
    def is_there(self) -> bool:
        return self.state != -1

    @property
    def runs(self) -> bool:
        return self.state in _RUNNING

    @property
    def is_paused(self) -> bool:
        return self.state == libvirt.VIR_DOMAIN_PAUSED


class Guest:
    """One VM on one host."""

    def __init__(self, hosts: Hosts, vm: Vm, host: str | None = None) -> None:
        self.vm = vm
        self.name = vm.name
        self.host = vm.standing_on if host is None else host
        self._hosts = hosts
        self._uuid = _uuid(vm.instance.vm_id)

    def on(self, host: str) -> "Guest":
        """Return the same VM as it is, or will be, on another host."""
        return Guest(self._hosts, self.vm, host)

    def look(self) -> Look:
        try:
            domain = self.domain()
            with self._heard("look"):
                state, reason = map(int, domain.state())
                return Look(state, reason, domain.ID())
        except Absent:
            return Look()

    def domain(self) -> libvirt.virDomain:
        return self._hosts.domain(self.host, self.name, self._uuid)

    @property
    def reboots(self) -> int:
        """How often it was heard to start over, by the present ear."""
        return self._hosts.reboots[self.ear, self.domain().name()]

    @property
    def ear(self) -> str:
        """The connection by which its host is listened to; another one after each silence."""
        return self._hosts.ear(self.host)

    def suspend(self) -> None:
        domain = self.domain()
        with self._heard("suspend"):
            domain.suspend()

    def resume(self) -> None:
        domain = self.domain()
        with self._heard("resume"):
            domain.resume()

    def ask_to_reboot(self) -> None:
        """Press the power button, and have libvirt start the machine over when it has gone down."""
        domain = self.domain()
        with self._heard("reboot"):
            domain.reboot(libvirt.VIR_DOMAIN_REBOOT_ACPI_POWER_BTN)

    def ask_to_go_down(self) -> None:
        """Press the power button, in whatever way its hypervisor knows."""
        domain = self.domain()
        try:
            with self._heard("shutdown"):
                domain.shutdownFlags(libvirt.VIR_DOMAIN_SHUTDOWN_ACPI_POWER_BTN)
        except Unsupported:
            with self._heard("shutdown"):
                domain.shutdown()

    def definition(self) -> str:
        """Return what it runs with at this moment, also what its lasting definition says otherwise or not at all."""
        domain = self.domain()
        with self._heard("look"):
            return str(domain.XMLDesc(libvirt.VIR_DOMAIN_XML_SECURE | libvirt.VIR_DOMAIN_XML_MIGRATABLE))

    def may_go_down(self, definition: str) -> bool:
        """Tell whether it is off, and loses nothing, when it has gone down by itself."""
        return self.is_persistent and ET.fromstring(definition).findtext("on_poweroff", "destroy") == "destroy"  # noqa: S314 libvirt's own words

    def reset(self) -> None:
        domain = self.domain()
        with self._heard("reset"):
            domain.reset()

    def start(self) -> None:
        domain = self.domain()
        with self._heard("start"):
            domain.create()

    def start_as(self, definition: str) -> None:
        """Start it with what it ran with before; its lasting definition stays."""
        connection = self._hosts.connection(self.host)
        with self._heard("start"):
            connection.createXML(definition)

    def destroy(self) -> None:
        domain = self.domain()
        with self._heard("destroy"):
            domain.destroy()

    def save(self) -> None:
        """Write its memory to a file of libvirt's, from which the next start goes on."""
        domain = self.domain()
        with self._heard("save"):
            domain.managedSave()

    def undefine(self) -> None:
        """Have libvirt forget it, with all that libvirt keeps of it."""
        domain = self.domain()
        try:
            with self._heard("undefine"):
                domain.undefineFlags(_LEFT_BEHIND)
        except Unsupported:
            with self._heard("undefine"):
                domain.undefineFlags(libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE)

    @property
    def is_persistent(self) -> bool:
        """Whether libvirt remembers it while it is off."""
        domain = self.domain()
        with self._heard("look"):
            return bool(domain.isPersistent())

    @property
    def memory(self) -> int:
        """The bytes it may use."""
        domain = self.domain()
        with self._heard("look"):
            return int(domain.maxMemory()) * 1024

    def has_job(self) -> bool:
        """Tell whether libvirt is busy with it."""
        if not self.look().is_there:
            return False
        try:
            return int(self.domain().jobInfo()[0]) != libvirt.VIR_DOMAIN_JOB_NONE
        except libvirt.libvirtError:
            return False

    def abort_job(self) -> None:
        """Have libvirt give up what it is busy with."""
        with suppress(libvirt.libvirtError, Trouble):
            self.domain().abortJob()

    def percent_done(self) -> int:
        """Return how much of its memory has gone where libvirt is just taking it."""
        try:
            told: Any = self.domain().jobStats()
        except (libvirt.libvirtError, Trouble):
            return 0
        total, left = int(told.get("memory_total", 0)), int(told.get("memory_remaining", 0))
        return 100 * (total - left) // total if total else 0

    def disks(self) -> dict[str, str]:
        """Return the files of its disks that can be written, by what the machine calls them."""
        domain = self.domain()
        with self._heard("look"):
            root = ET.fromstring(domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE))  # noqa: S314 libvirt's own words
        found = {}
        for disk in root.iterfind("./devices/disk[@device='disk']"):
            target, source = disk.find("target"), disk.find("source")
            if target is not None and source is not None and disk.find("readonly") is None:
                path = source.get("file") or source.get("dev")
                if path:
                    found[target.get("dev", "")] = path
        return found

    @contextmanager
    def _heard(self, what: str) -> Iterator[None]:
        try:
            yield
        except libvirt.libvirtError as error:
            raise trouble(self.host, error, f"{self.name}: {what}") from None


def _uuid(given: str) -> str:
    try:
        return str(UUID(given))
    except ValueError:
        return ""
