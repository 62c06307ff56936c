"""libvirt on other machines, reached over SSH: by a real sshd on loopback."""

import threading
from collections.abc import Iterator
from pathlib import Path

import libvirt
import pytest

from forewarn.cli.importing.sources import LibvirtSources
from forewarn.core.model import EventType, Observation, ObservationKind, Vm
from forewarn.drivers.libvirt.driver import LibvirtDriver
from forewarn.node.driver import ImpactDone, ImpactFailed
from tests.drivers.impacts import carried_out
from tests.drivers.libvirt.daemons import Daemons
from tests.drivers.libvirt.hypervisor import wait_for
from tests.drivers.libvirt.machines import when_ended
from tests.drivers.libvirt.ssh_server import SshServer

pytestmark = pytest.mark.end_to_end


@pytest.fixture
def ssh(daemons: Daemons, tmp_path: Path) -> Iterator[SshServer]:
    ssh = SshServer(daemons, tmp_path)
    yield ssh
    ssh.close()


def driver_to(daemons: Daemons, uri: str) -> LibvirtDriver:
    return daemons.driver(hosts={"h1": uri})


def test_machines_behind_ssh_are_driven_and_seen(daemons: Daemons, ssh: SshServer) -> None:
    """An event is carried out, what others do is heard, and an import finds the machine."""
    guest = daemons.boot()
    driver = driver_to(daemons, ssh.uri())
    seen: list[Observation] = []
    driver.watch(seen.append)

    assert carried_out(driver, guest.impact(EventType.FREEZE, duration=0)) == ImpactDone()
    with LibvirtSources([f"h1={ssh.uri()}"]) as sources:
        assert [machine.name for machine in sources.read()[0].machines] == [guest.name]
    driver._ours.clear()
    guest.domain.destroy()
    wait_for(lambda: ObservationKind.STOPPED in [sight.what for sight in seen], "the end of the guest to be seen")


def test_a_conversation_that_was_cut_is_taken_up_again(daemons: Daemons, ssh: SshServer) -> None:
    """While SSH is closed the event fails with that sentence; once it is open the next one is carried out."""
    guest = daemons.boot()
    driver = driver_to(daemons, ssh.uri())
    assert carried_out(driver, guest.impact(EventType.FREEZE, duration=0)) == ImpactDone()
    ssh.cut()
    shut = carried_out(driver, guest.impact(EventType.FREEZE, duration=0))
    ssh.open()

    assert isinstance(shut, ImpactFailed)
    assert "libvirt on h1" in shut.reason
    assert "cannot be reached" in shut.reason
    assert carried_out(driver, guest.impact(EventType.FREEZE, duration=0)) == ImpactDone()
    assert guest.state == libvirt.VIR_DOMAIN_RUNNING


def test_a_guest_that_went_down_while_ssh_was_closed_is_started(daemons: Daemons, ssh: SshServer) -> None:
    """A reboot is seen through: the guest is off until its host can be reached again, and no longer."""
    guest = daemons.boot()
    boots, id_, asked = guest.boots, guest.domain.ID(), guest.impact(EventType.REBOOT)
    driver = driver_to(daemons, ssh.uri())
    carried_out(driver, guest.impact(EventType.FREEZE, duration=0))
    underway = threading.Thread(target=driver.perform, args=(asked,))
    underway.start()
    wait_for(lambda: bool(guest.said("powerdown")), "the guest to go down")
    ssh.cut()
    wait_for(lambda: guest.domain.ID() != id_, "the guest to be off")
    underway.join()
    ssh.open()

    assert when_ended(driver, asked) == ImpactDone()
    guest.wait_for_another_boot(boots)


@pytest.mark.parametrize(
    ("which", "remedy"),
    [
        ({"key": "strange"}, "set up an ssh key without a passphrase for the user that runs Forewarn"),
        ({"known": "nobody"}, "log in there once with ssh as the user that runs Forewarn"),
    ],
)
def test_a_door_that_stays_shut_is_told_with_its_remedy(
    daemons: Daemons, ssh: SshServer, which: dict[str, str], remedy: str
) -> None:
    """A key that the host does not take, and a host that we do not know: nobody is asked, nothing hangs."""
    (result,) = driver_to(daemons, ssh.uri(**which)).check((Vm("web-0", "web", "h1"),))

    assert result.startswith("libvirt on h1 (qemu+ssh://root@127.0.0.1:")
    assert remedy in result
