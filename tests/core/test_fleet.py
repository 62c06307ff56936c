"""The fleet as the fold of its facts, whole and in pieces."""

from datetime import timedelta

import pytest

from forewarn.core import chunks as parts_module
from forewarn.core.facts import (
    Asked,
    Canceled,
    ClockStepped,
    Entry,
    Fetch,
    Fetched,
    Mark,
    SubscriptionSet,
    TokenCreated,
    VmDeallocated,
    VmMoved,
)
from forewarn.core.fleet import EPOCH, Fleet
from forewarn.core.model import Role, Subscription, SubscriptionKind, Token
from tests.core.harness import ANN, NOON, FleetHarness
from tests.core.invariant_checker import copy_of, derived, packed

FLEET = (
    "ann declares: host h1; host h2; group web availability-set; group db standalone; "
    "vm web-0 in web on h1 address=10.0.0.1; vm web-1 in web on h1 ud=1; vm web-2 in web on h2; vm db-0 in db"
)


def test_a_fleet_in_many_pieces_is_the_same_fleet(monkeypatch: pytest.MonkeyPatch) -> None:
    """However small the pieces of a snapshot are, nothing is lost between them."""
    monkeypatch.setattr(parts_module, "_CHUNK_SIZE", 1)
    fleet = FleetHarness(FLEET, "web-0 asks", "ann freezes host h1", "ann restarts web-0").fleet

    assert len(list(fleet.parts())) > 8
    assert packed(copy_of(fleet)) == packed(fleet)
    assert derived(copy_of(fleet)) == derived(fleet)


def test_an_entry_sets_the_time_of_the_last_fact() -> None:
    """The time that the rules are given never falls below it."""
    fleet = Fleet()
    assert fleet.last_at == EPOCH
    fleet.enter(Entry(1, NOON, "c", ANN, ()))

    assert fleet.last_at == NOON


def test_notes_on_what_has_ended_or_left_change_nothing() -> None:
    """A fetch or a mark may be recorded after its event or group is gone."""
    fleet = FleetHarness(FLEET).fleet
    before = packed(fleet)
    fleet.evolve(Fetched((Fetch("gone", "web-0", NOON),)))
    fleet.evolve(Asked((Mark("gone", NOON, "web-0"),)))

    assert packed(fleet) == before


def test_a_vm_stands_on_one_host_at_a_time() -> None:
    """A move takes it from the one and puts it on the other."""
    fleet = FleetHarness(FLEET).fleet
    fleet.evolve(VmMoved("web-0", "h2"))

    assert fleet.vms_on("h1") == ("web-1",)
    assert fleet.vms_on("h2") == ("web-2", "web-0")


def test_a_new_group_goes_on_from_the_highest_incarnation_that_left() -> None:
    """No incarnation of a name ever shows two things, even if another group bore the name."""
    harness = FleetHarness(FLEET, "ann restarts db-0", "the driver is done with E1", "ann declares: no vm db-0")
    harness.say("ann declares: group db availability-set; group new availability-set")

    assert harness.fleet.groups["db"].incarnation == 4
    assert harness.fleet.groups["new"].incarnation == 4


def test_a_group_that_never_showed_anything_raises_nobody() -> None:
    """Fleets that only come and go keep their first incarnation."""
    harness = FleetHarness(FLEET, "ann declares: no vm db-0", "ann declares: group db standalone; vm db-0 in db")

    assert harness.fleet.groups["db"].incarnation == 1


def test_every_declaration_is_a_change_of_its_own() -> None:
    """Who computed a difference before it is told to look again, also after a change of terms."""
    harness = FleetHarness(FLEET)
    assert harness.fleet.changes == 1
    harness.say("ann sets web approval=all")

    assert harness.fleet.changes == 2


def test_a_crash_is_remembered_by_a_restored_fleet() -> None:
    """Else the machine that the driver finds dead again after a restart would be taken for another crash."""
    harness = FleetHarness("ann declares: host h1; group db availability-set; vm db-0 in db on h1")
    harness.say("the driver sees db-0 crashed")

    assert list(copy_of(harness.fleet).crashed) == ["db-0"]


def test_a_restored_fleet_has_every_attribute() -> None:
    """A snapshot that left one out would lose it with the entries before it."""
    harness = FleetHarness(
        "ann applies: host h1; host h2; host h3; group web availability-set; group pool scale-set; "
        "vm web-0 in web on h1; vm web-1 in web on h1; vm pool-0 in pool on h2 spot",
        "web-0 asks",
        "ann evicts pool-0",
        "ann approves E1",
        "the driver is done with E1",
        "ann freezes web-0",
        "ann restarts web-0",
        "the service starts with: host h1; host h2; host h3; group web availability-set; group pool scale-set; "
        "vm web-0 in web on h1 ud=1; vm web-1 in web on h1; vm pool-0 in pool on h2 spot",
        "ann cordons host h3",
        "ann fails host h2",
        "ann deallocates web-1 by driver",
        "the driver sees web-0 crashed",
        "ann declares: no group pool; no vm pool-0",
    )
    fleet = harness.fleet
    fleet.evolve(ClockStepped(NOON, NOON - timedelta(hours=1)))
    fleet.evolve(TokenCreated(Token("t1", "ada", Role.OPERATOR, "hash", NOON)))
    fleet.evolve(SubscriptionSet(Subscription("s1", "chat", SubscriptionKind.WEBHOOK, "https://example.org/hook")))
    fleet.enter(Entry(1, NOON, "c", ANN, ()))

    assert [name for name, value in vars(Fleet()).items() if getattr(fleet, name) == value] == []
    assert _attributes(copy_of(fleet)) == _attributes(fleet)


def _attributes(fleet: Fleet) -> dict[str, object]:
    return {name: vars(value) if hasattr(value, "__dict__") else value for name, value in vars(fleet).items()}


def test_an_event_that_is_brought_forward_is_a_visible_change() -> None:
    """VMs that compare incarnations see the nearer NotBefore."""
    harness = FleetHarness(FLEET, "ann degrades host h2 not before Sun 12:00:00")
    before = harness.fleet.groups["web"].incarnation
    harness.say("ann degrades host h2 not before Wed 12:00:00")

    assert harness.fleet.groups["web"].incarnation == before + 1


def test_a_user_operation_counts_once_until_it_starts() -> None:
    """Whatever is said of it before."""
    harness = FleetHarness(
        "ann declares: group web availability-set approval=quorum quorum=2; vm web-0 in web; vm web-1 in web",
        "web-0 asks",
        "ann restarts web-0",
        "web-0 approves E1",
    )
    assert harness.fleet.user_operations == 1
    harness.say("web-1 approves E1")

    assert harness.fleet.user_operations == 0


def test_evictions_are_forgotten_one_by_one() -> None:
    """Each a day after it happened."""
    harness = FleetHarness(FLEET, "ann freezes web-1")
    for hours in (0, 1):
        harness.fleet.evolve(VmDeallocated("web-0", "evicted", NOON + timedelta(hours=hours)))
    harness.fleet.evolve(Canceled(harness.id("E1"), NOON + timedelta(hours=24), "canceled"))

    assert [each.at for each in harness.fleet.evictions] == [NOON + timedelta(hours=1)]
