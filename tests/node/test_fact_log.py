"""The log of a node."""

import logging
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from forewarn.core.declared_keys import HeldChange, HoldReason, RecordKind, RecordName
from forewarn.core.facts import Announced, AnyFact, Asked, ChangesHeld, Entry, Fetch, Fetched, Mark
from forewarn.core.fleet import Fleet
from forewarn.core.model import NODE
from forewarn.node.fact_log import FactLog
from forewarn.node.feed import Commit
from tests.core.harness import FleetHarness

EVENT = str(uuid4())


def _fields(fact: AnyFact, caplog: pytest.LogCaptureFixture) -> dict[str, object]:
    entry = Entry(7, datetime(2026, 1, 1, tzinfo=UTC), "", NODE, (fact,))
    with caplog.at_level(logging.INFO, "forewarn.facts"):
        FactLog().publish(Commit((entry,), Fleet()))
    fields: dict[str, object] = vars(caplog.records[-1])["fields"]
    return fields


def test_what_was_loaded_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    """Once for each start."""
    fleet = FleetHarness("ann declares: host h1; group web availability-set; vm web-0 in web on h1").fleet
    with caplog.at_level(logging.INFO, "forewarn.facts"):
        FactLog().load(fleet)

    (record,) = caplog.records
    assert vars(record)["fields"] == {"vms": 1, "groups": 1, "hosts": 1, "unfinished_events": 0}


def test_held_changes_are_told_in_words(caplog: pytest.LogCaptureFixture) -> None:
    """With the id of the event as VMs read it, and the names of what is held no more."""
    held = HeldChange(RecordKind.VM, "web-0", HoldReason.EVENT, because=EVENT, is_removal=True)

    assert _fields(ChangesHeld((held,), (RecordName(RecordKind.GROUP, "web"),)), caplog) == {
        "revision": 7,
        "held": [f"VM web-0: removal waits until event {EVENT.upper()} ends"],
        "ended": ["group web"],
    }


def test_a_line_names_some_of_many_held_changes(caplog: pytest.LogCaptureFixture) -> None:
    """And counts the rest: a wrong file may hold the removal of every VM."""
    held = tuple(HeldChange(RecordKind.VM, f"web-{n}", HoldReason.TOO_MANY, is_removal=True) for n in range(1000))

    fields = _fields(ChangesHeld(held), caplog)

    assert isinstance(fields["held"], list)
    assert len(fields["held"]) == 20
    assert fields["held_more"] == 980


def test_an_event_is_told_by_its_id_and_its_fields(caplog: pytest.LogCaptureFixture) -> None:
    """A line has no record in a record."""
    harness = FleetHarness("ann declares: group web availability-set; vm web-0 in web")
    (announced,) = harness.say("ann freezes web-0")
    assert isinstance(announced, Announced)

    fields = _fields(announced, caplog)

    assert fields["event"] == announced.event.id.upper()
    assert (fields["type"], fields["group"]) == ("Freeze", "web")


def test_a_line_names_some_of_many_requests(caplog: pytest.LogCaptureFixture) -> None:
    """And counts the rest: a million groups may have asked since the last record."""
    at = datetime(2026, 1, 1, tzinfo=UTC)

    asked = _fields(Asked(tuple(Mark(f"web-{n}", at, "web-0") for n in range(1000))), caplog)
    fetched = _fields(Fetched(tuple(Fetch(EVENT, f"web-{n}", at) for n in range(1000))), caplog)

    assert isinstance(asked["marks"], list)
    assert isinstance(fetched["fetches"], list)
    assert (len(asked["marks"]), asked["marks_more"]) == (20, 980)
    assert (len(fetched["fetches"]), fetched["fetches_more"]) == (20, 980)
    assert fetched["fetches"][0][:2] == [EVENT.upper(), "web-0"]
