"""One event's life: what each fact makes of it, and which steps are refused."""

import pytest

from forewarn.core import lifecycle
from forewarn.core.errors import Refused
from forewarn.core.facts import Attempted, Canceled, Completed, Failed, Started
from forewarn.core.model import Event, EventSource, EventStatus, EventType
from tests.core.harness import NOON

SCHEDULED = Event(
    id="e",
    type=EventType.REBOOT,
    source=EventSource.USER,
    group="web",
    resources=("web-0",),
    status=EventStatus.SCHEDULED,
    not_before=NOON,
    announced_at=NOON,
    operation="vm restart",
)


def started() -> Event:
    event = lifecycle.after(SCHEDULED, Started("e", NOON, "due"))
    assert event is not None
    return event


def test_a_start_ends_the_waiting() -> None:
    """A Started event waits for nobody."""
    waiting = lifecycle.after(SCHEDULED, lifecycle.wait(SCHEDULED, NOON, behind=SCHEDULED))
    assert waiting is not None
    event = lifecycle.after(waiting, Started("e", NOON, "due"))

    assert event is not None
    assert (event.status, event.started_at, event.waits_for) == (EventStatus.STARTED, NOON, "")


def test_every_attempt_is_counted() -> None:
    """After a crash the record tells whether the driver may have been called."""
    event = lifecycle.after(started(), Attempted("e", NOON))
    assert event is not None
    again = lifecycle.after(event, Attempted("e", NOON))

    assert again is not None
    assert again.attempts == 2


@pytest.mark.parametrize("end", [Completed("e", NOON), Failed("e", NOON, "why"), Canceled("e", NOON, "why")])
def test_what_has_ended_leaves_the_fleet(end: Completed | Failed | Canceled) -> None:
    """The three ends of an event are read in the journal."""
    assert lifecycle.after(started(), end) is None


def test_only_what_has_started_is_attempted() -> None:
    """No driver is called for a Scheduled event."""
    with pytest.raises(Refused, match="has not started"):
        lifecycle.attempt(SCHEDULED, NOON)


def test_only_what_is_scheduled_is_canceled() -> None:
    """What has started runs to its end."""
    with pytest.raises(Refused, match="can no longer be canceled"):
        lifecycle.cancel(started(), NOON, "why")
