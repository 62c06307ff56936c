"""Equal names and records are kept once, and stay equal."""

import msgspec

from forewarn.core.chunks import FleetChunk
from forewarn.core.facts import FleetChanged
from forewarn.core.fleet import Fleet
from forewarn.core.model import GroupKind, GroupTerms, Host, InstanceFacts, Vm
from forewarn.journal.interning import Interner
from forewarn.testing.journal_contract import entry

FACTS = InstanceFacts(vm_size="Standard_D2s_v3", tags={"team": "blue"})


def fleet(instances: list[InstanceFacts]) -> Fleet:
    """Make a fleet of one group on one host, a VM for each of the instance facts."""
    vms = tuple(Vm(f"web-{n}", "web", "rack", zone="1", instance=each) for n, each in enumerate(instances))
    terms = GroupTerms("web", GroupKind.AVAILABILITY_SET)
    made = Fleet()
    made.enter(entry(1, FleetChanged(hosts=(Host("rack"),), groups=(terms,), vms=vms)))
    return made


def decoded(of: Fleet) -> list[FleetChunk]:
    """Return the fleet's parts as a reader gets them: equal to what was written, sharing nothing."""
    return [msgspec.msgpack.decode(msgspec.msgpack.encode(part), type=FleetChunk) for part in of.parts()]


def shared(of: Fleet) -> Fleet:
    parts = decoded(of)
    interning = Interner()
    for part in parts:
        interning.share_groups(part.groups)
        interning.share_vms(part.vms)
    assert parts == list(of.parts()), "sharing changes no value"
    return Fleet.restore(parts)


def test_names_are_kept_once() -> None:
    """A VM's group, host and own name are the same objects wherever they are mentioned."""
    restored = shared(fleet([FACTS, FACTS]))
    one, two = restored.vms.values()
    (group,) = restored.groups.values()

    assert one.group is two.group is group.name
    assert one.host is two.host
    assert one.zone is two.zone
    assert group.vms[0] is one.name


def test_equal_instance_facts_are_one_record() -> None:
    """VMs of the same make share what is said of it, also when others stand between them."""
    one, other, two = shared(fleet([FACTS, InstanceFacts(os_type="Windows"), FACTS])).vms.values()

    assert one.instance is two.instance
    assert one.instance is not other.instance


def test_instance_facts_with_an_identity_share_their_parts() -> None:
    """What has an id of its own shares its words and tags."""
    identified = [msgspec.structs.replace(FACTS, vm_id=str(n)) for n in range(2)]

    one, two = (vm.instance for vm in shared(fleet(identified)).vms.values())

    assert (one.vm_id, two.vm_id) == ("0", "1")
    assert one.vm_size is two.vm_size
    assert one.tags is two.tags


def test_entries_share_as_well() -> None:
    """VMs that come out of entries instead of a snapshot are shared likewise."""
    vms = msgspec.json.decode(b'[{"name":"a","group":"web"},{"name":"b","group":"web"}]', type=tuple[Vm, ...])
    assert vms[0].group is not vms[1].group

    Interner().share_entry(entry(1, FleetChanged(vms=vms)))

    assert vms[0].group is vms[1].group
