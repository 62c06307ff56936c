"""Labels of hosts and VMs: set at run time, declared in a file, and what wins."""

import msgspec
import pytest
from msgspec.structs import replace

from forewarn.core.commands import ApplyDeclaration, SetHost, SetVm
from forewarn.core.declared_keys import RecordKind, ReplacedValue
from forewarn.core.drift import find_drift
from forewarn.core.errors import Refused, Unknown
from forewarn.core.facts import FleetChanged, FleetDeclared
from forewarn.core.fleet import Fleet
from forewarn.core.model import NO_LABELS, Host, Vm
from tests.core.harness import ANN, FleetHarness

FLEET = "ann declares: host h1; group web availability-set; vm web-0 in web on h1; vm web-1 in web on h1"


def harness() -> FleetHarness:
    return FleetHarness(FLEET)


def label_vm(vm: str, *keys: str, **labels: str) -> SetVm:
    given = tuple(f"labels.{key}" for key in (*keys, *labels))
    return SetVm(id="c", by=ANN, vm=vm, keys=given, values=Vm("", "", labels=labels))


def label_host(host: str, **labels: str | None) -> SetHost:
    return SetHost(id="c", by=ANN, host=host, labels=labels)


def apply_hosts(harness: FleetHarness, *hosts: Host, exact: bool = False) -> FleetDeclared | None:
    seen = harness.fleet.last_applied.revision
    command = ApplyDeclaration(id="c", by=ANN, hosts=hosts, seen=seen, exact=exact)
    return next((fact for fact in harness.give(command) if isinstance(fact, FleetDeclared)), None)


def test_a_record_without_labels_costs_and_says_nothing_more() -> None:
    """All of them share one empty table, also after they were read."""
    vm = Vm("web-0", "web")
    encoded = msgspec.json.encode(vm)

    assert encoded == b'{"name":"web-0","group":"web"}'
    assert msgspec.json.decode(encoded, type=Vm).labels is NO_LABELS is Host("h1").labels


def test_labels_are_set_and_taken_away_one_by_one() -> None:
    """The others stay; the fact says what was before."""
    here = harness()
    here.give(label_vm("web-0", rack="r1", version="1"))
    (changed,) = here.give(label_vm("web-0", "rack", version="2"))

    assert isinstance(changed, FleetChanged)
    assert changed.before_vms[0].labels == {"rack": "r1", "version": "1"}
    assert here.fleet.vms["web-0"].labels == {"version": "2"}
    here.give(label_host("h1", rack="r1", pool="a"))
    (changed,) = here.give(label_host("h1", rack=None))
    assert isinstance(changed, FleetChanged)
    assert changed.before_hosts == (Host("h1", {"pool": "a", "rack": "r1"}),)
    assert here.fleet.hosts["h1"].labels == {"pool": "a"}


def test_what_is_so_already_is_no_fact() -> None:
    """Neither is a label taken away that is not there."""
    here = harness()
    here.give(label_vm("web-0", rack="r1"))

    assert here.give(label_vm("web-0", "version", rack="r1")) == ()
    assert here.give(label_host("h1", rack=None)) == ()


def test_the_last_label_leaves_the_record_as_it_was() -> None:
    """No empty table is recorded or held."""
    here = harness()
    here.give(label_vm("web-0", rack="r1"))
    here.give(label_vm("web-0", "rack"))

    assert here.fleet.vms["web-0"].labels is NO_LABELS


def test_labels_of_nobody_and_labels_that_cannot_be_are_refused() -> None:
    """With the nearest name, and the label."""
    here = harness()
    with pytest.raises(Unknown, match="did you mean 'web-0'"):
        here.give(label_vm("web-00", rack="r1"))
    with pytest.raises(Unknown, match="no host 'h11'"):
        here.give(label_host("h11", rack="r1"))
    with pytest.raises(Refused, match="not a valid value of label 'rack'"):
        here.give(label_vm("web-0", rack="r 1"))
    with pytest.raises(Refused, match="not a valid value of label 'rack'"):
        here.give(label_host("h1", rack=""))


