"""A VM as a libvirt domain: its state and the calls on it, with libvirt errors translated."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any
from uuid import UUID
from xml.etree import ElementTree as ET

import libvirt

from forewarn.core.model import Vm
from forewarn.drivers.libvirt import location
from forewarn.drivers.libvirt.hosts import LibvirtHosts
from forewarn.drivers.libvirt.location import DomainCopy, DomainState, LocationSurvey
from forewarn.drivers.libvirt.problems import (
    DomainAbsent,
    LibvirtProblem,
    LibvirtUnreachable,
    LibvirtUnsupported,
    problem_of,
)

_MIGRATIONS = {
    libvirt.VIR_DOMAIN_JOB_OPERATION_MIGRATION_IN,
    libvirt.VIR_DOMAIN_JOB_OPERATION_MIGRATION_OUT,
}
_LEFT_BEHIND = (
    libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE
    | libvirt.VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA
    | libvirt.VIR_DOMAIN_UNDEFINE_NVRAM
)


class LibvirtGuest:
    """One VM on one host: the recorded one, until ``find`` has found it on another."""

    def __init__(self, hosts: LibvirtHosts, vm: Vm, host: str | None = None, uuid: str = "") -> None:
        self.vm = vm
        self.name = vm.name
        self.host = hosts.called(vm.standing_on) if host is None else host
        self._hosts = hosts
        self._is_known = bool(uuid)
        """Whether the UUID is libvirt's, so that another machine of the same name is not confused with it."""
        self._uuid = uuid or uuid_of(vm)

    def on(self, host: str) -> "LibvirtGuest":
        """Return the same VM as it is, or will be, on another host."""
        return LibvirtGuest(self._hosts, self.vm, host, self.uuid)

    def find(self) -> DomainCopy | None:
        """Find the host that has it, and use that from now on; None if no host has it."""
        copy = location.find(self._hosts, self.name, self._uuid, self.host)
        if copy:
            self.stay(copy.host, copy.uuid)
        return copy

    def stay(self, host: str, uuid: str) -> None:
        """Refer to the machine of that UUID on that host from now on."""
        self.host, self._uuid, self._is_known = host, uuid or self._uuid, bool(uuid)

    def survey(self) -> LocationSurvey:
        return location.survey_hosts(self._hosts, self.name, self._uuid, self.host)

    def state(self) -> DomainState:
        try:
            domain = self.domain()
            with self._translate_errors("look"):
                return location.read_state(domain)
        except DomainAbsent:
            return DomainState()

    def is_off(self) -> bool:
        """Return whether its host has it, and it has no process."""
        state = self.state()
        return state.is_defined and state.id == -1

    def domain(self) -> libvirt.virDomain:
        return self._hosts.domain(self.host, self.name, self._uuid, by_name=not self._is_known)

    @property
    def uuid(self) -> str:
        """Its libvirt UUID; empty while unknown."""
        if not self._is_known:
            with suppress(DomainAbsent):
                domain = self.domain()
                with self._translate_errors("look"):
                    self.stay(self.host, domain.UUIDString())
        return self._uuid

    @property
    def reboots(self) -> int:
        """Number of reboot events on the current connection."""
        return self._hosts.reboots[self.connection_id, self.domain().name()]

    @property
    def connection_id(self) -> str:
        """Id of the connection to its host; each reconnection has a new one."""
        return self._hosts.connection_id(self.host)

    def suspend(self) -> None:
        with self._unless(lambda state: state.is_paused):
            domain = self.domain()
            with self._translate_errors("suspend"):
                domain.suspend()

    def resume(self) -> None:
        with self._unless(lambda state: state.runs):
            domain = self.domain()
            with self._translate_errors("resume"):
                domain.resume()

    def ask_to_reboot(self) -> None:
        """Press the power button, and let libvirt start the machine again once it is down."""
        domain = self.domain()
        with self._translate_errors("reboot"):
            domain.reboot(libvirt.VIR_DOMAIN_REBOOT_ACPI_POWER_BTN)

    def ask_to_go_down(self) -> None:
        """Press the power button, by the method that its hypervisor supports."""
        domain = self.domain()
        try:
            with self._translate_errors("shutdown"):
                domain.shutdownFlags(libvirt.VIR_DOMAIN_SHUTDOWN_ACPI_POWER_BTN)
        except LibvirtUnsupported:
            with self._translate_errors("shutdown"):
                domain.shutdown()

    def definition(self) -> str:
        """Return its current definition, including changes that its persistent definition lacks."""
        domain = self.domain()
        with self._translate_errors("look"):
            return str(domain.XMLDesc(libvirt.VIR_DOMAIN_XML_SECURE | libvirt.VIR_DOMAIN_XML_MIGRATABLE))

    def may_go_down(self, definition: str) -> bool:
        """Return whether it is off, and loses nothing, after it has shut down by itself."""
        return self.is_persistent and ET.fromstring(definition).findtext("on_poweroff", "destroy") == "destroy"  # noqa: S314 libvirt's own words

    def reset(self) -> None:
        domain = self.domain()
        with self._translate_errors("reset"):
            domain.reset()

    def require_off(self) -> None:
        """Raise unless every host answers that it is not active there."""
        location.require_off(self._hosts, self.name, self._uuid, self.host)

    def start(self) -> None:
        """Start it, once every host has answered that it is not active there."""
        self.require_off()
        with self._unless(lambda state: state.is_active):
            domain = self.domain()
            with self._translate_errors("start"):
                domain.create()

    def start_as(self, definition: str) -> None:
        """Start it with this definition; its persistent definition is kept."""
        self.require_off()
        with self._unless(lambda state: state.is_active):
            connection = self._hosts.connection(self.host)
            with self._translate_errors("start"):
                connection.createXML(definition)

    def destroy(self) -> None:
        with self._unless(lambda state: not state.is_active):
            domain = self.domain()
            with self._translate_errors("destroy"):
                domain.destroy()

    def save(self) -> None:
        """Save its memory (managed save); the next start restores it."""
        with self._unless(lambda state: state.is_defined and not state.is_active):
            domain = self.domain()
            with self._translate_errors("save"):
                domain.managedSave()

    def undefine(self) -> None:
        """Remove its definition, with everything that libvirt keeps for it."""
        domain = self.domain()
        try:
            with self._translate_errors("undefine"):
                domain.undefineFlags(_LEFT_BEHIND)
        except LibvirtUnsupported:
            with self._translate_errors("undefine"):
                domain.undefineFlags(libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE)

    @property
    def is_persistent(self) -> bool:
        """Whether libvirt keeps its definition while it is off."""
        domain = self.domain()
        with self._translate_errors("look"):
            return bool(domain.isPersistent())

    @property
    def memory(self) -> int:
        """Its maximum memory in bytes."""
        domain = self.domain()
        with self._translate_errors("look"):
            return int(domain.maxMemory()) * 1024

    def is_migrating(self) -> bool:
        """Return whether libvirt is migrating it, for this driver or another client."""
        try:
            stats: Any = self.domain().jobStats()
        except (libvirt.libvirtError, LibvirtProblem):
            return False
        return stats.get("operation") in _MIGRATIONS

    @property
    def cpus(self) -> int:
        domain = self.domain()
        with self._translate_errors("look"):
            return int(domain.info()[3])

    def start_post_copy(self) -> None:
        """Switch the migration to post-copy: it runs on the target while the rest of its memory follows."""
        with suppress(libvirt.libvirtError, LibvirtProblem):
            self.domain().migrateStartPostCopy(0)

    def has_job(self) -> bool:
        try:
            return int(self.domain().jobInfo()[0]) != libvirt.VIR_DOMAIN_JOB_NONE
        except (libvirt.libvirtError, DomainAbsent):
            return False

    def abort_job(self) -> None:
        with suppress(libvirt.libvirtError, LibvirtProblem):
            self.domain().abortJob()

    def percent_done(self) -> int:
        """Return the percentage of its memory that the current job has transferred."""
        try:
            stats: Any = self.domain().jobStats()
        except (libvirt.libvirtError, LibvirtProblem):
            return 0
        total, left = int(stats.get("memory_total", 0)), int(stats.get("memory_remaining", 0))
        return 100 * (total - left) // total if total else 0

    def disks(self) -> dict[str, str]:
        """Return the paths of its writable disks, by target name."""
        domain = self.domain()
        with self._translate_errors("look"):
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
    def _unless(self, is_so: Callable[[DomainState], bool]) -> Iterator[None]:
        """Ignore an error if the machine is in the desired state: an earlier call was still in progress."""
        try:
            yield
        except LibvirtUnreachable:
            raise
        except LibvirtProblem:
            if not is_so(self.state()):
                raise

    @contextmanager
    def _translate_errors(self, what: str) -> Iterator[None]:
        try:
            yield
        except libvirt.libvirtError as error:
            raise problem_of(self.host, error, f"{self.name}: {what}") from None


def uuid_of(vm: Vm) -> str:
    """Return the declared UUID of a VM; empty if it has none."""
    try:
        return str(UUID(vm.instance.vm_id))
    except ValueError:
        return ""
