"""Whose word lets an event start: the edges that no story tells."""

import pytest

from forewarn.core.approval import is_enough
from forewarn.core.commands import Approve, Postponement
from forewarn.core.errors import Refused, Unknown
from forewarn.core.facts import Approved, Postponed, VmDeallocated
from forewarn.core.model import Caller, CallerKind
from tests.core.harness import FleetHarness, kinds

FLEET = (
    "ann declares: host h1; group web availability-set; group db availability-set approval=all; "
    "vm web-0 in web on h1; vm db-0 in db on h1; vm db-1 in db on h1"
)


def approve(name: str, *events: str) -> Approve:
    return Approve(id="a", by=Caller(CallerKind.VM, name), events=events)


def test_an_empty_request_is_good() -> None:
    """Nothing is asked, nothing happens."""
    assert FleetHarness(FLEET).give(approve("web-0")) == ()


def test_an_id_named_twice_is_approved_once() -> None:
    """A repetition within one request is a repetition."""
    harness = FleetHarness(FLEET, "ann freezes web-0")

    facts = harness.give(approve("web-0", harness.id("E1"), harness.id("E1")))

    assert kinds(facts) == ["Approved", "Started"]


def test_several_events_are_approved_at_once() -> None:
    """One request may speak for many events."""
    harness = FleetHarness(FLEET, "ann freezes host h1", "ann freezes db-0")

    facts = harness.give(approve("db-0", harness.id("E1"), harness.id("E3")))

    assert [fact.event for fact in facts if isinstance(fact, Approved)] == [harness.id("E1"), harness.id("E3")]


def test_a_caller_that_is_no_vm_any_more_sees_nothing() -> None:
    """Who left the fleet approves nothing in it."""
    harness = FleetHarness(FLEET, "ann freezes web-0")

    with pytest.raises(Unknown):
        harness.give(approve("web-9", harness.id("E1")))


def test_that_nobody_is_left_to_object_is_no_approval() -> None:
    """A delete of a deallocated VM, whom nobody can ask, waits for its time under the rule ``all``."""
    harness = FleetHarness(
        "ann declares: group pool scale-set approval=all terminate_notice=300; vm pool-0 in pool; vm pool-1 in pool",
        "pool-1 asks",
        "ann deallocates pool-0",
        "ann deletes pool-0",
    )
    harness.say("pool-1 approves E1")

    assert harness.fleet.events[harness.id("E1")].status == "scheduled"


def test_an_approval_by_an_earlier_rule_is_not_that_of_vms_that_nobody_can_ask() -> None:
    """It counted for a quorum; ``all`` asks the VMs of the event, and none of them runs."""
    harness = FleetHarness(
        "ann declares: group pool scale-set approval=quorum quorum=2 terminate_notice=300; "
        "vm pool-0 in pool; vm pool-1 in pool; vm pool-2 in pool",
        "pool-1 asks",
        "ann deallocates pool-0",
        "ann deletes pool-0",
        "pool-1 approves E1",
        "ann sets pool approval=all quorum=0",
    )

    assert harness.fleet.events[harness.id("E1")].status == "scheduled"


PATIENT = "ann declares: host h1; group web availability-set postpone_limit=600; vm web-0 in web on h1"


def postpone(harness: FleetHarness, *seconds: int, approves: bool = False) -> Approve:
    """Ask for more time before E1 so many times in one request, and perhaps approve it too."""
    postponements = tuple(Postponement(harness.id("E1"), each) for each in seconds)
    events = (harness.id("E1"),) if approves else ()
    return Approve(id="p", by=Caller(CallerKind.VM, "web-0"), events=events, postponements=postponements)


@pytest.mark.parametrize("seconds", [1, 600])
def test_an_event_is_postponed_by_a_second_as_well_as_by_all_that_is_left(seconds: int) -> None:
    """The limit itself is allowed."""
    harness = FleetHarness(PATIENT, "ann freezes web-0")

    (fact,) = harness.give(postpone(harness, seconds))

    assert isinstance(fact, Postponed)
    assert fact.seconds == seconds


