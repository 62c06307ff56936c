"""When the waves of a rollout are expected to begin and end."""

from datetime import timedelta

from msgspec.structs import replace

from forewarn.core.notice import Rules
from forewarn.core.rollouts.model import RolloutOperation, RolloutTerms
from forewarn.core.rollouts.prediction import Experience, Forecaster, RolloutForecast, Spread
from tests.core.harness import NOON
from tests.core.rollouts.harness import WEB, RolloutHarness

TERMS = RolloutTerms(operation=RolloutOperation.REBOOT, all_hosts=True)
KNOWN = Experience({}, {"host reboot": Spread(20, 30, 60)})
NOTICE = 900


def forecast(
    *waves: tuple[str, ...],
    fleet: str = WEB,
    rules: Rules | None = None,
    known: Experience = KNOWN,
    **given: object,
) -> RolloutForecast:
    terms = replace(TERMS, **given)
    return Forecaster(RolloutHarness(fleet).fleet, terms, rules or Rules(), known).predict(waves, 0, NOON)


def seconds(found: RolloutForecast) -> float:
    return (found.waves[0].ends_at - NOON).total_seconds()


def test_a_spread_leaves_out_the_extremes() -> None:
    """Of ten durations, the second, the middle one and the ninth."""
    assert Spread.of([10, 9, 8, 7, 6, 5, 4, 3, 2, 1]) == Spread(2, 5, 9)


def test_a_wave_ends_with_the_slowest_of_its_groups() -> None:
    """It waits for that one alone for as long as the others have ended by then, with middling durations."""
    found = forecast(("h1",), known=replace(KNOWN, approvals={"web": Spread(30, 60, 120)}))
    assert seconds(found) == NOTICE + 30
    assert [(each.group, each.seconds) for each in found.slowest] == [("db", NOTICE - 60)]


def test_groups_that_are_equally_slow_are_named_in_the_order_of_their_names() -> None:
    """A wave with one group waits for that one from its beginning."""
    fleet = (
        "ann declares: host h1; host h2; group web availability-set; group db availability-set;"
        " vm a in web on h1; vm b in db on h2"
    )
    found = forecast(("h1",), ("h2",), fleet=fleet)
    assert [(each.group, each.seconds) for each in found.slowest] == [("db", NOTICE + 30), ("web", NOTICE + 30)]


def test_an_operation_of_which_nothing_is_known_is_taken_to_last_a_minute() -> None:
    """Its announcement states no duration."""
    assert seconds(forecast(("h3",), known=Experience())) == NOTICE + 60


def test_settling_is_hurried() -> None:
    """As it will be when the rollout runs."""
    rules = Rules().hurried(60)
    settling = seconds(forecast(("h3",), rules=rules, settle=3600)) - seconds(forecast(("h3",), rules=rules))
    assert settling == 60


def test_a_window_of_the_rollout_alone_delays_the_prediction() -> None:
    """And is named as the reason."""
    found = forecast(("h3",), windows=("14:00-18:00",))
    assert found.waves[0].ends_at - NOON == timedelta(hours=2, seconds=30)
    assert found.slowest[0].reason == "it waits for a maintenance window"
