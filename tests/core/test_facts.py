"""Facts as the journal keeps them: what was written once is read for ever."""

from typing import get_args

import msgspec
import pytest

from forewarn.core.facts import AnyFact, Entry, Started
from tests.core.asking import ANN, NOON

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
