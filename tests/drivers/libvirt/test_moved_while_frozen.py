"""A guest that an administrator migrates while it is frozen goes on where it has arrived."""

import threading
from time import monotonic

import libvirt
import pytest

from forewarn.core.model import EventType
from forewarn.drivers.libvirt import guests
from forewarn.drivers.libvirt.driver import LibvirtDriver
from forewarn.drivers.libvirt.problems import LibvirtUnreachable
from forewarn.node.driver import Impact, ImpactDone, ImpactOutcome
from tests.drivers.impacts import carried_out
from tests.drivers.libvirt.daemons import Daemons
from tests.drivers.libvirt.hypervisor import wait_for

pytestmark = pytest.mark.end_to_end


class Freezing:
    """A freeze under way in a thread."""

    def __init__(self, driver: LibvirtDriver, asked: Impact) -> None:
        self._outcomes: list[ImpactOutcome] = []
        self._thread = threading.Thread(target=lambda: self._outcomes.append(carried_out(driver, asked)), daemon=True)
        self._thread.start()

    @property
    def is_over(self) -> bool:
        return not self._thread.is_alive()

    def outcome(self) -> ImpactOutcome:
        self._thread.join(180)
        (outcome,) = self._outcomes
        return outcome


@pytest.mark.parametrize("undefine", [True, False])
def test_a_guest_migrated_while_frozen_is_resumed_on_the_other_host(daemons: Daemons, *, undefine: bool) -> None:
    """It arrives paused and stays so until its time is over, whether or not h1 still defines it."""
    guest = daemons.boot()
    freezing = Freezing(daemons.driver(), guest.impact(EventType.FREEZE, duration=15))
    wait_for(lambda: guest.state == libvirt.VIR_DOMAIN_PAUSED, "the guest to be frozen")
    daemons.migrate(guest, undefine=undefine)
    assert not freezing.is_over
    there = daemons.connections["h2"].lookupByName(guest.name)
    assert int(there.info()[0]) == libvirt.VIR_DOMAIN_PAUSED

    assert freezing.outcome() == ImpactDone({guest.name: "h2"})
    assert daemons.running(guest) == ["h2"]
    assert guest.still_runs


def test_a_guest_still_under_migration_when_its_freeze_ends_is_resumed_where_it_arrives(daemons: Daemons) -> None:
    """It cannot be resumed before the migration is over."""
    guest = daemons.boot()
    freezing = Freezing(daemons.driver(), guest.impact(EventType.FREEZE, duration=3))
    wait_for(lambda: guest.state == libvirt.VIR_DOMAIN_PAUSED, "the guest to be frozen")
    began = monotonic()
    daemons.migrate(guest, bandwidth=4)
    assert monotonic() - began > 3

    assert freezing.outcome() == ImpactDone({guest.name: "h2"})
    assert daemons.running(guest) == ["h2"]
    assert guest.still_runs


def test_a_new_host_that_is_unreachable_for_a_moment_is_tried_again(
    daemons: Daemons, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The guest has another id there than where it was frozen, and is known all the same."""
    guest, resume, tried = daemons.boot(), guests.LibvirtGuest.resume, list[str]()

    def fail_once(self: guests.LibvirtGuest) -> None:
        tried.append(self.host)
        if len(tried) == 1:
            raise LibvirtUnreachable("the connection was lost")
        resume(self)

    guest.domain.destroy()
    guest.domain.create()  # a second start, so that its ids on both hosts differ
    monkeypatch.setattr(guests.LibvirtGuest, "resume", fail_once)
    freezing = Freezing(daemons.driver(), guest.impact(EventType.FREEZE, duration=10))
    wait_for(lambda: guest.state == libvirt.VIR_DOMAIN_PAUSED, "the guest to be frozen")
    daemons.migrate(guest)

    assert freezing.outcome() == ImpactDone({guest.name: "h2"})
    assert tried == ["h2", "h2"]
    assert daemons.running(guest) == ["h2"]
