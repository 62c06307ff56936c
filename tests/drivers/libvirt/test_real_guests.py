"""The libvirt driver with real guests under QEMU: what the guests themselves say is what counts."""

import libvirt
import pytest

from forewarn.core.model import EventType, Observation, ObservationKind
from forewarn.node.driver import ImpactDone
from tests.drivers.impacts import carried_out
from tests.drivers.libvirt.hypervisor import Hypervisor, wait_for

pytestmark = pytest.mark.end_to_end


def test_a_guest_is_frozen_for_the_announced_time(hypervisor: Hypervisor) -> None:
    """It is paused for two seconds, not much longer, and goes on where it was."""
    guest = hypervisor.guest()
    boots, resumed = guest.boots, len(hypervisor.happened(guest, libvirt.VIR_DOMAIN_EVENT_RESUMED))

    assert carried_out(hypervisor.driver(), guest.impact(EventType.FREEZE, duration=2)) == ImpactDone()
    wait_for(
        lambda: len(hypervisor.happened(guest, libvirt.VIR_DOMAIN_EVENT_RESUMED)) > resumed, "the guest to go on"
    )
    began = hypervisor.happened(guest, libvirt.VIR_DOMAIN_EVENT_SUSPENDED)[-1]
    # What libvirt tells of it may come late, the first word and the last.
    assert 1 < hypervisor.happened(guest, libvirt.VIR_DOMAIN_EVENT_RESUMED)[-1] - began < 20
    ticks = len(guest.said("clock"))
    wait_for(lambda: len(guest.said("clock")) > ticks, "the guest to say something")
    assert guest.boots == boots


def test_a_guest_that_listens_reboots_by_itself(hypervisor: Hypervisor) -> None:
    """It goes down at the power button, comes up with another boot id, and is not reset."""
    guest = hypervisor.guest()
    boots, pressed = guest.boots, len(guest.said("powerdown"))

    assert carried_out(hypervisor.driver(), guest.impact(EventType.REBOOT)) == ImpactDone()
    guest.wait_for_another_boot(boots)
    assert len(guest.said("powerdown")) == pressed + 1


def test_a_guest_that_libvirt_does_not_keep_reboots_in_place(hypervisor: Hypervisor) -> None:
    """It goes down at the power button too, and its process stays."""
    guest = hypervisor.new_guest(words="guest.transient=1")
    boots, id_ = guest.boots, guest.domain.ID()
    guest.domain.undefine()

    assert carried_out(hypervisor.driver(), guest.impact(EventType.REBOOT)) == ImpactDone()
    guest.wait_for_another_boot(boots)
    assert guest.said("powerdown")
    assert guest.domain.ID() == id_
    guest.domain.destroy()


def test_a_saved_guest_goes_on_where_it_was(hypervisor: Hypervisor) -> None:
    """Its boot id stays over eviction and start."""
    guest = hypervisor.guest()
    boots = guest.boots

    assert carried_out(hypervisor.driver(evict="save"), guest.impact(EventType.PREEMPT)) == ImpactDone()
    assert guest.state == libvirt.VIR_DOMAIN_SHUTOFF
    ticks = len(guest.said("clock"))
    guest.domain.create()
    wait_for(lambda: len(guest.said("clock")) > ticks, "the guest to go on")
    assert guest.boots == boots


def test_a_redeployed_guest_starts_anew(hypervisor: Hypervisor) -> None:
    """It has another process and another boot."""
    guest = hypervisor.guest()
    boots, before = guest.boots, guest.domain.ID()

    assert carried_out(hypervisor.driver(redeploy="restart"), guest.impact(EventType.REDEPLOY)) == ImpactDone()
    guest.wait_for_another_boot(boots)
    assert guest.domain.ID() not in {before, -1}


def test_a_guest_that_does_not_listen_is_reset(hypervisor: Hypervisor) -> None:
    """When its grace is over it starts over all the same, once."""
    guest = hypervisor.new_guest(words="acpi=off")
    boots = guest.boots
    done = carried_out(hypervisor.driver(grace="1s"), guest.impact(EventType.REBOOT))

    assert done == ImpactDone(detail=f"{guest.name} did not shut down within 1 s")
    guest.wait_for_another_boot(boots)
    guest.domain.destroy()


def test_what_befalls_guests_is_seen(hypervisor: Hypervisor) -> None:
    """A reset by hand and the death of the process are reported; our own freeze is not."""
    guest = hypervisor.guest()
    driver = hypervisor.driver()
    seen: list[Observation] = []
    driver.watch(seen.append)
    wait_for(lambda: bool(driver._hosts._open), "the driver to listen")
    carried_out(driver, guest.impact(EventType.FREEZE, duration=0))
    driver._ours.clear()
    guest.domain.reset()
    wait_for(lambda: bool(seen), "the reset to be seen")
    hypervisor.kill(guest)
    wait_for(lambda: seen[-1].what is ObservationKind.CRASHED, "the crash to be seen")

    assert [sight.what for sight in seen[:-1]] == [ObservationKind.REBOOTED] * (len(seen) - 1)
    assert {sight.vm for sight in seen} == {guest.name}
    assert seen[-1].detail == "its process on the host died, reported by libvirt on h1"


def test_a_guest_that_died_while_nobody_listened_is_seen_once(hypervisor: Hypervisor) -> None:
    """Libvirt remembers why a machine is off; what was told is not told again when the connection is a new one."""
    guest = hypervisor.guest()
    hypervisor.kill(guest)
    wait_for(lambda: guest.state == libvirt.VIR_DOMAIN_SHUTOFF, "its end")
    driver = hypervisor.driver()
    seen: list[Observation] = []
    driver.watch(seen.append)
    wait_for(lambda: any(sight.vm == guest.name for sight in seen), "the dead to be seen")
    driver._report_dead("h1")

    assert [(sight.what, sight.is_found) for sight in seen if sight.vm == guest.name] == [
        (ObservationKind.CRASHED, True)
    ]
    seen.clear()
    driver.resync()
    wait_for(lambda: any(sight.vm == guest.name for sight in seen), "the dead to be seen by the next leader")
    assert seen[-1].is_found


def test_an_evicted_guest_is_off(hypervisor: Hypervisor) -> None:
    """And libvirt still has it; deleted, it has not."""
    guest = hypervisor.guest()

    assert carried_out(hypervisor.driver(), guest.impact(EventType.PREEMPT)) == ImpactDone()
    assert guest.state == libvirt.VIR_DOMAIN_SHUTOFF
    assert carried_out(hypervisor.driver(), guest.impact(EventType.PREEMPT, deletes=True)) == ImpactDone()
    assert not guest.is_known