@pytest.mark.parametrize("seconds", [-1, 0, 601])
def test_less_than_a_second_or_more_than_is_left_is_refused(seconds: int) -> None:
    """In a sentence that says how much is."""
    harness = FleetHarness(PATIENT, "ann freezes web-0")

    with pytest.raises(Refused, match=f"can be postponed by 1 to 600 s more, not by {seconds} s"):
        harness.give(postpone(harness, seconds))


@pytest.mark.parametrize(("seconds", "approves"), [((10, 10), False), ((10,), True)], ids=["twice", "and approved"])
def test_nobody_says_two_things_of_an_event_at_once(seconds: tuple[int, ...], *, approves: bool) -> None:
    """Neither two postponements nor one beside an approval; nothing of such a request happens."""
    harness = FleetHarness(PATIENT, "ann freezes web-0")

    with pytest.raises(Refused, match="is named more than once"):
        harness.give(postpone(harness, *seconds, approves=approves))


def test_all_postponements_of_an_event_count_together() -> None:
    """The limit is for the event, not for each request."""
    harness = FleetHarness(PATIENT, "ann freezes web-0")
    harness.give(postpone(harness, 400))
    harness.give(postpone(harness, 100))

    with pytest.raises(Refused, match="can be postponed by 1 to 100 s more, not by 200 s"):
        harness.give(postpone(harness, 200))


def test_the_reason_for_a_postponement_is_one_line() -> None:
    """People are shown it on one line."""
    harness = FleetHarness(PATIENT, "ann freezes web-0")
    wish = Postponement(harness.id("E1"), 10, "a backup\nis running")

    with pytest.raises(Refused, match="a reason is one line"):
        harness.give(Approve(id="p", by=Caller(CallerKind.VM, "web-0"), postponements=(wish,)))


def test_a_group_that_is_down_waits_where_its_policy_says_so() -> None:
    """``approve_all_down = false``: its events keep their notice."""
    harness = FleetHarness(
        "ann declares: group pool scale-set terminate_notice=300 approve_all_down=False; vm pool-0 in pool",
        "pool-0 asks",
        "ann deallocates pool-0",
    )

    assert kinds(harness.say("ann deletes pool-0")) == ["Announced"]


def test_a_word_that_no_longer_counts_is_not_given_again() -> None:
    """Under the rule before it counted; the repetition says nothing new."""
    harness = FleetHarness(
        "ann declares: group web availability-set approval=quorum quorum=2; vm web-0 in web; vm web-1 in web",
        "ann freezes web-0",
        "web-1 approves E1",
        "ann sets web approval=all",
    )

    assert harness.say("web-1 approves E1") == ()


@pytest.mark.parametrize("who", ["web-0", "ann"])
def test_an_approval_names_the_group_of_its_event(who: str) -> None:
    """Whoever gives it; a wish for more time does too."""
    harness = FleetHarness(FLEET, "ann sets web postpone_limit=600", "ann freezes web-0")
    (postponed,) = harness.say("web-0 postpones E1 by 60 s")
    (approved, *_) = harness.say(f"{who} approves E1")

    assert isinstance(postponed, Postponed)
    assert isinstance(approved, Approved)
    assert (postponed.group, approved.group) == ("web", "web")


def test_a_quorum_of_nobody_is_no_approval() -> None:
    """Where no VM of the group runs, somebody has to approve all the same, unless the policy goes by that."""
    harness = FleetHarness(
        "ann declares: group web availability-set approval=quorum quorum=1 approve_all_down=False; vm a in web",
        "ann freezes a",
    )
    harness.fleet.evolve(VmDeallocated("a", "x"))

    assert not is_enough(harness.fleet, harness.fleet.events[harness.id("E1")])
