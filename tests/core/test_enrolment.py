"""Who was seen asking, and when a group is switched off."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

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


def test_a_group_that_was_never_asked_for_by_record_gets_its_first_mark() -> None:
    """A journal of an earlier release may hold no time; the mark alone counts then."""
    harness = FleetHarness(FLEET, "web-0 asks")
    harness.fleet.groups["web"] = replace(harness.fleet.groups["web"], asked_at=None)
    mark, later = Mark("web", NOON, "web-0"), NOON + 24 * HOURS

    assert harness.give(SwitchOff(id="s", by=NODE, marks=(Mark("web", later, "web-0"),)), later) == ()
    assert harness.give(RecordAsked(id="r", by=NODE, marks=(mark,))) == (Asked((mark,)),)


def test_a_fetch_of_an_event_that_has_ended_is_noted() -> None:
    """Its story tells who saw it all the same."""
    fetch = Fetch("gone", "web-0", NOON)

    assert FleetHarness(FLEET).give(RecordFetched(id="f", by=NODE, fetches=(fetch,))) == (Fetched((fetch,)),)


def test_who_asked_last_is_kept() -> None:
    """By name."""
    harness = FleetHarness(FLEET, "web-0 asks")
    assert harness.fleet.groups["web"].asked_by == "web-0"

    harness.fleet.evolve(Asked((Mark("web", NOON, "web-9"),)))
    assert harness.fleet.groups["web"].asked_by == "web-9"
