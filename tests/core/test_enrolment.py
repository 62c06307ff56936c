"""Who was seen asking, and when a group is switched off."""

from datetime import timedelta

import pytest

from forewarn.core.commands import RecordAsked, RecordFetched, SwitchOff
from forewarn.core.facts import Asked, Fetch, Fetched, Mark, SwitchedOff
from forewarn.core.model import NODE
from tests.core.harness import NOON, FleetHarness

FLEET = "ann declares: group web availability-set; group off availability-set; vm web-0 in web; vm off-0 in off"
HOURS = timedelta(hours=1)


def test_marks_are_kept_of_groups_that_are_on() -> None:
    """Nothing is recorded for a group that is off or gone."""
    later = NOON + 7 * HOURS
    marks = (Mark("web", later, "web-0"), Mark("off", later, "off-0"), Mark("gone", later, "x"))

    facts = FleetHarness(FLEET, "web-0 asks").give(RecordAsked(id="r", by=NODE, marks=marks), later)

    assert facts == (Asked((marks[0],)),)


@pytest.mark.parametrize("hours", [0, 1])
def test_a_mark_that_is_not_newer_changes_nothing(hours: int) -> None:
    """What was recorded as the last request was not earlier, and is not recorded twice."""
    older = Mark("web", NOON - hours * HOURS, "web-0")

    assert (
        FleetHarness(FLEET, "web-0 asks").give(RecordAsked(id="r", by=NODE, marks=(older,)), NOON + 7 * HOURS) == ()
    )


def test_a_mark_from_the_future_is_replaced_and_keeps_nothing_on() -> None:
    """A clock that was ahead recorded it; the next mark counts, and so does a day without a question."""
    ahead, later = Mark("web", NOON + 87_600 * HOURS, "web-0"), NOON + 25 * HOURS
    harness = FleetHarness(FLEET, "web-0 asks")
    harness.fleet.evolve(Asked((ahead,)))

    assert harness.give(RecordAsked(id="r", by=NODE, marks=(mark := Mark("web", NOON, "web-0"),)), NOON + HOURS)
    harness.fleet.evolve(Asked((ahead,)))
    assert harness.give(SwitchOff(id="s", by=NODE, marks=(mark,)), later) == (SwitchedOff("web", later),)


def test_a_group_is_switched_off_once() -> None:
    """Two marks of one group in one sweep make one fact."""
    mark = Mark("web", NOON, "web-0")
    later = NOON + 24 * HOURS

    facts = FleetHarness(FLEET, "web-0 asks").give(SwitchOff(id="s", by=NODE, marks=(mark, mark)), later)

    assert facts == (SwitchedOff("web", later),)


def test_a_fetch_is_noted_once() -> None:
    """Neither a repetition in one batch nor a later one is news."""
    harness = FleetHarness(FLEET, "ann freezes web-0")
    fetch = Fetch(harness.id("E1"), "web-0", NOON)
    command = RecordFetched(id="f", by=NODE, fetches=(fetch, fetch))

    assert harness.give(command) == (Fetched((fetch,)),)
    assert harness.give(command) == ()
