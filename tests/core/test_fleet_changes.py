"""What may be declared of hosts, groups and VMs."""

import pytest

from forewarn.core.commands import ChangeFleet
from forewarn.core.errors import Refused, Unknown
from forewarn.core.facts import FleetChanged, VmDeallocated
from forewarn.core.model import ApprovalRule, EvictionPolicy, GroupKind, GroupTerms, Host, Policy, Vm
from tests.core.harness import ANN, FleetHarness, kinds

FLEET = (
    "ann declares: host h1; host h2; group web availability-set; group db standalone; "
    "vm web-0 in web on h1; vm web-1 in web; vm db-0 in db on h1"
)


def declare(*vms: Vm) -> ChangeFleet:
    return ChangeFleet(id="c", by=ANN, vms=vms)


@pytest.mark.parametrize("name", ["", "-web", ".web", "a b", "a/b", "ä", "a" * 81, "web\n"])
def test_a_name_that_could_not_be_written_everywhere_is_refused(name: str) -> None:
    """For VMs, groups and hosts alike."""
    for command in (
        declare(Vm(name, "web")),
        ChangeFleet(id="c", by=ANN, hosts=(Host(name),)),
        ChangeFleet(id="c", by=ANN, groups=(GroupTerms(name, GroupKind.SCALE_SET),)),
    ):
        with pytest.raises(Refused, match="not a valid name"):
            FleetHarness(FLEET).give(command)


@pytest.mark.parametrize("domain", [-1, 10_000, 10**30])
def test_a_domain_is_a_small_number(domain: int) -> None:
    """What could not be written to the journal is not taken in."""
    for vm in (Vm("web-2", "web", update_domain=domain), Vm("web-2", "web", fault_domain=domain)):
        with pytest.raises(Refused, match="must be from 0 to 9999"):
            FleetHarness(FLEET).give(declare(vm))


@pytest.mark.parametrize("address", ["10.0.0.01", "2001:DB8::1", "2001:db8:0::1", "localhost", "10.0.0.1/32"])
def test_an_address_is_written_in_one_way(address: str) -> None:
    """Callers are found by their address, so that two spellings would be two callers."""
    with pytest.raises(Refused, match="address"):
        FleetHarness(FLEET).give(declare(Vm("web-2", "web", address=address)))


def test_a_change_that_changes_nothing_is_no_fact() -> None:
    """The same file may be applied again and again."""
    assert FleetHarness(FLEET).say(FLEET) == ()


def test_a_change_is_told_by_its_difference() -> None:
    """What stays as it is does not stand in the fact; what changed stands there as it was, too."""
    harness = FleetHarness(FLEET)
    before = harness.fleet.vms["web-1"]
    (change,) = harness.say("ann declares: host h1; vm web-0 in web on h1; vm web-1 in web ud=4")

    new = Vm("web-1", "web", update_domain=4)
    assert change == FleetChanged(vms=(new,), at_run_time=True, before_vms=(before,))


def test_what_is_declared_twice_is_refused() -> None:
    """One name, one record."""
    with pytest.raises(Refused, match="declared twice"):
        FleetHarness(FLEET).give(declare(Vm("web-2", "web"), Vm("web-2", "db")))


def test_what_is_not_there_cannot_be_removed() -> None:
    """The refusal names the nearest that is there."""
    with pytest.raises(Unknown, match="did you mean 'web-1'"):
        FleetHarness(FLEET).say("ann declares: no vm web-11")


def test_a_standalone_vm_may_be_replaced_in_its_group() -> None:
    """The group stays, because it has exactly one VM before and after."""
    harness = FleetHarness(FLEET, "ann declares: no vm db-0; vm db-1 in db")

    assert harness.fleet.groups["db"].vms == ("db-1",)


def test_a_standalone_group_leaves_when_its_vm_goes_elsewhere() -> None:
    """It has nothing left to speak of."""
    harness = FleetHarness(FLEET, "ann declares: vm db-0 in web on h1")

    assert "db" not in harness.fleet.groups
    assert harness.fleet.groups["web"].vms == ("web-0", "web-1", "db-0")


def test_a_kind_does_not_change_under_events() -> None:
    """Names are shown otherwise for another kind, and a shown document does not change."""
    harness = FleetHarness(FLEET, "ann freezes web-0")

    with pytest.raises(Refused, match="its kind cannot change"):
        harness.say("ann declares: group web cloud-service")


def test_a_host_may_go_together_with_who_stood_on_it() -> None:
    """The change is looked at as a whole."""
    harness = FleetHarness(FLEET)
    change = "ann declares: no host h1; vm web-0 in web on h2; no vm db-0"

    assert kinds(harness.say(change)) == ["FleetChanged"]


