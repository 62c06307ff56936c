"""Under which keys history finds an entry again."""

import pytest
from msgspec.structs import replace

from forewarn.core.declared_keys import HeldChange, HoldReason, RecordKind, RecordName
from forewarn.core.facts import (
    Announced,
    AnyFact,
    Approved,
    Asked,
    Canceled,
    ChangesHeld,
    ClockStepped,
    Delivered,
    Entry,
    EventStep,
    FleetDeclared,
    HostCordonSet,
    HostStateSet,
    IncarnationsRaised,
    Mark,
    ObservationRecorded,
    SubscriptionRemoved,
    SubscriptionSet,
    SwitchedOff,
    TokenCreated,
    TokenRevoked,
    VmDeallocated,
    VmRemoved,
    VmStarted,
    VmSwitched,
)
from forewarn.core.model import (
    NODE,
    Caller,
    CallerKind,
    GroupKind,
    GroupTerms,
    Host,
    HostState,
    Observation,
    ObservationKind,
    Role,
    Subscription,
    SubscriptionKind,
    Token,
    Vm,
)
from forewarn.core.subjects import event_groups, event_of, group_of, groups_of, subjects_of, with_groups
from tests.core.harness import ANN, NOON, FleetHarness

FLEET = "ann declares: host h1; host h2; group web availability-set; vm web-0 in web on h1; vm web-1 in web on h1"


def subjects(harness: FleetHarness, sentence: str, by: Caller = NODE) -> set[str]:
    facts = harness.say(sentence)
    return {harness.labels.put_into(key) for key in subjects_of(Entry(1, NOON, "c", by, facts))} - {"command:c"}


def test_a_change_is_found_by_all_it_names() -> None:
    """Hosts, groups and VMs, those that left too, and the groups that VMs joined and left."""
    harness = FleetHarness(FLEET)
    found = subjects(
        harness, "ann declares: host h3; group db availability-set; vm db-0 in db; no vm web-1; no host h2"
    )

    assert found == {"host:h3", "group:db", "vm:db-0", "vm:web-1", "group:web", "host:h2"}


def test_an_event_is_found_by_all_it_concerns() -> None:
    """Its id, its group, its host and its VMs."""
    harness = FleetHarness(FLEET)

    assert subjects(harness, "ann freezes host h1") == {"event:E1", "group:web", "host:h1", "vm:web-0", "vm:web-1"}


@pytest.mark.parametrize(
    ("sentence", "found"),
    [
        ("web-0 approves E1", {"event:E1"}),
        ("web-0 is shown E1", {"event:E1"}),
        ("ann cancels E1", {"event:E1", "finished"}),
        ("ann deallocates web-1", {"vm:web-1"}),
        ("ann sets web approval=all", {"group:web"}),
        ("web-0 asks", {"group:web"}),
    ],
)
def test_a_fact_is_found_by_its_subject(sentence: str, found: set[str]) -> None:
    """Each in its own way."""
    assert subjects(FleetHarness(FLEET, "ann freezes host h1"), sentence) == found


def test_a_move_is_found_by_vm_and_host() -> None:
    """Whoever looks at the host sees who came."""
    harness = FleetHarness(FLEET, "ann redeploys web-0")

    assert {"vm:web-0", "host:h2"} < subjects(harness, "the driver is done with E1, web-0 on h2")


def test_an_entry_is_found_by_its_command_and_its_caller() -> None:
    """Except that the node itself is no caller to look for."""
    assert subjects_of(Entry(1, NOON, "c", ANN, ())) == {"command:c", "caller:ann"}
    assert subjects_of(Entry(1, NOON, "c", Caller(CallerKind.VM, "web-0"), ())) == {"command:c", "caller:web-0"}
    assert subjects_of(Entry(1, NOON, "c", NODE, ())) == {"command:c"}


@pytest.mark.parametrize(
    ("sentence", "found"),
    [
        ("ann restarts web-1", {"web"}),
        ("web-0 approves E1", {"web"}),
        ("ann cancels E1", {"web"}),
        ("web-0 asks", {"web"}),
        ("ann sets web approval=all", {"web"}),
        ("ann declares: group db availability-set; vm web-2 in web on h1", {"db", "web"}),
        ("ann deallocates web-1", set()),
    ],
)
def test_a_fact_names_the_groups_that_it_concerns(sentence: str, found: set[str]) -> None:
    """Facts about events do; those about VMs alone do not."""
    facts = FleetHarness(FLEET, "ann freezes host h1").say(sentence)

    assert {name for fact in facts for name in groups_of(fact)} == found


