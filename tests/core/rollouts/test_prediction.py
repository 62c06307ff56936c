"""When the waves of a rollout are expected to begin and end."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from forewarn.core.event_types import DEFAULT_NOTICES
from forewarn.core.model import EventType
from forewarn.core.notice import Rules
from forewarn.core.rollouts.model import RecordedLength, RolloutOperation, RolloutTerms
from forewarn.core.rollouts.prediction import HOST_COMMAND, Experience, Forecaster, RolloutForecast, Spread
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
    live: bool = False,
    canaries: int = 0,
    **given: object,
) -> RolloutForecast:
    terms = replace(TERMS, **given)
    forecaster = Forecaster(RolloutHarness(*fleet.split("|")).fleet, terms, rules or Rules(), known, live=live)
    return forecaster.predict(waves, canaries, NOON)


def around(found: RolloutForecast) -> tuple[float, float]:
    """Return by how many seconds a rollout may end earlier or later than predicted."""
    total = found.total
    return (total.finish - total.earliest).total_seconds(), (total.latest - total.finish).total_seconds()


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


LONG_FREEZES = Rules(notices={**DEFAULT_NOTICES, EventType.FREEZE: timedelta(hours=1)}).hurried(10)


@pytest.mark.parametrize(
    ("operation", "live", "expected"),
    [
        (RolloutOperation.REBOOT, False, 900 + 60),
        (RolloutOperation.REBOOT, True, 900 + 60),
        (RolloutOperation.REDEPLOY, False, 600 + 60),
        (RolloutOperation.REDEPLOY, True, 3_600 + 5),
        (RolloutOperation.DRAIN, False, 600 + 60),
        (RolloutOperation.DRAIN, True, 3_600 + 5),
        (RolloutOperation.FREEZE, False, 3_600 + 5),
    ],
)
def test_a_wave_takes_the_notice_and_the_duration_that_are_announced(
    operation: RolloutOperation,
    live: bool,  # noqa: FBT001
    expected: int,
) -> None:
    """A minute where none is; what moves live is announced as a freeze. All of it is hurried."""
    found = forecast(("h3",), rules=LONG_FREEZES, known=Experience(), live=live, operation=operation)
    assert seconds(found) == expected / 10


def test_what_is_stated_of_the_duration_is_hurried() -> None:
    """It may last twice as long, and is not expected to end earlier."""
    found = forecast(("h3",), rules=Rules().hurried(10), known=Experience(), expected=1_000)
    assert seconds(found) == 90 + 100
    assert around(found) == (0, 100)


def test_an_unknown_duration_is_between_a_quarter_of_a_minute_and_five() -> None:
    """Hurried, as the durations of the driver are."""
    assert around(forecast(("h3",), rules=Rules().hurried(10), known=Experience())) == (4.5, 24)


def test_the_deviations_of_waves_are_independent() -> None:
    """Their squares are added."""
    known = Experience({}, {"host reboot": Spread(20, 60, 160)})
    assert around(forecast(("h3",), known=known)) == (40, 100)
    earlier, later = around(forecast(("h3",), ("h1",), known=known))
    assert (round(earlier**2), round(later**2)) == (2 * 40**2, 2 * 100**2)


def test_a_rollout_may_always_be_a_minute_late() -> None:
    """Hurried; hosts without VMs are expected to take no time."""
    found = forecast(("h9",), fleet=f"{WEB}; host h9", rules=Rules().hurried(10))
    assert (seconds(found), around(found), found.slowest) == (0, (0, 6), ())


@pytest.mark.parametrize(("canary_settle", "first"), [(100, 100), (0, 10)])
def test_canaries_settle_for_their_own_time(canary_settle: int, first: int) -> None:
    """Where one is stated."""
    found = forecast(
        ("h9",),
        ("h8",),
        ("h7",),
        fleet=f"{WEB}; host h9; host h8; host h7",
        canaries=1,
        settle=10,
        canary_settle=canary_settle,
    )
    assert [(wave.ends_at - wave.starts_at).total_seconds() for wave in found.waves] == [first, 10, 10]
    assert found.total.waves == 3


def test_groups_that_take_equally_long_are_named_with_the_wait_for_their_start() -> None:
    """The wave would take the impact in any case."""
    found = forecast(("h1",))
    assert [(each.group, each.seconds) for each in found.slowest] == [("db", NOTICE), ("web", NOTICE)]


def test_a_group_that_nothing_waits_for_is_not_named() -> None:
    """It approves at once, as the other does."""
    quick = Spread(0, 0, 0)
    assert forecast(("h1",), known=replace(KNOWN, approvals={"web": quick, "db": quick})).slowest == ()


def test_the_reason_is_that_of_the_wave_that_waits_longest() -> None:
    """A later wave in which the group waits for its notice alone does not change it."""
    fleet = (
        "ann declares: host h1; host h2; group web availability-set;"
        " vm a in web on h1 ud=0 fd=0; vm b in web on h2 ud=1 fd=1|ann sets web quiet_hours=12:00-18:00"
    )
    found = forecast(("h1",), ("h2",), fleet=fleet)
    assert [(each.group, each.seconds) for each in found.slowest] == [("web", 6 * 3_600 + 30 + NOTICE + 30)]
    assert found.slowest[0].reason == "it waits for the end of its quiet hours"


def test_quiet_hours_are_the_reason_also_where_domains_take_turns() -> None:
    """And turns are it where the last of its events shares its domain with an earlier one."""
    fleet = (
        "ann declares: host h1; host h2; host h3; group web availability-set; vm a in web on h1 ud=0 fd=0;"
        " vm b in web on h2 ud=1 fd=1; vm c in web on h3 ud=1 fd=1"
    )
    (turns,) = forecast(("h1", "h2", "h3"), fleet=fleet).slowest
    assert turns.reason == "its update domains take turns"
    (quiet,) = forecast(("h1", "h2"), fleet=f"{fleet}|ann sets web quiet_hours=12:00-18:00").slowest
    assert quiet.reason == "it waits for the end of its quiet hours"


def test_the_five_groups_are_named_that_waves_wait_for_longest() -> None:
    """The longest first."""
    numbers = range(1, 8)
    fleet = "ann declares: " + "; ".join(
        f"host h{n}; group g{n} availability-set; vm v{n} in g{n} on h{n}" for n in numbers
    )
    known = replace(KNOWN, approvals={f"g{n}": Spread(n, 10 * n, 100) for n in numbers})
    found = forecast(*((f"h{n}",) for n in numbers), fleet=fleet, known=known)
    assert [(each.group, each.seconds) for each in found.slowest] == [(f"g{n}", 10 * n + 30) for n in (7, 6, 5, 4, 3)]
    assert found.slowest[0].reason == "it takes 70 s to approve"


@pytest.mark.parametrize(
    ("slow", "other"),
    [(Spread(10, 50, 60), Spread(20, 40, 60)), (Spread(20, 50, 60), Spread(10, 40, 200))],
)
def test_the_slowest_group_of_a_wave_is_that_with_the_longest_middling_duration(slow: Spread, other: Spread) -> None:
    """The wave waits for it alone as soon as the next slowest has ended."""
    fleet = f"{WEB}; group app availability-set; vm app-0 in app on h1"
    approvals = {"web": slow, "db": other, "app": Spread(1, 2, 3)}
    found = forecast(("h1",), fleet=fleet, known=replace(KNOWN, approvals=approvals))
    assert [(each.group, each.seconds) for each in found.slowest] == [("web", 10)]


@pytest.mark.parametrize(
    ("domains", "turns"), [("ud=0 fd=0", 1), ("ud=1 fd=0", 2), ("ud=0 fd=1", 2), ("ud=1 fd=1", 2)]
)
def test_vms_of_one_group_take_turns_unless_they_share_both_domains(domains: str, turns: int) -> None:
    """Also on one host; the reason is named."""
    fleet = (
        "ann declares: host h1; host h2; group web availability-set;"
        f" vm a in web on h1 ud=0 fd=0; vm b in web on h2 {domains}"
    )
    found = forecast(("h1", "h2"), fleet=fleet)
    assert seconds(found) == NOTICE + 30 * turns
    assert (found.slowest[0].reason == "its update domains take turns") == (turns == 2)
    together = fleet.replace("b in web on h2", "b in web on h1")
    assert seconds(forecast(("h1",), fleet=together)) == NOTICE + 30 * turns


def test_deallocated_vms_take_no_time() -> None:
    """They have no events."""
    assert seconds(forecast(("h3",), fleet=f"{WEB}|ann deallocates web-2")) == 0


def test_an_event_inside_a_window_waits_for_its_notice_alone() -> None:
    """Of the rollout or of the fleet; the reason is the notice."""
    own = forecast(("h3",), windows=("12:00-13:00",))
    fleets = forecast(("h3",), rules=Rules(maintenance_windows=("12:00-13:00",)))
    for found in (own, fleets):
        assert seconds(found) == NOTICE + 30
        assert found.slowest[0].reason.startswith("none of its events was approved so far")


def test_an_event_that_does_not_fit_a_window_waits_for_the_next() -> None:
    """By its middling duration; where it fits none, windows are not counted."""
    known = Experience({}, {"host reboot": Spread(10, 120, 300)})
    found = forecast(("h3",), known=known, windows=("12:00-12:16",))
    assert found.waves[0].ends_at - NOON == timedelta(days=1, seconds=120)
    fleets = forecast(("h3",), known=known, rules=Rules(maintenance_windows=("12:00-12:16",)))
    assert fleets.waves == found.waves
    assert seconds(forecast(("h3",), known=known, windows=("12:00-12:01",))) == NOTICE + 120


@pytest.mark.parametrize(
    ("hours", "reason"),
    [
        ("12:00-12:05", "it takes 400 s to approve"),
        ("12:08-12:20", "it takes 400 s to approve"),
        ("12:06-12:07", "it waits for the end of its quiet hours"),
    ],
)
def test_the_reason_of_a_wait_is_that_of_the_middling_duration(hours: str, reason: str) -> None:
    """Whatever short and long ones would wait for."""
    known = replace(KNOWN, approvals={"web": Spread(60, 400, 500)})
    found = forecast(("h3",), fleet=f"{WEB}|ann sets web quiet_hours={hours}", known=known)
    assert found.slowest[0].reason == reason


@pytest.mark.parametrize("middle", [NOTICE, NOTICE + 1])
def test_a_group_that_approves_no_earlier_than_its_notice_waits_for_all_of_it(middle: float) -> None:
    """With short and long durations as well."""
    found = forecast(("h3",), known=replace(KNOWN, approvals={"web": Spread(10, middle, 2_000)}))
    assert (seconds(found), around(found)) == (NOTICE + 30, (10, 60))


def test_an_approval_comes_at_the_latest_with_the_end_of_the_notice() -> None:
    """Then the event starts without it."""
    found = forecast(("h3",), known=replace(KNOWN, approvals={"web": Spread(100, 400, 2_000)}))
    assert (seconds(found), around(found)) == (400 + 30, (300 + 10, 500 + 30))


def test_the_commands_on_hosts_of_a_wave_run_together() -> None:
    """After the drain; while nothing is known of them, as long as is stated."""
    known = Experience({}, {"host drain": Spread(20, 30, 60), HOST_COMMAND: Spread(100, 200, 400)})
    found = forecast(("h1", "h3"), known=known, operation=RolloutOperation.COMMAND, command="update")
    assert seconds(found) == 600 + 30 + 30 + 200
    assert around(found) == (20 + 100, 60 + 200)
    drained = replace(known, impacts={"host drain": Spread(20, 30, 60)})
    stated = forecast(("h3",), known=drained, operation=RolloutOperation.COMMAND, command="update", expected=50)
    assert seconds(stated) == 600 + 30 + 50


def test_a_command_is_of_known_length_once_a_drain_and_a_command_are_recorded() -> None:
    """Of the drain alone nothing is known for it."""
    drain, command = {"host drain": Spread(1, 2, 30)}, {HOST_COMMAND: Spread(1, 2, 60)}
    for impacts in ({}, drain, command):
        assert Experience({}, impacts).length_of(RolloutOperation.COMMAND) == RecordedLength()
    assert Experience({}, drain | command).length_of(RolloutOperation.DRAIN) == RecordedLength(30)
    assert Experience().length_of(RolloutOperation.DRAIN) == RecordedLength()
