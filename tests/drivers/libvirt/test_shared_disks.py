"""Guests with a disk that both hosts see: however they were moved, one QEMU at a time has the disk open."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import libvirt
import pytest
from msgspec.structs import replace

from forewarn.core.model import EventType, Operation
from forewarn.node.driver import Impact, ImpactDone
from tests.drivers.impacts import carried_out
from tests.drivers.libvirt.daemons import Daemons
from tests.drivers.libvirt.hypervisor import Guest

pytestmark = pytest.mark.end_to_end

DISK = """\
<disk type="file" device="disk">
  <driver name="qemu" type="raw" cache="none"/>
  <source file="{path}"/>
  <target dev="vda" bus="virtio"/>
</disk>
"""


class Moved:
    """A guest that an administrator migrated to h2; h1 still defines it, and the fleet has it there."""

    def __init__(self, daemons: Daemons) -> None:
        self._daemons = daemons
        self.disk = daemons.root / f"{uuid4()}.raw"
        with self.disk.open("wb") as file:
            file.truncate(1 << 20)
        self.guest: Guest = daemons.boot(devices=DISK.format(path=self.disk))
        self.uuid = self.guest.domain.UUIDString()
        daemons.migrate(self.guest, undefine=False)
        self._starts: list[int] = []
        old = daemons.connections["h1"]
        lifecycle = libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE
        self._heard = old.domainEventRegisterAny(old.lookupByUUIDString(self.uuid), lifecycle, self._hear, None)

    def _hear(self, _: object, __: object, event: int, *___: object) -> None:
        self._starts += [event] if event == libvirt.VIR_DOMAIN_EVENT_STARTED else []

    def assert_runs_once(self) -> None:
        """It runs on h2 only, was never started on h1, and one QEMU has its disk open."""
        domains = {name: each.lookupByUUIDString(self.uuid) for name, each in self._daemons.connections.items()}
        assert [name for name, domain in domains.items() if domain.isActive()] == ["h2"]
        assert int(domains["h2"].info()[0]) == libvirt.VIR_DOMAIN_RUNNING
        assert self._starts == []
        (process,) = processes_with(self.disk)
        assert "qemu-system" in (process / "cmdline").read_text()

    def close(self) -> None:
        self._daemons.connections["h1"].domainEventDeregisterAny(self._heard)


def processes_with(path: Path) -> set[Path]:
    """Return the directories in /proc of the processes that have a file open."""
    found = set()
    for each in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            found |= {each.parent.parent} if each.readlink() == path else set()
        except OSError:
            continue  # closed meanwhile
    return found


@pytest.fixture
def moved(daemons: Daemons) -> Iterator[Moved]:
    moved = Moved(daemons)
    yield moved
    moved.close()


def of_host(impact: Impact) -> Impact:
    return replace(impact, event=replace(impact.event, operation=Operation.HOST_REBOOT, host="h1"))


def test_a_moved_guest_is_restarted_with_its_disk_open_once(daemons: Daemons, moved: Moved) -> None:
    """It boots again on h2, where it runs."""
    guest = moved.guest
    boots = guest.boots

    assert carried_out(daemons.driver(), guest.impact(EventType.REBOOT)) == ImpactDone({guest.name: "h2"})
    guest.wait_for_another_boot(boots)
    moved.assert_runs_once()


def test_the_reboot_of_the_old_host_leaves_the_disk_to_the_moved_guest(daemons: Daemons, moved: Moved) -> None:
    """The guest does not boot again, and h1 does not open the disk."""
    guest = moved.guest
    done = carried_out(daemons.driver(), of_host(guest.impact(EventType.REBOOT)))

    assert done == ImpactDone({guest.name: "h2"}, f"{guest.name} is on h2 and was not changed")
    moved.assert_runs_once()
    assert guest.still_runs