def without_groups(facts: tuple[AnyFact, ...]) -> tuple[AnyFact, ...]:
    return tuple(replace(fact, group="") if isinstance(fact, EventStep) else fact for fact in facts)


def test_facts_of_earlier_releases_get_their_groups() -> None:
    """From the fleet before the entry, or from the announcement in the entry itself."""
    harness = FleetHarness(FLEET)
    announced = harness.say("ann freezes host h1")
    before = FleetHarness(FLEET).fleet
    canceled = harness.say("ann cancels E1")
    entry = Entry(1, NOON, "c", NODE, (*announced, *canceled))
    assert event_groups(canceled) == event_groups(announced) != {}

    assert with_groups(replace(entry, facts=(*announced, *without_groups(canceled))), before) == entry
    for fact in announced:
        before.evolve(fact)
    alone = replace(entry, facts=canceled)
    assert with_groups(replace(alone, facts=without_groups(canceled)), before) == alone
    assert with_groups(alone, before) is alone


@pytest.mark.parametrize("has_groups", [True, False])
def test_the_group_of_a_vm_that_is_gone_is_that_of_what_ended_with_it(*, has_groups: bool) -> None:
    """The present group of a VM comes first; the event is asked for only where its fact names no group."""
    harness = FleetHarness(FLEET, "ann freezes web-1")
    facts = harness.say("ann deallocates web-1")
    entry = Entry(1, NOON, "c", NODE, facts if has_groups else without_groups(facts))
    (gone,) = (fact for fact in facts if isinstance(fact, VmDeallocated))
    asked: list[str] = []

    def group_of_event(id_: str) -> str:
        asked.append(harness.labels.put_into(id_))
        return "web"

    assert group_of(gone, entry, lambda _: "db", group_of_event) == "db"
    assert group_of(gone, entry, lambda _: "", group_of_event) == "web"
    assert asked == ([] if has_groups else ["E1"])


def test_a_fact_of_an_event_names_its_event() -> None:
    """The fact that begins it holds the whole event, the others its id."""
    harness = FleetHarness(FLEET)
    (announced,) = (fact for fact in harness.say("ann freezes host h1") if isinstance(fact, Announced))
    (canceled,) = (fact for fact in harness.say("ann cancels E1") if isinstance(fact, EventStep))

    assert event_of(announced) == event_of(canceled) == announced.event.id


def test_held_changes_name_the_groups_among_their_records() -> None:
    """Those that begin to be held, and those that are held no more."""
    held = [HeldChange(kind, kind.value, HoldReason.IN_USE) for kind in RecordKind]
    ended = [RecordName(kind, f"old {kind}") for kind in RecordKind]

    assert list(groups_of(ChangesHeld(tuple(held), tuple(ended)))) == ["group", "old group"]


def test_marks_name_their_groups() -> None:
    """The last requests of VMs are recorded by group."""
    assert list(groups_of(Asked((Mark("web", NOON, "web-0"), Mark("db", NOON, "db-0"))))) == ["web", "db"]


def test_one_fact_without_its_group_is_enough_for_an_entry_to_be_completed() -> None:
    """The others stay as they are."""
    harness = FleetHarness(FLEET, "ann freezes web-0", "ann freezes web-1")
    before = harness.fleet
    facts = tuple(Canceled(harness.id(label), NOON, "canceled", group="web") for label in ("E1", "E2"))
    entry = Entry(1, NOON, "c", NODE, facts)

    assert with_groups(replace(entry, facts=(facts[0], replace(facts[1], group=""))), before) == entry


def test_a_declaration_names_its_groups() -> None:
    """Those that it has, and those that it has no more."""
    terms = GroupTerms("web", GroupKind.AVAILABILITY_SET)
    fact = FleetDeclared(revision=1, digest="", source="", groups=(terms,), removed_groups=("db",))

    assert list(groups_of(fact)) == ["web", "db"]


@pytest.mark.parametrize(
    ("fact", "found"),
    [
        (VmRemoved("web-0", "deleted", group="web"), ["web"]),
        (VmRemoved("web-0", "deleted"), []),
        (SwitchedOff("web", NOON), ["web"]),
        (IncarnationsRaised({"web": 2, "db": 3}), ["web", "db"]),
    ],
)
def test_what_names_groups_by_itself(fact: AnyFact, found: list[str]) -> None:
    """An earlier release did not name the group of a VM that was removed."""
    assert list(groups_of(fact)) == found


