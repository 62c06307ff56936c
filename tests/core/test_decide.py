"""The one entry to the rules: every command is decided, and nothing else."""

import pytest

from forewarn.core.commands import CheckDeadlines, Command
from forewarn.core.decide import attempt_started, decide, enact
from forewarn.core.errors import Refused
from forewarn.core.facts import Attempted
from forewarn.core.fleet import Fleet
from forewarn.core.model import NODE
from forewarn.core.notice import Rules
from tests.core.harness import ANN, NOON, FleetHarness
from tests.core.invariant_checker import packed


class Unheard(Command, frozen=True, kw_only=True, tag="unheard"):
    """A command that no rule knows."""


def test_a_command_that_no_rule_decides_is_a_mistake_of_ours() -> None:
    """It is not refused like a wish; it is a fault in the program."""
    with pytest.raises(TypeError, match="Unheard"):
        enact(Fleet(), Unheard(id="c", by=ANN), NOON, Rules())


def test_to_decide_is_to_look_only() -> None:
    """The fleet is the same before and after."""
    harness = FleetHarness("ann declares: group web availability-set; vm web-0 in web", "ann freezes web-0")
    before = packed(harness.fleet)
    command = CheckDeadlines(id="w", by=NODE, events=(harness.id("E1"),))
    list(decide(harness.fleet, command, NOON, Rules(), lambda _: True))

    assert packed(harness.fleet) == before


def test_waking_what_is_gone_or_early_does_nothing() -> None:
    """A deadline may come late, twice, or for an event that has ended."""
    harness = FleetHarness("ann declares: group web availability-set; vm web-0 in web", "ann freezes web-0")

    assert harness.give(CheckDeadlines(id="w", by=NODE, events=(harness.id("E1"), "gone"))) == ()


def test_an_unknown_event_is_named() -> None:
    """Who takes back what is not there is told so."""
    with pytest.raises(Refused, match="there is no unfinished event 'E1'"):
        FleetHarness().say("ann cancels E1")


@pytest.mark.parametrize("sentence", ["ann restarts web-0", "web-0 approves E1"], ids=["at once", "approved"])
def test_what_starts_is_attempted_with_it(sentence: str) -> None:
    """The driver can then be called without another commit."""
    harness = FleetHarness("ann declares: group web availability-set; vm web-0 in web; vm web-1 in web")
    if "E1" in sentence:
        harness.say("ann freezes web-0")
    attempts = attempt_started(harness.fleet, harness.say(sentence), NOON, 3, "n1")

    (event,) = harness.fleet.events.values()
    assert attempts == (Attempted(event.id, NOON, 3, "n1", group="web"),)
    assert event.attempts == 1
