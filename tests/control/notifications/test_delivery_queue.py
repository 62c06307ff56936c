"""Which messages may be tried, and when."""

from datetime import timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.control.notifications.delivery_queue import (
    GIVEN_UP_AFTER,
    DeliveryQueue,
    PendingNotification,
    retry_delay,
)
from forewarn.control.notifications.notification import gap_notification
from tests.control.notifications.samples import AT, message

SECOND = timedelta(seconds=1)


def filled(*lanes: str) -> DeliveryQueue:
    delivery_queue = DeliveryQueue()
    delivery_queue.add(message(revision, lane=lane) for revision, lane in enumerate(lanes, start=1))
    return delivery_queue


def revisions(pending: list[PendingNotification]) -> list[int]:
    return [each.message.revision for each in pending]


def test_of_each_event_only_the_oldest_may_be_tried() -> None:
    """So that what happened to an event is told in order."""
    delivery_queue = filled("a", "b", "a", "c", "b")

    assert revisions(delivery_queue.ready(AT)) == [1, 2, 4]
    delivery_queue.remove(delivery_queue.ready(AT)[0])
    assert revisions(delivery_queue.ready(AT)) == [2, 3, 4]


def test_that_something_is_missing_is_told_before_what_comes_after() -> None:
    """And after what came before; but a receiver that does not take it is told the rest all the same."""
    delivery_queue = filled("a")
    delivery_queue.add([gap_notification(2, 3, AT), message(4, lane="b")])
    before = delivery_queue.ready(AT)
    assert revisions(before) == [1]

    delivery_queue.remove(before[0])
    (gap,) = delivery_queue.ready(AT)
    assert gap.message.revision == 3

    gap.fail(1, AT, Random(1))
    assert revisions(delivery_queue.ready(AT)) == [4, 3]


def test_everything_before_the_oldest_pending_was_told() -> None:
    """Whatever was told beyond it; when nothing is pending, all that was read."""
    delivery_queue = filled("a", "b")
    first, second = delivery_queue.ready(AT)
    delivery_queue.remove(second)
    assert delivery_queue.delivered(9) == 0

    delivery_queue.remove(first)
    assert delivery_queue.delivered(9) == 9


def test_the_least_tried_is_tried_first_until_something_gets_through() -> None:
    """One bad message does not stand for a receiver that is down."""
    delivery_queue = filled("a", "b")
    delivery_queue.ready(AT)[0].fail(0, AT, Random(1))
    assert revisions(delivery_queue.ready(AT)) == [2, 1]

    delivery_queue.reset_tries()
    assert revisions(delivery_queue.ready(AT)) == [1, 2]


def test_what_fails_while_others_pass_waits_by_itself() -> None:
    """Its event with it; the others do not."""
    delivery_queue = filled("a", "a", "b")
    bad = delivery_queue.ready(AT)[0]
    bad.fail(0, AT, Random(1))
    assert (delivery_queue.refused, bad.not_before) == (0, None)

    bad.fail(1, AT, Random(1))
    assert (delivery_queue.refused, bad.refusals) == (1, 1)
    assert revisions(delivery_queue.ready(AT)) == [3]
    assert revisions(delivery_queue.ready(AT + SECOND)) == [3, 1]
    assert delivery_queue.next_at() == bad.not_before


def test_a_notice_is_given_up_only_after_a_day_in_which_others_passed() -> None:
    """A receiver that is down refuses nothing, however long it is."""
    bad = PendingNotification(message())
    bad.fail(0, AT, Random(1))
    bad.fail(1, AT, Random(1))
    bad.fail(1, AT + GIVEN_UP_AFTER, Random(1))
    assert not bad.is_hopeless

    bad.fail(2, AT + GIVEN_UP_AFTER, Random(1))
    assert bad.is_hopeless


@given(st.integers(1, 10_000), st.integers())
def test_waits_grow_to_five_minutes_and_differ(failures: int, seed: int) -> None:
    """Half of each is chance, so that many do not come back at once."""
    longest = min(2.0 ** min(failures - 1, 99), 300.0)

    assert longest / 2 <= retry_delay(failures, Random(seed)).total_seconds() <= longest


@pytest.mark.parametrize("count", [1, 2])
def test_a_notice_is_in_the_window_once(count: int) -> None:
    """However often it is read."""
    delivery_queue = filled("a")
    delivery_queue.add([message(1, lane="a")] * count)

    assert len(delivery_queue) == 1


def test_a_full_queue_has_no_room() -> None:
    """What comes then is read from the journal later."""
    delivery_queue = DeliveryQueue(size=2)
    delivery_queue.add([message(1, lane="a")])
    assert delivery_queue.has_room

    delivery_queue.add([message(2, lane="b")])
    assert not delivery_queue.has_room
