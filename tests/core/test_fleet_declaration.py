"""Fleets from before declarations were recorded, and what a first file makes of them."""

import pytest

from forewarn.core.commands import ApplyDeclaration, CreateToken
from forewarn.core.declared_keys import RecordKind
from forewarn.core.errors import Refused
from forewarn.core.facts import FleetChanged, FleetDeclared, TokenCreated
from forewarn.core.fleet import Fleet
from forewarn.core.model import ApprovalRule, GroupKind, GroupTerms, Host, Role, Token, Vm
from tests.core.harness import ANN, NOON, FleetHarness

BEFORE = FleetChanged(
    hosts=(Host("h1"),),
    groups=(GroupTerms("web", GroupKind.AVAILABILITY_SET),),
    vms=(Vm("a", "web", "h1"), Vm("b", "web", "h1")),
)
FILE = "host h1; group web availability-set; vm a in web on h1 address=10.0.0.1; vm c in web on h1"


def earlier() -> FleetHarness:
    """A fleet that an earlier release made."""
    harness = FleetHarness()
    harness.fleet.evolve(BEFORE)
    return harness


@pytest.mark.parametrize("sentence", [f"the service starts with: {FILE}", f"ann applies: {FILE}"])
def test_the_first_file_is_recorded_and_changes_nothing(sentence: str) -> None:
    """What was declared before is not known, so nothing is known to have changed."""
    harness = earlier()

    (fact,) = harness.say(sentence)

    assert isinstance(fact, FleetDeclared)
    assert harness.fleet.vms.keys() == {"a", "b"}
    assert harness.fleet.last_applied.differing[RecordKind.VM] == {
        "a": Vm("a", "web", "h1", address="10.0.0.1"),
        "b": None,
        "c": Vm("c", "web", "h1"),
    }


def test_exact_removes_the_differences() -> None:
    """Also when the file is the same."""
    harness = earlier()
    harness.say(f"ann applies: {FILE}")
    harness.say(f"ann applies: {FILE}; exact")

    assert harness.fleet.vms.keys() == {"a", "c"}
    assert harness.fleet.vms["a"].address == "10.0.0.1"
    assert not any(harness.fleet.last_applied.differing.values())


def test_a_snapshot_of_an_earlier_release_has_no_declaration() -> None:
    """It is recognised by that, and stays so until a file is applied."""
    fleet = Fleet.restore(earlier().fleet.parts())

    assert fleet.last_applied.is_missing
    assert not Fleet.restore(FleetHarness(f"ann applies: {FILE}").fleet.parts()).last_applied.is_missing


def test_vms_that_only_commands_made_are_no_declaration() -> None:
    """A first file adds what it has, adopts what is there, and leaves the rest."""
    harness = FleetHarness("ann declares: host h1; group web availability-set; vm a in web on h1; vm b in web on h1")
    harness.say(f"ann applies: {FILE}")

    assert harness.fleet.vms.keys() == {"a", "b", "c"}
    assert harness.fleet.vms["a"].address == "10.0.0.1"
    assert harness.fleet.declared(RecordKind.VM, "b") is None


def test_a_stale_file_is_refused() -> None:
    """It names the declaration that it was compared with."""
    harness = FleetHarness(f"ann applies: {FILE}")
    with pytest.raises(Refused, match="revision 1, not 7"):
        harness.say(f"ann applies: {FILE}; having seen declaration 7")


FIVE = "host h1; group web availability-set; " + "; ".join(f"vm {name} in web on h1" for name in "abcde")


def test_removals_that_an_event_holds_count_as_removals_too() -> None:
    """A start must not remove the fleet in two steps: one VM now, and the other when its event ends."""
    harness = FleetHarness(f"ann applies: {FIVE}", "ann freezes a")
    harness.say("the service starts with: " + FIVE.replace("vm a in web on h1; vm b in web on h1; ", ""))

    assert harness.fleet.vms.keys() == set("abcde")
    assert harness.fleet.last_applied.guarded.keys() == {(RecordKind.VM, "a"), (RecordKind.VM, "b")}


