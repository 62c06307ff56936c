"""Facts as the journal keeps them: what was written once is read for ever."""

from typing import get_args

import msgspec
import pytest

from forewarn.core.fact import FORMAT
from forewarn.core.facts import (
    AccessFact,
    AnyFact,
    Attempted,
    Canceled,
    ClockStepped,
    DeclarationFact,
    EnrolmentFact,
    Entry,
    EventChanged,
    EventCreated,
    Fetched,
    FleetChanged,
    FleetDeclared,
    ObservationRecorded,
    RecordChanged,
    RecordSetChanged,
    Selected,
    Started,
)
from forewarn.core.model import CANCELED_BY, GroupKind, GroupTerms, Host, StartCause, Vm
from forewarn.core.rollouts.facts import RolloutFact
from tests.core.harness import ANN, NOON

RELEASED = {
    "fleet-changed", "group-set", "enrolled", "switched-off", "asked", "fetched", "announced", "started-at-once",
    "approved", "waiting", "started", "attempted", "completed", "failed", "canceled", "vm-removed", "vm-deallocated",
    "vm-started", "vm-moved",
}  # fmt: skip


def test_no_name_of_a_fact_is_given_up() -> None:
    """A journal of the first release holds these words."""
    tags = {str(fact.__struct_config__.tag) for fact in get_args(AnyFact)}

    assert tags >= RELEASED
    assert len(tags) == len(get_args(AnyFact))


def test_a_fact_from_the_first_release_is_read() -> None:
    """The very bytes, so that no field is renamed in passing."""
    written = (
        b'{"revision":7,"at":"2024-01-01T12:00:00Z","command":"c","by":{"kind":"operator","name":"ann"},'
        b'"facts":[{"fact":"started","event":"e","at":"2024-01-01T12:00:00Z","because":"due"}]}'
    )
    entry = Entry(7, NOON, "c", ANN, (Started("e", NOON, "due"),))

    assert msgspec.json.decode(written, type=Entry) == entry
    assert msgspec.json.encode(entry) == written


def test_an_attempt_without_a_term_is_stored_as_ever() -> None:
    """One node alone writes the bytes of earlier releases; with a term, both fields are there."""
    alone = b'{"fact":"attempted","event":"e","at":"2024-01-01T12:00:00Z","group":"web"}'
    in_term = b'{"fact":"attempted","event":"e","at":"2024-01-01T12:00:00Z","term":3,"node":"n1","group":"web"}'

    assert msgspec.json.encode(Attempted("e", NOON, group="web")) == alone
    assert msgspec.json.decode(in_term, type=Attempted) == Attempted("e", NOON, 3, "n1", group="web")
    assert msgspec.json.encode(Attempted("e", NOON, 3, "n1", group="web")) == in_term


def test_a_fact_that_nobody_knows_is_refused() -> None:
    """A reader never skips what it does not understand."""
    written = b'{"revision":1,"at":"2024-01-01T12:00:00Z","command":"c","by":{"kind":"node"},"facts":[{"fact":"x"}]}'

    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(written, type=Entry)


def test_the_named_unions_divide_the_kinds_of_fact() -> None:
    """Each kind is in one of them, so that a reader that matches them all handles every kind once."""
    unions = (
        EventCreated, EventChanged, RecordSetChanged, RecordChanged, DeclarationFact, EnrolmentFact, AccessFact,
        RolloutFact,
    )  # fmt: skip
    kinds = [kind for union in unions for kind in get_args(union)] + [
        Fetched,
        ObservationRecorded,
        ClockStepped,
        Selected,
    ]

    assert len(kinds) == len(set(kinds))
    assert set(kinds) == set(get_args(AnyFact))


def test_a_change_and_a_declaration_count_what_they_hold() -> None:
    """By kind, and by whether it came or went."""
    held = {
        "hosts": (Host("a"),),
        "groups": (GroupTerms("a", GroupKind.SCALE_SET),) * 2,
        "vms": (Vm("a", "a"),) * 3,
        "removed_hosts": ("b",) * 4,
        "removed_groups": ("b",) * 5,
        "removed_vms": ("b",) * 6,
    }
    counts = dict(zip(held, range(1, 7), strict=True))

    assert FleetChanged(**held).counts() == counts  # type: ignore[arg-type]
    assert FleetDeclared(revision=1, digest="", source="", **held).counts() == counts  # type: ignore[arg-type]


def test_the_format_of_the_journal_is_the_first() -> None:
    """Whoever changes it makes old journals unreadable by new services, or new ones by old."""
    assert FORMAT == 1


def test_a_start_tells_its_cause() -> None:
    """As a word of its own."""
    assert Started("e", NOON, StartCause.DUE.value).cause is StartCause.DUE


def test_a_cancellation_says_whether_a_caller_asked_for_it() -> None:
    """The other reasons are those of the service itself."""
    assert Canceled("e", NOON, f"{CANCELED_BY} ann").is_by_caller
    assert not Canceled("e", NOON, "the VM was removed").is_by_caller
