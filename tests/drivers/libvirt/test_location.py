"""Where a machine is, by what the hosts say of it."""

from pathlib import Path

import libvirt
import pytest
from msgspec.structs import replace

from forewarn.core.model import EventType, InstanceFacts, Vm
from forewarn.drivers.libvirt.guests import LibvirtGuest
from forewarn.drivers.libvirt.location import ActiveElsewhere, DomainCopy, DomainState, LocationSurvey
from forewarn.drivers.libvirt.problems import LibvirtProblem, LibvirtUnreachable
from forewarn.node.driver import ImpactDone, SupportsLocation
from tests.drivers.impacts import carried_out, impact
from tests.drivers.libvirt.two_hosts import UUID, two_hosts

RUNS = DomainState(libvirt.VIR_DOMAIN_RUNNING, 1, 7)
PAUSED = DomainState(libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_USER, 7)
MOVING = DomainState(libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_MIGRATION, 7)
OFF = DomainState(libvirt.VIR_DOMAIN_SHUTOFF, 0, -1)


def said(silent: str = "", **states: DomainState) -> LocationSurvey:
    copies = tuple(DomainCopy(host, "u-0", state) for host, state in states.items())
    return LocationSurvey("web-0", copies, {silent: f"libvirt on {silent} cannot be reached"} if silent else {})


@pytest.mark.parametrize(
    ("survey", "host"),
    [
        (said(h1=RUNS), "h1"),
        (said(h1=OFF, h2=RUNS), "h2"),
        (said(h1=PAUSED, h2=RUNS), "h2"),
        (said(h1=MOVING, h2=RUNS), "h2"),
        (said(h1=RUNS, h2=MOVING), "h1"),
        (said(h1=OFF, h2=PAUSED), "h2"),
        (said(h1=OFF, h2=OFF), "h1"),
        (said(h2=OFF), "h2"),
        (said(h2=RUNS, silent="h1"), "h2"),
        (said(h1=PAUSED, silent="h2"), "h1"),
        (said(), None),
    ],
)
def test_there_is_one_place(survey: LocationSurvey, host: str | None) -> None:
    """Where it runs; else where it is paused; else where it is defined, the recorded host first; or nowhere."""
    copy = survey.place("h1")

    assert (copy.host if copy else None) == host


@pytest.mark.parametrize(
    "survey", [said(silent="h2"), said(h1=OFF, silent="h2"), said(h1=MOVING, silent="h2"), said(h2=OFF, silent="h1")]
)
def test_a_silent_host_leaves_it_in_doubt(survey: LocationSurvey) -> None:
    """The machine may run there, or be just arriving there."""
    with pytest.raises(LibvirtUnreachable, match=f"libvirt on {next(iter(survey.silent))} cannot be reached"):
        survey.place("h1")


@pytest.mark.parametrize(
    ("survey", "words"),
    [
        (said(h1=RUNS, h2=RUNS), "runs on h1 and h2 at once; stop it"),
        (said(h1=MOVING, h2=MOVING), "is paused on h1 and h2; resume it"),
        (said(h2=OFF, h3=OFF), "is off and defined on h2 and h3; undefine it"),
    ],
)
def test_two_copies_of_which_none_counts_are_named(survey: LocationSurvey, words: str) -> None:
    """With both hosts and the remedy."""
    with pytest.raises(LibvirtProblem, match=words):
        survey.place("h1")


@pytest.mark.parametrize("by_pattern", [False, True])
@pytest.mark.parametrize("h1", ["off", "gone"])
def test_a_machine_is_found_on_every_host_of_the_fleet(tmp_path: Path, h1: str, *, by_pattern: bool) -> None:
    """Also on one that has its URI by the pattern, once the driver knows the hosts of the fleet."""
    driver = two_hosts(tmp_path, h1, "runs", by_pattern=by_pattern)
    assert isinstance(driver, SupportsLocation)
    driver.know_hosts(("h1", "h2"))
    asked = impact(EventType.FREEZE, duration=0, operation="vm freeze")
    vm = Vm("web-0", "web", host="h1", instance=InstanceFacts(vm_id=UUID))

    assert carried_out(driver, replace(asked, vms=(vm,))) == ImpactDone({"web-0": "h2"})
    driver.close()


@pytest.mark.parametrize("type", [EventType.FREEZE, EventType.PREEMPT, EventType.TERMINATE, EventType.REBOOT])
def test_a_machine_is_found_under_another_uuid_than_the_declared_one(tmp_path: Path, type: EventType) -> None:
    """Its host knows it by its name, and so its UUID; by that it is looked for on the other hosts."""
    driver = two_hosts(tmp_path, "off", "runs")
    asked = impact(type, duration=0, operation="vm x")
    vm = Vm("web-0", "web", host="h1", instance=InstanceFacts(vm_id="11111111-2222-4333-8444-555555555555"))

    done = carried_out(driver, replace(asked, vms=(vm,), deletes=type is EventType.TERMINATE))
    assert done == ImpactDone({"web-0": "h2"})
    driver.close()


def test_a_machine_that_is_active_elsewhere_is_not_started(tmp_path: Path) -> None:
    """Whoever asks for it, whatever was found before."""
    driver = two_hosts(tmp_path, "off", "runs")
    guest = LibvirtGuest(driver._hosts, Vm("web-0", "web", host="h1"))
    for start in (guest.start, lambda: guest.start_as("<domain/>")):
        with pytest.raises(ActiveElsewhere, match="web-0 is active on h2, so it was not started on h1"):
            start()
    driver.close()
