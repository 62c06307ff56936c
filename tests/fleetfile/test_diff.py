"""What leads from the fleet as it is to the fleet as it is wished."""

from datetime import UTC, datetime
from uuid import uuid4

from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from forewarn.config import toml
from forewarn.core.commands import ChangeFleet
from forewarn.core.decide import enact
from forewarn.core.declared_keys import RecordKind
from forewarn.core.fleet import Fleet
from forewarn.core.model import (
    ApprovalRule,
    Caller,
    CallerKind,
    EvictionPolicy,
    GroupKind,
    GroupTerms,
    Host,
    InstanceFacts,
    Interface,
    Policy,
    Vm,
)
from forewarn.core.notice import Rules
from forewarn.fleetfile.diff import CurrentFleet, FleetDiff, diff_fleet
from forewarn.fleetfile.formatter import format_fleet
from forewarn.fleetfile.parser import DesiredFleet, parse_fleet

NOW = datetime(2026, 1, 1, tzinfo=UTC)
BY = Caller(CallerKind.OPERATOR, "ada")


def apply(fleet: Fleet, change: FleetDiff) -> None:
    fields = {key: getattr(change, key) for key in change.__struct_fields__}
    enact(fleet, ChangeFleet(id=uuid4().hex, by=BY, **fields), NOW, Rules())


hosts = st.lists(st.sampled_from(["h1", "h2", "h3"]), unique=True)
rules = st.sampled_from([ApprovalRule.ANY, ApprovalRule.ALL])
policies = st.builds(
    Policy,
    approve_user_reboot=st.booleans(),
    approve_all_down=st.booleans(),
    restart_after_crash=st.booleans(),
    postpone_limit=st.sampled_from([0, 90, 3_600]),
    quiet_hours=st.sampled_from([(), ("22:00-06:00", "Sat,Sun 00:00-24:00 Europe/Berlin")]),
)
terms = st.builds(
    GroupTerms,
    st.sampled_from(["g1", "g2", "a"]),
    st.sampled_from([GroupKind.AVAILABILITY_SET, GroupKind.SCALE_SET]),
    rules,
    st.none(),
    st.sampled_from(EvictionPolicy),
    policies,
)
facts = st.builds(InstanceFacts, vm_size=st.text("ab\"\\'#ü", max_size=3), tags=st.sampled_from([{}, {"a b": 'c"d'}]))


@st.composite
def desired_fleets(draw: st.DrawFn) -> DesiredFleet:
    """Draw any fleet that a file may ask for."""
    stand = {name: Host(name) for name in draw(hosts)}
    groups = {each.name: each for each in draw(st.lists(terms, max_size=3))}
    shared, vms = tuple(groups), {}
    for number, name in enumerate(draw(st.lists(st.sampled_from(["a", "b", "c", "d"]), unique=True))):
        group = draw(st.sampled_from([*shared, name]))
        groups.setdefault(group, GroupTerms(group, GroupKind.STANDALONE, draw(rules)))
        vms[name] = Vm(
            name,
            group,
            draw(st.sampled_from(["", *stand])),
            draw(st.integers(0, 1)),
            address=draw(st.sampled_from(["", f"10.0.0.{number}"])),
            interface=draw(
                st.sampled_from(
                    [
                        Interface(),
                        Interface(tap=f"tap{number}", mark=number + 1),
                        Interface(mac_address="52:54:00:12:34:56", subnet="10.0.0.0/24", ipv6_address="2001:db8::1"),
                    ]
                )
            ),
            instance=draw(facts),
        )
    return DesiredFleet(stand, groups, vms)


def fleet_of(wish: DesiredFleet) -> Fleet:
    fleet = Fleet()
    apply(fleet, diff_fleet(wish, CurrentFleet()))
    return fleet


def is_granted(fleet: Fleet, wish: DesiredFleet) -> bool:
    found = CurrentFleet.of(fleet)
    return found.hosts == wish.hosts and found.groups == wish.groups and found.vms == wish.vms


@given(desired_fleets(), desired_fleets())
def test_the_difference_leads_to_the_wish_and_is_then_nothing(before: DesiredFleet, after: DesiredFleet) -> None:
    """Whatever the fleet was, the rules grant it; applying the same file again changes nothing."""
    fleet = fleet_of(before)

    apply(fleet, diff_fleet(after, CurrentFleet.of(fleet)))

    assert is_granted(fleet, after)
    assert not diff_fleet(after, CurrentFleet.of(fleet))


@given(desired_fleets(), st.data())
def test_what_happened_at_run_time_stays_unless_the_file_changes_that_very_key(
    wish: DesiredFleet, data: st.DataObject
) -> None:
    """A VM that was moved or deallocated is so after the same file; a changed host puts it where the file says."""
    assume(wish.vms and wish.hosts)
    fleet = fleet_of(wish)
    name = data.draw(st.sampled_from(list(wish.vms)))
    moved_to, deallocated = data.draw(st.sampled_from([("elsewhere", False), ("", True), ("elsewhere", True)]))
    moved = replace(wish.vms[name], moved_to=moved_to, deallocated=deallocated)
    declared = CurrentFleet(fleet.hosts, wish.groups, {**fleet.vms, name: moved})

    assert not diff_fleet(wish, declared)

    other = data.draw(st.sampled_from([host for host in ("", *wish.hosts) if host != moved.host]))
    elsewhere = {**wish.vms, name: replace(wish.vms[name], host=other)}
    assert diff_fleet(DesiredFleet(wish.hosts, wish.groups, elsewhere), declared).vms == (
        replace(moved, host=other, moved_to=""),
    )


def test_only_what_is_different_is_sent() -> None:
    """One VM of many, and nothing of the others."""
    wish = parse_fleet(toml.parse('[[vm]]\nname = "a"\n[[vm]]\nname = "b"\n', "f"))
    fleet = fleet_of(wish)
    after = parse_fleet(toml.parse('[[vm]]\nname = "a"\n[[vm]]\nname = "b"\nzone = "1"\n', "f"))

    assert diff_fleet(after, CurrentFleet.of(fleet)) == FleetDiff(vms=(Vm("b", "b", zone="1"),))


@given(desired_fleets())
def test_a_fleet_that_is_shown_as_a_file_is_the_same_fleet(wish: DesiredFleet) -> None:
    """``fleet show`` prints what ``fleet apply`` takes."""
    text = "\n".join(format_fleet(CurrentFleet.of(fleet_of(wish))))

    assert parse_fleet(toml.parse(text, "fleet.toml")) == wish


def test_notes_stand_below_what_they_are_about() -> None:
    """Hosts, groups and VMs; the last ones at the end."""
    fleet = CurrentFleet(
        {"h1": Host("h1")}, {"web": GroupTerms("web", GroupKind.AVAILABILITY_SET)}, {"a": Vm("a", "web")}
    )
    names = ((RecordKind.HOST, "h1"), (RecordKind.GROUP, "web"), (RecordKind.VM, "a"), ("", ""))
    lines = list(format_fleet(fleet, {key: (f"# about {key[1]}",) for key in names}))

    assert [line for line in lines if line.startswith(("# about", "["))] == [
        "[[host]]",
        "# about h1",
        "[[group]]",
        "# about web",
        "[[vm]]",
        "# about a",
        "# about ",
    ]