def test_a_host_to_which_a_vm_moved_is_in_use() -> None:
    """Where a VM stands now counts, not where it was declared."""
    harness = FleetHarness(FLEET, "ann redeploys web-0", "the driver is done with E1, web-0 on h2")

    with pytest.raises(Refused, match="VM 'web-0' stands on it"):
        harness.say("ann declares: no host h2")


def test_a_file_that_caught_up_with_a_move_disturbs_no_event() -> None:
    """The VM stays where it stands, so its events stay too."""
    harness = FleetHarness(
        FLEET, "ann redeploys web-0", "the driver is done with E1, web-0 on h2", "ann freezes host h2"
    )

    assert kinds(harness.say("ann declares: vm web-0 in web on h2")) == ["FleetChanged"]
    assert harness.fleet.vms_on("h2") == ("web-0",)


def test_run_time_cannot_be_declared() -> None:
    """Who is deallocated or moved is known from what happened, not from a file."""
    harness = FleetHarness(FLEET)
    harness.give(declare(Vm("web-2", "web", "h1", moved_to="h2", deallocated=True)))

    assert harness.fleet.vms["web-2"] == Vm("web-2", "web", "h1")


def test_terms_that_stay_are_no_fact() -> None:
    """To set what is set already changes nothing."""
    assert FleetHarness(FLEET).say("ann sets web approval=any") == ()


def test_a_notice_can_be_taken_back() -> None:
    """To leave it out keeps it; to say none removes it."""
    harness = FleetHarness("ann declares: group pool scale-set terminate_notice=300", "ann sets pool eviction=delete")
    assert harness.fleet.groups["pool"].terms.terminate_notice == 300
    harness.say("ann sets pool terminate_notice=none")

    assert harness.fleet.groups["pool"].terms.terminate_notice is None


def test_each_term_of_a_group_can_be_set_alone() -> None:
    """The others stay as they are."""
    harness = FleetHarness("ann declares: group pool scale-set; vm pool-0 in pool")
    for sentence in ("eviction=delete", "terminate_notice=300", "approval=all", "postpone_limit=60"):
        harness.say(f"ann sets pool {sentence}")
    terms = harness.fleet.groups["pool"].terms

    assert (terms.eviction, terms.terminate_notice, terms.approval) == (EvictionPolicy.DELETE, 300, ApprovalRule.ALL)
    assert terms.policy == Policy(postpone_limit=60)


def test_the_last_vm_of_a_group_with_a_quorum_stays() -> None:
    """A group that is not standalone stays without VMs, and nobody could approve for it."""
    harness = FleetHarness("ann declares: group web availability-set approval=quorum quorum=1; vm web-0 in web")

    with pytest.raises(Refused, match="a quorum of 1 is more than its 0 VMs can reach"):
        harness.say("ann declares: no vm web-0")


def test_a_change_tells_what_was_there_before() -> None:
    """Of groups and VMs that are changed, and of those that are removed."""
    harness = FleetHarness("ann declares: group web availability-set; group db availability-set; vm web-0 in web")
    (change,) = harness.say("ann declares: group web availability-set approval=all; no group db; no vm web-0")

    assert isinstance(change, FleetChanged)
    assert [terms.name for terms in change.before_groups] == ["web", "db"]
    assert change.before_groups[0].approval is ApprovalRule.ANY
    assert [vm.name for vm in change.before_vms] == ["web-0"]


def test_a_change_that_has_seen_the_last_one_is_made() -> None:
    """One that has not is refused."""
    harness = FleetHarness("ann declares: host h1")
    seen = harness.fleet.changes

    assert harness.say(f"ann declares: host h2; having seen change {seen}")
    with pytest.raises(Refused, match="changed in the meantime"):
        harness.say(f"ann declares: host h3; having seen change {seen}")


def test_a_quorum_is_given_up_with_its_rule() -> None:
    """It stays while other terms change, and where the rule is named again."""
    harness = FleetHarness(
        "ann declares: group web availability-set approval=quorum quorum=2; vm a in web; vm b in web"
    )
    harness.say("ann sets web approval=quorum eviction=delete")
    assert harness.fleet.groups["web"].terms.policy.quorum == 2

    harness.say("ann sets web approval=any")
    assert harness.fleet.groups["web"].terms.policy.quorum == 0


def test_an_event_is_abandoned_when_all_that_still_run_leave() -> None:
    """A deallocated VM does not keep it."""
    harness = FleetHarness(
        "ann declares: host h1; group web availability-set; vm a in web on h1; vm b in web on h1; vm c in web",
        "ann freezes host h1",
    )
    harness.fleet.evolve(VmDeallocated("b", "x"))

    assert "Canceled" in kinds(harness.say("ann declares: no vm a; cancel events"))