def test_a_held_change_of_a_group_names_the_event_announced_first() -> None:
    """It is the one that ends first, as a rule."""
    harness = FleetHarness(f"ann applies: {FIVE}", "ann freezes a", "ann freezes b")
    harness.say(f"the service starts with: {FIVE.replace('availability-set', 'scale-set')}")

    assert [held.because for held in harness.fleet.last_applied.held] == [harness.id("E1")]


def test_exact_removes_hosts_and_groups_that_only_commands_made() -> None:
    """Also with the first file."""
    harness = FleetHarness("ann declares: host h1; host h2; group web availability-set; group db availability-set")
    _, declared = harness.say("ann applies: host h1; group web availability-set; exact")

    assert harness.fleet.hosts.keys() == {"h1"}
    assert harness.fleet.groups.keys() == {"web"}
    assert isinstance(declared, FleetDeclared)
    assert declared == FleetDeclared(revision=1, digest=declared.digest)  # it differs in nothing from the fleet


def test_what_a_guarded_vm_is_in_the_way_of_waits_for_the_operator_too() -> None:
    """The address that the file gives to another VM becomes free when the operator agrees to the removal."""
    vms = [f"vm {name} in web on h1 address=10.0.0.{number}" for number, name in enumerate("abcd")]
    places = "host h1; group web availability-set"
    harness = FleetHarness(f"ann applies: {'; '.join([places, *vms])}")
    harness.say(f"the service starts with: {'; '.join([places, *vms[:2]])}")
    harness.say(f"the service starts with: {'; '.join([places, *vms[:2], 'vm e in web on h1 address=10.0.0.2'])}")

    assert (RecordKind.VM, "e") in harness.fleet.last_applied.waiting


@pytest.mark.parametrize(
    ("sentence", "at_run_time"), [("ann applies: host h1", False), ("ann declares: host h1", True)]
)
def test_a_change_tells_whether_a_file_or_a_command_made_it(sentence: str, *, at_run_time: bool) -> None:
    """A fleet without files is told by that from one of an earlier release."""
    (change, *_) = FleetHarness().say(sentence)

    assert isinstance(change, FleetChanged)
    assert change.at_run_time is at_run_time


def test_a_held_change_is_carried_out_alone() -> None:
    """What was changed at run time meanwhile stays."""
    harness = FleetHarness(
        "ann applies: host h1; group web availability-set; vm a in web on h1",
        "ann freezes a",
        "the service starts with: host h1; group web availability-set; vm a in web on h1 ud=1",
        "ann declares: vm a in web on h1 address=10.0.0.9",
        "ann cancels E1",
    )

    assert (harness.fleet.vms["a"].update_domain, harness.fleet.vms["a"].address) == (1, "10.0.0.9")


def test_a_host_that_is_gone_already_may_leave_the_file() -> None:
    """Nothing is left to be removed."""
    harness = FleetHarness("ann applies: host h1; host h2", "ann declares: no host h2")
    harness.say("ann applies: host h1")

    assert harness.fleet.hosts.keys() == {"h1"}


def test_what_is_declared_and_removed_at_once_is_refused() -> None:
    """The file cannot mean both."""
    command = ApplyDeclaration(id="a", by=ANN, seen=0, hosts=(Host("h1"),), removed_hosts=("h1",))
    with pytest.raises(Refused, match="host 'h1' is both declared and removed"):
        FleetHarness().give(command)


def test_an_address_in_a_file_is_written_in_one_way() -> None:
    """As in a command."""
    vms = (Vm("a", "web", address="somewhere"),)
    with pytest.raises(Refused, match="is not a valid IP address"):
        FleetHarness("ann declares: group web availability-set").give(
            ApplyDeclaration(id="a", by=ANN, seen=0, vms=vms)
        )


