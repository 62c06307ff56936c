"""A scenario is over when its steps are done, its events have ended and its expectations are decided."""

import pytest

from forewarn.emulator import Emulator
from forewarn.emulator.expectations import ExpectationState
from forewarn.emulator.scenario import Scenario, parse
from tests.emulator.callers import approve


def scenario(*, until: str = "0s", that: str = "approved") -> Scenario:
    return parse(
        f"""
title = "A restart"
until = "{until}"

[[vm]]
name = "web-0"

[[step]]
at = "1m"
do = "reboot"
vm = "web-0"
name = "restart"

[[expect]]
event = "restart"
that = "{that}"
""",
        "restart.toml",
        "restart",
    )


def test_it_is_over_when_all_of_it_is() -> None:
    """Not before its step, nor while its event waits or runs."""
    with Emulator(scenario=scenario()) as emulator:
        seen = [emulator.is_over]
        emulator.advance("1m")
        seen.append(emulator.is_over)
        (event,) = emulator.events
        approve(emulator.url, event.id)
        seen.append(emulator.is_over)
        emulator.advance("1h")

        assert seen == [False, False, False]
        assert emulator.is_over
        assert [verdict.outcome for verdict in emulator.verdicts] == [ExpectationState.MET]


def test_it_lasts_as_long_as_it_says() -> None:
    """Something may be expected not to happen until then."""
    with Emulator(scenario=scenario(until="3h")) as emulator:
        emulator.advance("2h59m")
        before = emulator.is_over
        emulator.advance("1m")

        assert not before
        assert emulator.is_over


@pytest.mark.parametrize(("that", "outcome"), [("completed", "met"), ("canceled", "missed")])
def test_every_expectation_has_a_verdict(that: str, outcome: str) -> None:
    """Beside the steps that went wrong."""
    with Emulator(scenario=scenario(that=that)) as emulator:
        emulator.advance("1h")

        assert [verdict.outcome for verdict in emulator.verdicts] == [ExpectationState(outcome)]
