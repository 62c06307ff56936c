"""What an import learns from a real agent in a real guest."""

from pathlib import Path

import pytest

from forewarn.cli.importing.libvirt_import import LibvirtImport
from forewarn.cli.importing.sources import LibvirtSources
from forewarn.cli.importing.targets import FileTarget
from tests.drivers.libvirt.agent_guests import DEVICES, WORDS, with_agent
from tests.drivers.libvirt.daemons import Daemons
from tests.drivers.libvirt.hypervisor import wait_for

pytestmark = pytest.mark.end_to_end

MAC, ADDRESS = "52:54:00:00:07:09", "10.7.0.9"


def test_the_address_is_the_one_that_the_guest_agent_tells(daemons: Daemons, tmp_path: Path) -> None:
    """No DHCP server and no neighbour knows it; and while the guest is paused, what was known stays."""
    guest = daemons.boot(WORDS.format(address=f"{ADDRESS}/24"), DEVICES.format(mac=MAC), with_agent)
    with LibvirtSources([f"h1={daemons.uris['h1']}"]) as sources:
        wait_for(lambda: bool(sources.read()[0].machines[0].address), "the agent to be asked")
        wanted = LibvirtImport(sources, FileTarget(tmp_path / "fleet.toml"))
        plan = wanted.plan()
        wanted.write(plan)
        guest.domain.suspend()
        later = wanted.plan()

    assert [(change.name, change.detail) for change in plan.changes if change.kind == "vm"] == [
        (guest.name, f"on h1, {ADDRESS}, {MAC}")
    ]
    assert later.changes == ()
    assert later.desired.vms[guest.name].address == ADDRESS