def test_other_keys_of_a_vm_are_changed_in_the_same_way() -> None:
    """But not its host, which only a move changes."""
    here = harness()
    values = Vm("", "", zone="2", spot=True, address="10.0.0.9")
    here.give(SetVm(id="c", by=ANN, vm="web-0", keys=("zone", "address"), values=values))

    assert here.fleet.vms["web-0"] == Vm("web-0", "web", "h1", zone="2", address="10.0.0.9")
    with pytest.raises(Refused, match="forewarn vm move web-0 HOST"):
        here.give(SetVm(id="c", by=ANN, vm="web-0", keys=("host",), values=Vm("", "", "h2")))


def test_a_vm_with_an_event_does_not_leave_its_place() -> None:
    """Labels may change all the same: no event rests on them."""
    here = harness()
    here.say("ann freezes host h1")
    moved = SetVm(id="c", by=ANN, vm="web-0", keys=("update_domain",), values=Vm("", "", update_domain=3))
    with pytest.raises(Refused, match="has the unfinished event"):
        here.give(moved)

    here.give(label_vm("web-0", rack="r1"))
    here.give(replace(moved, cancel_events=True))
    assert here.fleet.vms["web-0"].update_domain == 3


def test_a_file_changes_only_the_labels_that_change_in_it() -> None:
    """A label that was set at run time stays, also beside one that the file changes."""
    here = FleetHarness()
    apply_hosts(here, Host("h1", {"rack": "r1"}))
    here.give(label_host("h1", version="7"))
    declared = apply_hosts(here, Host("h1", {"rack": "r2"}))

    assert here.fleet.hosts["h1"].labels == {"rack": "r2", "version": "7"}
    assert declared is not None
    assert declared.replaced == ()
    assert [each.keys for each in find_drift(here.fleet)] == [{"labels.version": (None, "7")}]


def test_a_label_changed_in_both_takes_the_value_of_the_file() -> None:
    """What it replaces is reported, also where run time had taken the label away."""
    here = FleetHarness()
    apply_hosts(here, Host("h1", {"rack": "r1", "pool": "a"}))
    here.give(label_host("h1", rack="r9", pool=None))
    declared = apply_hosts(here, Host("h1", {"rack": "r2", "pool": "b"}))

    assert here.fleet.hosts["h1"].labels == {"rack": "r2", "pool": "b"}
    assert declared is not None
    assert declared.replaced == (
        ReplacedValue(RecordKind.HOST, "h1", "labels.pool", "null"),
        ReplacedValue(RecordKind.HOST, "h1", "labels.rack", '"r9"'),
    )


def test_exact_takes_labels_away_that_the_file_does_not_have() -> None:
    """And the fleet is as the file says."""
    here = FleetHarness()
    apply_hosts(here, Host("h1", {"rack": "r1"}))
    here.give(label_host("h1", rack="r2", version="7"))
    apply_hosts(here, exact=True)

    assert here.fleet.hosts["h1"] == Host("h1", {"rack": "r1"})
    assert list(find_drift(here.fleet)) == []


def test_a_label_removed_from_the_file_goes() -> None:
    """A key that is removed returns to its default, and a label has none."""
    here = FleetHarness()
    apply_hosts(here, Host("h1", {"rack": "r1"}))
    here.give(label_host("h1", version="7"))
    apply_hosts(here, Host("h1"))

    assert here.fleet.hosts["h1"].labels == {"version": "7"}


def test_a_snapshot_holds_the_labels() -> None:
    """Those of the fleet, and those of the declaration."""
    here = FleetHarness()
    apply_hosts(here, Host("h1", {"rack": "r1"}))
    here.give(label_host("h1", version="7"))
    again = Fleet.restore(here.fleet.parts())

    assert again.hosts == here.fleet.hosts
    assert again.declared(RecordKind.HOST, "h1") == Host("h1", {"rack": "r1"})
