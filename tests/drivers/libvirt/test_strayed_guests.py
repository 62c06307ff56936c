"""Machines that are not where the fleet has them: they are found on the other host, or the event fails."""

import libvirt
import pytest
from msgspec.structs import replace

from forewarn.core.model import EventType, Host, Operation
from forewarn.node.driver import CandidateHost, Impact, ImpactDone, ImpactFailed
from tests.drivers.impacts import carried_out
from tests.drivers.libvirt.daemons import Daemons
from tests.drivers.libvirt.hypervisor import Guest, wait_for

pytestmark = pytest.mark.end_to_end


def of_host(impact: Impact, operation: str) -> Impact:
    return replace(impact, event=replace(impact.event, operation=Operation(operation), host="h1"))


@pytest.fixture
def strayed(daemons: Daemons) -> Guest:
    """A guest that somebody moved to h2 by hand; h1 still defines it, and the fleet has it there."""
    guest = daemons.boot()
    daemons.migrate(guest, undefine=False)
    assert daemons.where(guest) == ["h1", "h2"]
    return guest


def test_a_guest_that_was_moved_by_hand_is_rebooted_where_it_runs(daemons: Daemons, strayed: Guest) -> None:
    """It is not started a second time on its old host, and the new one is told."""
    boots = strayed.boots
    assert carried_out(daemons.driver(), strayed.impact(EventType.REBOOT)) == ImpactDone({strayed.name: "h2"})

    strayed.wait_for_another_boot(boots)
    assert daemons.running(strayed) == ["h2"]


def test_the_reboot_of_a_host_leaves_guests_of_another_alone(daemons: Daemons, strayed: Guest) -> None:
    """They are on h2, and h1 is rebooted: nothing is started there, and nothing happens to them."""
    done = carried_out(daemons.driver(), of_host(strayed.impact(EventType.REBOOT), "host reboot"))

    assert done == ImpactDone({strayed.name: "h2"}, f"{strayed.name} is on h2 and was not changed")
    assert daemons.running(strayed) == ["h2"]
    assert strayed.still_runs


@pytest.mark.parametrize("type", [EventType.REBOOT, EventType.FREEZE, EventType.PREEMPT, EventType.TERMINATE])
def test_a_host_that_does_not_answer_is_named(daemons: Daemons, strayed: Guest, type: EventType) -> None:
    """The guest is off on h1, and may run on h2: the event fails, and nothing is started or called done."""
    daemons.kill("h2")
    failed = carried_out(daemons.driver(), strayed.impact(type, deletes=type is EventType.TERMINATE, duration=0))

    assert isinstance(failed, ImpactFailed)
    assert failed.reason.startswith(f"{strayed.name} is off on h1, and may run on h2: libvirt on h2 (")
    daemons.start("h2")
    assert daemons.running(strayed) == ["h2"]
    assert strayed.still_runs


def test_a_guest_that_was_moved_by_hand_is_frozen_where_it_runs(daemons: Daemons, strayed: Guest) -> None:
    """It is paused there, and goes on."""
    paused: list[int] = []
    there = daemons.connections["h2"]
    there.domainEventRegisterAny(
        None, libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE, lambda *result: paused.append(result[2]), None
    )
    assert carried_out(daemons.driver(), strayed.impact(EventType.FREEZE, duration=0)) == ImpactDone(
        {strayed.name: "h2"}
    )

    wait_for(lambda: libvirt.VIR_DOMAIN_EVENT_SUSPENDED in paused, "the guest to be paused")
    assert strayed.still_runs


def test_a_guest_that_was_moved_by_hand_is_evicted_and_deleted(daemons: Daemons, strayed: Guest) -> None:
    """Evicted it runs nowhere; deleted no host defines it."""
    assert carried_out(daemons.driver(), strayed.impact(EventType.PREEMPT)) == ImpactDone({strayed.name: "h2"})
    assert daemons.running(strayed) == []
    daemons.connections["h2"].lookupByName(strayed.name).create()
    assert isinstance(carried_out(daemons.driver(), strayed.impact(EventType.TERMINATE, deletes=True)), ImpactDone)
    assert daemons.where(strayed) == []


def test_a_guest_that_is_on_its_target_already_is_not_moved(daemons: Daemons, strayed: Guest) -> None:
    """Somebody moved it there."""
    asked = strayed.impact(EventType.REDEPLOY, candidates=(CandidateHost(Host("h2")),))
    asked = replace(asked, event=replace(asked.event, target="h2"))

    assert carried_out(daemons.driver(), asked) == ImpactDone({strayed.name: "h2"})
    assert strayed.still_runs


def test_a_guest_is_rebooted_in_place_while_another_host_is_silent(daemons: Daemons) -> None:
    """It is never off, for it could not be started before every host has answered."""
    guest = daemons.boot()
    boots, id_ = guest.boots, guest.domain.ID()
    daemons.kill("h2")
    done = carried_out(daemons.driver(), guest.impact(EventType.REBOOT))

    assert done == ImpactDone(detail=f"h2 did not answer, so {guest.name} was rebooted without being stopped")
    guest.wait_for_another_boot(boots)
    assert guest.domain.ID() == id_