def test_where_a_file_came_from_is_recorded() -> None:
    """The first one is recorded also where it changes nothing; a file of another name is another declaration."""
    harness = FleetHarness()
    (first,) = harness.give(ApplyDeclaration(id="a", by=ANN, seen=0))
    (second,) = harness.give(ApplyDeclaration(id="b", by=ANN, seen=1, source="fleet.toml"))

    assert isinstance(first, FleetDeclared)
    assert isinstance(second, FleetDeclared)
    assert (first.source, second.source) == ("", "fleet.toml")
    assert harness.give(ApplyDeclaration(id="c", by=ANN, seen=2, source="fleet.toml")) == ()


def test_five_conflicts_are_named_and_the_others_counted() -> None:
    """The operator sees that there are more."""
    for count, more in ((5, ""), (6, "; and 1 more")):
        file = "; ".join(f"vm {number} in lost" for number in range(count))
        with pytest.raises(Refused) as refused:
            FleetHarness().say(f"ann applies: {file}")

        assert str(refused.value).count("there is no group 'lost'") == 5
        assert str(refused.value).endswith("there is no group 'lost'" + more)


@pytest.mark.parametrize(("count", "is_held"), [(9, True), (10, False)])
def test_a_start_removes_one_of_five_vms_at_most(count: int, *, is_held: bool) -> None:
    """Here two of nine, and two of ten."""
    vms = [f"vm v{number} in web" for number in range(count)]
    harness = FleetHarness("ann applies: group web availability-set; " + "; ".join(vms))
    harness.say("the service starts with: group web availability-set; " + "; ".join(vms[2:]))

    assert bool(harness.fleet.last_applied.guarded) is is_held


def test_the_kind_of_a_group_with_events_is_not_applied() -> None:
    """A start holds the change; an operator is told."""
    harness = FleetHarness("ann applies: group web availability-set; vm a in web", "ann freezes a")

    with pytest.raises(Refused, match="has unfinished events; its kind cannot change"):
        harness.say("ann applies: group web scale-set; vm a in web")


def test_terms_that_are_left_out_end_what_was_held_of_them_and_nothing_else() -> None:
    """Terms that were set at run time stay."""
    file = "group s availability-set; vm a in s; vm b in s"
    harness = FleetHarness(
        f"ann applies: {file}",
        "ann sets s approval=all",
        "the service starts with: group s standalone; vm a in s",
        "the service starts with: group s standalone eviction=delete; vm a in s",
        f"the service starts with: {file}",
    )

    assert harness.fleet.groups["s"].terms.approval is ApprovalRule.ALL


def test_a_vm_that_was_added_at_run_time_is_not_changed_by_a_held_addition() -> None:
    """The command is newer than the file."""
    others = "; ".join(f"vm {name} in web" for name in "bcdef")
    harness = FleetHarness(
        f"ann applies: group web availability-set; vm a in web address=10.0.0.1; {others}",
        "ann freezes a",
        f"the service starts with: group web availability-set; vm n in web address=10.0.0.1; {others}",
    )
    assert [held.name for held in harness.fleet.last_applied.held] == ["a", "n"]

    harness.say("ann declares: vm n in web address=10.0.0.2")

    assert [held.name for held in harness.fleet.last_applied.held] == ["a"]
    harness.say("ann cancels E1")
    assert harness.fleet.vms["n"].address == "10.0.0.2"


def test_a_first_file_declares_also_what_waits_for_a_vm() -> None:
    """Here the group of a VM for whose address there is no room."""
    harness = FleetHarness("ann declares: group x standalone; vm x in x address=10.0.0.1")
    harness.say("the service starts with: group y standalone; vm y in y address=10.0.0.1")

    assert harness.fleet.declared(RecordKind.GROUP, "y") == GroupTerms("y", GroupKind.STANDALONE)
    assert harness.fleet.declared(RecordKind.VM, "y") is None


