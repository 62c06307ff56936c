"""What becomes of events is counted from the facts, and goes on after a restart where it stood."""

from datetime import timedelta

import pytest

from forewarn.control.tally import Tally
from forewarn.core.commands import CancelEvent, RecordFetched, Wake
from forewarn.core.facts import Fetch
from forewarn.core.model import NODE, EventStatus, EventType
from forewarn.node.feed import Commit
from tests.control.past import ADA, Past


@pytest.fixture
def past() -> Past:
    return Past()


def counted(past: Past) -> Tally:
    """Return what a tally makes of all that happened."""
    tally = Tally()
    tally.publish(Commit(tuple(past.journal.entries()), past.fleet))
    return tally


def test_events_are_counted_by_type_and_status(past: Past) -> None:
    """Those that are unfinished now, those that ended, and what let them start."""
    approved = past.freeze("web-0")
    past.approve(approved, "web-1")
    past.finish(approved)
    past.do(CancelEvent(id=past.id(), by=ADA, event=past.freeze("web-1")))
    past.do(Wake(id=past.id(), by=NODE, events=(past.freeze("db-0"),)))
    past.restart("web-0")

    tally = counted(past)

    assert +tally.unfinished == {
        (EventType.FREEZE, EventStatus.STARTED): 1,
        (EventType.REBOOT, EventStatus.STARTED): 1,
    }
    assert tally.announced == {EventType.FREEZE: 3, EventType.REBOOT: 1}
    assert tally.ended == {
        (EventType.FREEZE, EventStatus.COMPLETED): 1,
        (EventType.FREEZE, EventStatus.CANCELED): 1,
    }
    assert tally.started == {"approved": 1, "not_before": 1, "at_once": 1}


def test_the_first_approval_and_the_first_fetch_are_timed(past: Past) -> None:
    """From the announcement; later ones are counted, not timed."""
    event = past.freeze("web-0")
    announced_at = past.fleet.events[event].announced_at
    fetches = tuple(Fetch(event, vm, announced_at + timedelta(seconds=7)) for vm in ("web-0", "web-1"))
    past.do(RecordFetched(id=past.id(), by=NODE, fetches=fetches))
    past.approve(event, "web-0")

    tally = counted(past)

    assert (tally.until_fetched.total, tally.approvals[True]) == (7.0, 1)
    assert tally.until_approved.total == timedelta(hours=2).total_seconds()
    assert [count for _, count in tally.until_fetched.up_to()][-1] == 1


def test_after_a_restart_it_counts_on_from_the_fleet(past: Past) -> None:
    """What is unfinished then is known, and what ends later is told by its type."""
    event = past.freeze("web-0")
    past.approve(event, "web-1")
    tally = Tally()
    tally.load(past.fleet)
    assert +tally.unfinished == {(EventType.FREEZE, EventStatus.STARTED): 1}

    before = past.revision
    past.finish(event)
    tally.publish(Commit(tuple(past.journal.entries(before)), past.fleet))

    assert not +tally.unfinished
    assert tally.ended == {(EventType.FREEZE, EventStatus.COMPLETED): 1}
