"""A service that is killed while it reboots or moves a real guest: it is done once, and the outcome is known."""

import libvirt
import pytest

from forewarn.core.model import EventType, Host
from forewarn.node.driver import CandidateHost, ImpactDone
from tests.drivers.libvirt.daemons import Daemons
from tests.drivers.libvirt.dying import killed
from tests.drivers.libvirt.hypervisor import wait_for
from tests.drivers.libvirt.machines import when_ended

pytestmark = pytest.mark.end_to_end

BY_BUTTON = ["asking", "ask_to_go_down", "asked", "starting", "start_as", "started"]
BY_RESET = ["asking", "ask_to_go_down", "asked", "halting", "suspend", "resetting", "reset", "resume"]


def test_a_guest_that_listens_boots_once_whenever_the_service_is_killed(daemons: Daemons) -> None:
    """Asked and not written down, gone down while nobody listened, or off: it is up again when the event is over."""
    guest = daemons.boot()
    for last in ("asking", "ask_to_go_down", "starting", "start_as"):
        boots, asked = guest.boots, guest.impact(EventType.REBOOT)
        killed(daemons.records, asked, BY_BUTTON.index(last) + 1, hosts=daemons.uris, grace="5m")
        if last == "ask_to_go_down":
            wait_for(lambda: guest.state == libvirt.VIR_DOMAIN_SHUTOFF, "the guest to go down")

        assert when_ended(daemons.driver(), asked) == ImpactDone(), last
        guest.wait_for_another_boot(boots)


def test_a_guest_that_does_not_listen_is_reset_once_whenever_the_service_is_killed(daemons: Daemons) -> None:
    """Paused, reset and still paused, or gone on already: it boots once more and does not stay paused."""
    guest = daemons.boot(words="acpi=off")
    for last in ("suspend", "reset", "resume"):
        boots, asked = guest.boots, guest.impact(EventType.REBOOT)
        killed(daemons.records, asked, BY_RESET.index(last) + 1, hosts=daemons.uris, grace="0s")

        assert isinstance(when_ended(daemons.driver(grace="0s"), asked), ImpactDone), last
        guest.wait_for_another_boot(boots)


def test_a_migration_goes_on_although_libvirt_has_not_ended_the_first_one(daemons: Daemons) -> None:
    """The target is still preparing what the killed service asked for, and refuses another migration meanwhile."""
    guest = daemons.boot()
    asked = guest.impact(EventType.REDEPLOY, candidates=(CandidateHost(Host("h2")),))
    boots = guest.boots
    settings = {"hosts": daemons.uris, "migration_uri": "tcp://{host}", "bandwidth": 10}
    killed(daemons.records, asked, 1, seconds=0.15, **settings)

    assert when_ended(daemons.driver(), asked) == ImpactDone({guest.name: "h2"})
    assert daemons.where(guest) == daemons.running(guest) == ["h2"]
    assert guest.boots == boots