@pytest.mark.parametrize(
    ("fact", "found"),
    [
        (IncarnationsRaised({"web": 2}), "web"),
        (ObservationRecorded(Observation("web-0", ObservationKind.CRASHED, NOON)), "group of web-0"),
        (Canceled("E1", NOON, "canceled"), "group of E1"),
        (VmDeallocated("web-0", "deallocated"), "group of web-0"),
        (HostStateSet("h1", HostState.FAILED, NOON), ""),
    ],
)
def test_the_group_that_a_fact_does_not_name_is_asked_for(fact: AnyFact, found: str) -> None:
    """By its VM or its event; a host belongs to no group."""
    entry = Entry(1, NOON, "c", NODE, (fact,))

    assert group_of(fact, entry, lambda vm: f"group of {vm}", lambda event: f"group of {event}") == found


def test_only_an_event_that_ends_tells_the_group_of_a_vm_that_is_gone() -> None:
    """Another fact of the entry may concern another group."""
    gone = VmDeallocated("web-0", "deallocated")
    facts = (Approved("E1", NOON, ANN, group="db"), Canceled("E2", NOON, "canceled", group="web"), gone)

    assert group_of(gone, Entry(1, NOON, "c", NODE, facts), lambda _: "", lambda _: "") == "web"
    assert group_of(gone, Entry(1, NOON, "c", NODE, (gone,)), lambda _: "", lambda _: "") == ""


@pytest.mark.parametrize(
    ("fact", "found"),
    [
        (VmRemoved("web-0", "deleted", group="web"), {"vm:web-0", "group:web"}),
        (VmStarted("web-0"), {"vm:web-0"}),
        (VmSwitched("web-0", "r", True, NOON), {"vm:web-0"}),
        (ObservationRecorded(Observation("web-0", ObservationKind.CRASHED, NOON)), {"vm:web-0"}),
        (HostStateSet("h1", HostState.FAILED, NOON), {"host:h1"}),
        (HostCordonSet("h1", True, NOON, {"web-0": "it is tied"}), {"host:h1", "vm:web-0"}),
        (
            FleetDeclared(
                revision=1,
                digest="",
                source="",
                hosts=(Host("h1"),),
                vms=(Vm("web-0", "web"),),
                removed_hosts=("h2",),
                removed_vms=("web-1",),
            ),
            {"host:h1", "host:h2", "vm:web-0", "vm:web-1"},
        ),
        (
            ChangesHeld(
                (HeldChange(RecordKind.HOST, "h1", HoldReason.IN_USE),), (RecordName(RecordKind.VM, "web-0"),)
            ),
            {"host:h1", "vm:web-0"},
        ),
        (ClockStepped(NOON, NOON), {"clock"}),
        (SwitchedOff("web", NOON), {"group:web"}),
        (IncarnationsRaised({"web": 2}), {"group:web"}),
        (TokenCreated(Token("t", "ann", Role.OPERATOR, "", NOON)), {"token:t"}),
        (TokenRevoked("t"), {"token:t"}),
        (SubscriptionSet(Subscription("s", "ann", SubscriptionKind.MAIL, "ann@example.org")), {"subscription:s"}),
        (SubscriptionRemoved("s"), {"subscription:s"}),
    ],
)
def test_a_record_is_found_by_all_that_it_names(fact: AnyFact, found: set[str]) -> None:
    """Also what is told of in no sentence."""
    assert subjects_of(Entry(1, NOON, "c", NODE, (fact,))) == {"command:c", *found}


def test_marks_and_deliveries_are_not_found_but_what_is_recorded_with_them_is() -> None:
    """They come in thousands, and say less than the requests and messages themselves."""
    facts = (Asked((Mark("web", NOON, "web-0"),)), Delivered({"s": 1}), VmStarted("db-0"))

    assert subjects_of(Entry(1, NOON, "c", NODE, facts)) == {"command:c", "vm:db-0"}


def test_a_born_started_event_is_found_as_an_announced_one() -> None:
    """By its id, its group and its VMs."""
    harness = FleetHarness(FLEET)

    assert subjects(harness, "ann restarts web-0") == {"event:E1", "group:web", "host:h1", "vm:web-0"}


def test_what_names_no_event_tells_the_group_of_none() -> None:
    """Also where it names a group."""
    facts = (
        VmRemoved("web-0", "deleted", group="web"),
        Canceled("E1", NOON, "", group="db"),
    )

    assert event_groups(facts) == {"E1": "db"}
