"""What becomes of events is counted from the facts, and goes on after a restart where it stood."""

from datetime import timedelta

import pytest

from forewarn.control.server.event_counters import EventCounters
from forewarn.core.commands import CancelEvent, CheckDeadlines, RecordFetched
from forewarn.core.facts import Announced, Approved, Entry, Fetch, Started
from forewarn.core.model import NODE, EventStatus, EventType, StartCause
from forewarn.node.feed import Commit
from tests.control.history_harness import ADA, HistoryHarness


@pytest.fixture
def history_harness() -> HistoryHarness:
    return HistoryHarness()


def counted(history_harness: HistoryHarness) -> EventCounters:
    """Return what a tally makes of all that happened."""
    event_counters = EventCounters()
    event_counters.publish(Commit(tuple(history_harness.journal.entries()), history_harness.fleet))
    return event_counters


def test_events_are_counted_by_type_and_status(history_harness: HistoryHarness) -> None:
    """Those that are unfinished now, those that ended, and what let them start."""
    approved = history_harness.freeze("web-0")
    history_harness.approve(approved, "web-1")
    history_harness.finish(approved)
    history_harness.do(CancelEvent(id=history_harness.id(), by=ADA, event=history_harness.freeze("web-1")))
    history_harness.do(CheckDeadlines(id=history_harness.id(), by=NODE, events=(history_harness.freeze("db-0"),)))
    history_harness.restart("web-0")

    event_counters = counted(history_harness)

    assert +event_counters.unfinished == {
        (EventType.FREEZE, EventStatus.STARTED): 1,
        (EventType.REBOOT, EventStatus.STARTED): 1,
    }
    assert event_counters.announced == {EventType.FREEZE: 3, EventType.REBOOT: 1}
    assert event_counters.ended == {
        (EventType.FREEZE, EventStatus.COMPLETED): 1,
        (EventType.FREEZE, EventStatus.CANCELED): 1,
    }
    assert event_counters.started == {"approved": 1, "not_before": 1, "at_once": 1}


def test_the_recorded_cause_counts_not_the_approvals(history_harness: HistoryHarness) -> None:
    """An event may have approvals that were too few, and start for another reason."""
    event = history_harness.fleet.events[history_harness.freeze("web-0")]
    event_counters = EventCounters()
    facts = (
        Announced(event),
        Approved(event.id, event.announced_at, ADA),
        Started(event.id, event.announced_at, StartCause.ALL_DOWN),
    )
    event_counters.publish(Commit((Entry(1, event.announced_at, "c", NODE, facts),), history_harness.fleet))

    assert event_counters.started == {"other": 1}


def test_the_first_approval_and_the_first_fetch_are_timed(history_harness: HistoryHarness) -> None:
    """From the announcement; later ones are counted, not timed."""
    event = history_harness.freeze("web-0")
    announced_at = history_harness.fleet.events[event].announced_at
    fetches = tuple(Fetch(event, vm, announced_at + timedelta(seconds=7)) for vm in ("web-0", "web-1"))
    history_harness.do(RecordFetched(id=history_harness.id(), by=NODE, fetches=fetches))
    history_harness.approve(event, "web-0")

    event_counters = counted(history_harness)

    assert (event_counters.until_fetched.total, event_counters.approvals[True]) == (7.0, 1)
    assert event_counters.until_approved.total == timedelta(hours=2).total_seconds()
    assert [count for _, count in event_counters.until_fetched.up_to()][-1] == 1


def test_after_a_restart_it_counts_on_from_the_fleet(history_harness: HistoryHarness) -> None:
    """What is unfinished then is known, and what ends later is told by its type."""
    event = history_harness.freeze("web-0")
    history_harness.approve(event, "web-1")
    event_counters = EventCounters()
    event_counters.load(history_harness.fleet)
    assert +event_counters.unfinished == {(EventType.FREEZE, EventStatus.STARTED): 1}

    before = history_harness.revision
    history_harness.finish(event)
    event_counters.publish(Commit(tuple(history_harness.journal.entries(before)), history_harness.fleet))

    assert not +event_counters.unfinished
    assert event_counters.ended == {(EventType.FREEZE, EventStatus.COMPLETED): 1}