def test_a_vm_without_room_is_left_out_whatever_events_its_group_has() -> None:
    """Only terms of a group wait for its events; here VM and group have the same name."""
    harness = FleetHarness(
        "ann applies: group a standalone; vm a in a; group b standalone; vm b in b address=10.0.0.1",
        "ann freezes a",
        "the service starts with: group a standalone; vm a in a address=10.0.0.1; group b standalone; "
        "vm b in b address=10.0.0.1",
    )

    assert harness.fleet.last_applied.held == []


def test_a_new_token_leaves_held_changes_alone() -> None:
    """It frees nothing that they wait for."""
    harness = FleetHarness(f"ann applies: {FIVE}", "ann freezes a")
    harness.say(f"the service starts with: {FIVE.replace('vm a in web on h1; ', '')}")
    held = harness.fleet.last_applied.held
    token = Token("t1", "ada", Role.OPERATOR, "hash", NOON)

    assert held
    assert harness.give(CreateToken(id="c", by=ANN, token=token)) == (TokenCreated(token),)
    assert harness.fleet.last_applied.held == held


def test_a_vm_without_room_is_left_out_also_where_a_group_of_its_name_leaves() -> None:
    """Only the removal of what is in use waits."""
    harness = FleetHarness(
        "ann applies: group a availability-set; group web availability-set; vm b in web address=10.0.0.1; "
        "vm c in web",
        "the service starts with: group web availability-set; vm b in web address=10.0.0.1; vm c in web; "
        "vm a in web address=10.0.0.1",
    )

    assert harness.fleet.last_applied.held == []


def test_wrong_terms_of_a_standalone_group_that_is_there_are_refused() -> None:
    """Its VM need not change for that."""
    harness = FleetHarness("ann applies: group a standalone; vm a in a")

    with pytest.raises(Refused, match="a quorum of 2 is more than its 1 VMs can reach"):
        harness.say("ann applies: group a standalone approval=quorum quorum=2; vm a in a")


def test_an_earlier_release_declared_what_its_fleet_has() -> None:
    """A file that says the same changes nothing."""
    assert earlier().fleet.declared(RecordKind.VM, "a") == Vm("a", "web", "h1")


def test_a_fleet_of_an_earlier_release_that_was_emptied_takes_the_whole_file() -> None:
    """Nothing is there that the file could change by mistake."""
    harness = earlier()
    harness.say("ann declares: no vm a; no vm b; no group web; no host h1")
    harness.say(f"ann applies: {FILE}")

    assert harness.fleet.vms.keys() == {"a", "c"}


def test_a_held_change_of_a_vm_names_its_event_announced_first() -> None:
    """It is the one that ends first, as a rule."""
    harness = FleetHarness(f"ann applies: {FIVE}", "ann freezes a", "ann restarts a not before 23:00:00")
    harness.say(f"the service starts with: {FIVE.replace('vm a in web on h1', 'vm a in web on h1 ud=1')}")

    assert [held.because for held in harness.fleet.last_applied.held] == [harness.id("E1")]


def test_a_group_that_a_vm_needs_and_that_has_no_room_is_left_out_with_the_vm() -> None:
    """Neither of them waits: nothing that the service does would make room."""
    file = "group q availability-set approval=quorum quorum=2; vm a in q; vm b in q"
    harness = FleetHarness(f"ann applies: {file}", "ann declares: no vm a; no vm b; no group q")
    harness.say(f"the service starts with: {file.replace('vm a in q', 'vm a in q ud=1')}")

    assert harness.fleet.last_applied.held == []
    assert harness.fleet.is_empty


def test_what_is_declared_and_not_there_is_known() -> None:
    """Not what was changed since, nor what was never declared."""
    harness = FleetHarness(
        "ann applies: group web availability-set; vm a in web; vm b in web",
        "ann declares: vm a in web address=10.0.0.1; no vm b; vm c in web",
    )
    last = harness.fleet.last_applied

    assert [*last.absent(RecordKind.VM, harness.fleet.vms)] == [Vm("b", "web")]
