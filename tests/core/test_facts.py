"""Facts as the journal keeps them: what was written once is read for ever."""

from typing import get_args

import msgspec
import pytest

from forewarn.core.facts import (
    AccessFact,
    AnyFact,
    ClockStepped,
    DeclarationFact,
    EnrolmentFact,
    Entry,
    EventChanged,
    EventCreated,
    Fetched,
    ObservationRecorded,
    RecordChanged,
    RecordSetChanged,
    Started,
)
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


def test_a_fact_that_nobody_knows_is_refused() -> None:
    """A reader never skips what it does not understand."""
    written = b'{"revision":1,"at":"2024-01-01T12:00:00Z","command":"c","by":{"kind":"node"},"facts":[{"fact":"x"}]}'

    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(written, type=Entry)


def test_the_named_unions_divide_the_kinds_of_fact() -> None:
    """Each kind is in one of them, so that a reader that matches them all handles every kind once."""
    unions = (
        EventCreated, EventChanged, RecordSetChanged, RecordChanged, DeclarationFact, EnrolmentFact, AccessFact,
    )  # fmt: skip
    kinds = [kind for union in unions for kind in get_args(union)] + [Fetched, ObservationRecorded, ClockStepped]

    assert len(kinds) == len(set(kinds))
    assert set(kinds) == set(get_args(AnyFact))
