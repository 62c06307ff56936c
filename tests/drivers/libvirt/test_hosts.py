"""Observations from libvirt events on the hosts."""

import libvirt
import pytest

from forewarn.core.model import ObservationKind
from forewarn.drivers.libvirt.hosts import REBOOTED, DomainChange, observation_of
from tests.drivers.impacts import NOW

STOPPED, STARTED = libvirt.VIR_DOMAIN_EVENT_STOPPED, libvirt.VIR_DOMAIN_EVENT_STARTED


@pytest.mark.parametrize(
    ("event", "detail", "what"),
    [
        (REBOOTED, 0, ObservationKind.REBOOTED),
        (libvirt.VIR_DOMAIN_EVENT_CRASHED, 0, ObservationKind.CRASHED),
        (STOPPED, libvirt.VIR_DOMAIN_EVENT_STOPPED_CRASHED, ObservationKind.CRASHED),
        (STOPPED, libvirt.VIR_DOMAIN_EVENT_STOPPED_FAILED, ObservationKind.CRASHED),
        (STOPPED, libvirt.VIR_DOMAIN_EVENT_STOPPED_SHUTDOWN, ObservationKind.STOPPED),
        (STOPPED, libvirt.VIR_DOMAIN_EVENT_STOPPED_DESTROYED, ObservationKind.STOPPED),
        (STOPPED, libvirt.VIR_DOMAIN_EVENT_STOPPED_SAVED, ObservationKind.STOPPED),
        (STARTED, libvirt.VIR_DOMAIN_EVENT_STARTED_BOOTED, ObservationKind.STARTED),
        (STARTED, libvirt.VIR_DOMAIN_EVENT_STARTED_RESTORED, ObservationKind.STARTED),
        (libvirt.VIR_DOMAIN_EVENT_UNDEFINED, libvirt.VIR_DOMAIN_EVENT_UNDEFINED_REMOVED, ObservationKind.GONE),
    ],
)
def test_what_befell_a_machine_is_told(event: int, detail: int, what: ObservationKind) -> None:
    """By our words, with libvirt's host."""
    seen = observation_of(DomainChange("h1", "web-0", event, detail), NOW)

    assert seen
    assert (seen.vm, seen.what, seen.at) == ("web-0", what, NOW)
    assert seen.detail.endswith(", reported by libvirt on h1")


@pytest.mark.parametrize(
    ("event", "detail"),
    [
        (STOPPED, libvirt.VIR_DOMAIN_EVENT_STOPPED_MIGRATED),
        (STARTED, libvirt.VIR_DOMAIN_EVENT_STARTED_MIGRATED),
        (libvirt.VIR_DOMAIN_EVENT_SUSPENDED, 0),
        (libvirt.VIR_DOMAIN_EVENT_RESUMED, 0),
        (libvirt.VIR_DOMAIN_EVENT_DEFINED, 0),
        (libvirt.VIR_DOMAIN_EVENT_UNDEFINED, libvirt.VIR_DOMAIN_EVENT_UNDEFINED_RENAMED),
    ],
)
def test_what_is_of_no_concern_is_not_told(event: int, detail: int) -> None:
    """A pause, a migration, a new name."""
    assert observation_of(DomainChange("h1", "web-0", event, detail), NOW) is None
