"""The records of a fleet: whole, in pieces and copied."""

from datetime import timedelta

import msgspec
import pytest

from forewarn.core.chunks import FleetChunk
from forewarn.core.facts import (
    ClockStepped,
    Entry,
    FleetChanged,
    SubscriptionSet,
    TokenCreated,
)
from forewarn.core.fleet import Fleet
from forewarn.core.model import (
    GroupKind,
    GroupTerms,
    Host,
    Role,
    Subscription,
    SubscriptionKind,
    Token,
)
from tests.core.harness import ANN, NOON, FleetHarness
from tests.core.invariant_checker import copy_of, derived, packed

FLEET = (
    "ann declares: host h1; host h2; group web availability-set; group db standalone; "
    "vm web-0 in web on h1 address=10.0.0.1; vm web-1 in web on h1 ud=1; vm web-2 in web on h2; vm db-0 in db"
)


def test_a_fleet_in_many_pieces_is_the_same_fleet() -> None:
    """However small the pieces of a snapshot are, nothing is lost between them."""
    fleet = FleetHarness(FLEET, "web-0 asks", "ann freezes host h1", "ann restarts web-0").fleet

    pieces = list(fleet.parts(chunk_size=1))
    again = Fleet.restore(msgspec.msgpack.decode(msgspec.msgpack.encode(pieces), type=list[FleetChunk]))

    assert len(pieces) > 8
    assert packed(again) == packed(fleet)
    assert derived(again) == derived(fleet)


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
        "ann rolls out kernel: reboot hosts=h1",
        "rollout kernel goes on",
    )
    fleet = harness.fleet
    fleet.evolve(ClockStepped(NOON, NOON - timedelta(hours=1)))
    fleet.evolve(TokenCreated(Token("t1", "ada", Role.OPERATOR, "hash", NOON)))
    fleet.evolve(SubscriptionSet(Subscription("s1", "chat", SubscriptionKind.WEBHOOK, "https://example.org/hook")))
    fleet.enter(Entry(1, NOON, "c", ANN, ()))

    assert [name for name, value in vars(Fleet()).items() if getattr(fleet, name) == value] == []
    assert _attributes(copy_of(fleet)) == _attributes(fleet)


def test_a_copy_stays_as_it_is_while_the_fleet_changes() -> None:
    """Whatever changes: events, members, declaration, addresses, evictions."""
    harness = FleetHarness(
        "ann applies: host h1; host h2; host h3; group web availability-set; "
        "vm web-0 in web on h1 at 10.0.0.1; vm web-1 in web; vm web-3 in web on h2; vm web-4 in web spot",
        "ann freezes web-3",
        "ann evicts web-4",
    )
    copied, before = harness.fleet.copy(), copy_of(harness.fleet)
    assert _attributes(copied) == _attributes(before)

    harness.say("ann restarts web-3")
    harness.say("ann cordons host h3")
    harness.say("the time comes", "12:01:00")
    harness.say("the driver is done with E2", "12:02:00")
    harness.say("ann declares: vm web-0 in web on h2 at 10.0.0.2; vm web-2 in web at 10.0.0.3; no vm web-1")

    assert _attributes(copied) == _attributes(before)
    assert _attributes(copied) != _attributes(harness.fleet)


def _attributes(fleet: Fleet) -> dict[str, object]:
    return {name: vars(value) if hasattr(value, "__dict__") else value for name, value in vars(fleet).items()}


@pytest.mark.parametrize(
    ("change", "is_empty"),
    [
        (FleetChanged(), True),
        (FleetChanged(hosts=(Host("h1"),)), False),
        (FleetChanged(groups=(GroupTerms("web", GroupKind.SCALE_SET),)), False),
    ],
)
def test_a_fleet_with_a_host_or_a_group_is_not_empty(change: FleetChanged, *, is_empty: bool) -> None:
    """A VM has a group."""
    fleet = Fleet()
    fleet.evolve(change)

    assert fleet.is_empty is is_empty


def test_what_only_the_declaration_has_is_in_the_pieces_too() -> None:
    """Hosts, groups and VMs, and the names that it does not have."""
    harness = FleetHarness(
        "ann applies: host h1; host h2; group web availability-set; group db availability-set; vm a in web; "
        "vm b in web",
        "ann declares: no host h2; no group db; no vm b; host h3; group new availability-set; vm c in new",
    )

    undeclared = {each for part in harness.fleet.last_applied.parts() for each in part.undeclared}
    assert {each.name for each in undeclared} == {"h3", "new", "c"}
    assert copy_of(harness.fleet).last_applied.differing == harness.fleet.last_applied.differing
    assert packed(copy_of(harness.fleet)) == packed(harness.fleet)
