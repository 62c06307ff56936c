"""Scenarios: what a file may say, what is said when it is wrong, and that those we ship do what they tell."""

import re
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from forewarn.core.errors import BadInput
from forewarn.core.model import EventType
from forewarn.emulator import Emulator
from forewarn.emulator.expectations import ExpectationState
from forewarn.emulator.scenario import load, parse, renamed, shipped
from forewarn.emulator.scenario_tables import Claim
from forewarn.emulator.verbs import Verb
from tests.emulator.callers import approve, ask

pytestmark = pytest.mark.end_to_end  # thorough, and slow for it

SHIPPED = {
    "approved-by-neighbour",
    "availability-set-maintenance",
    "canceled-maintenance",
    "degraded-hardware",
    "hardware-failure",
    "host-agent-freeze",
    "live-migration",
    "neighbour-only",
    "preview-2017",
    "rough-endpoint",
    "scale-in-terminate",
    "slow-first-call",
    "spot-eviction",
    "spot-eviction-short",
    "switched-off",
    "two-events-at-once",
    "user-reboot",
    "user-redeploy",
}
AILING = {"slow-first-call", "rough-endpoint", "switched-off"}
"""Those in which a plain client is not answered at once."""

GOOD = """
title = "A restart"

[[vm]]
name = "web-0"

[[step]]
at = "1m"
do = "reboot"
vm = "web-0"
name = "restart"

[[expect]]
that = "approved"
by = "web-0"
within = "60s"
"""


def strides() -> Iterator[str]:
    """Yield how far to go each time: first as fast as a client asks, then in leaps."""
    yield from ["5s"] * 24
    yield from ["1m"] * 60
    yield from ["2h"] * 100


def play(emulator: Emulator) -> None:
    """Be the clients of all VMs until the scenario is over."""
    for stride in strides():
        if emulator.is_over:
            return
        for vm in emulator.vms:
            ask(vm.url)
        emulator.advance(stride)


def test_all_scenarios_are_there() -> None:
    """Everything that was promised is shipped, and nothing is shipped that no test plays."""
    assert set(shipped()) == SHIPPED


@pytest.mark.parametrize("name", sorted(SHIPPED - AILING))
def test_a_client_that_asks_meets_what_the_scenario_expects(name: str) -> None:
    """It plays to its end, and every expectation is met by a client that only asks."""
    with Emulator(scenario=name) as emulator:
        play(emulator)

        assert emulator.is_over
        assert [verdict for verdict in emulator.verdicts if verdict.outcome is not ExpectationState.MET] == []


@pytest.mark.parametrize("name", sorted(SHIPPED - AILING - {"approved-by-neighbour", "neighbour-only"}))
def test_without_a_client_the_scenario_fails(name: str) -> None:
    """An expectation that nobody meets is missed, not open."""
    with Emulator(scenario=name) as emulator:
        for stride in strides():
            if emulator.is_over:
                break
            emulator.advance(stride)

        assert emulator.is_over
        assert ExpectationState.MISSED in {verdict.outcome for verdict in emulator.verdicts}


@pytest.mark.parametrize("name", sorted(SHIPPED - AILING))
def test_a_client_that_approves_promptly_meets_what_the_scenario_expects(name: str) -> None:
    """Each VM approves its own events as soon as it is shown them, and nobody else's."""
    with Emulator(scenario=name) as emulator:
        for stride in strides():
            if emulator.is_over:
                break
            for vm in emulator.vms:
                for event in ask(vm.url, "2020-07-01").json.get("Events", ()):
                    if vm.name in event["Resources"] and event["EventStatus"] == "Scheduled":
                        approve(vm.url, event["EventId"])
            emulator.advance(stride)

        assert emulator.is_over
        assert [verdict for verdict in emulator.verdicts if verdict.outcome is not ExpectationState.MET] == []


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_nothing_is_expected_at_the_very_moment_of_a_step(name: str) -> None:
    """A step comes a moment late on a busy machine; what depends on it has time beyond it."""
    scenario = load(name)
    announced = {step.name: step.at for step in scenario.steps if step.name}
    later = {(step.event, step.at - announced[step.event]) for step in scenario.steps if step.event}
    expected = {(each.event, each.within) for each in scenario.expectations}

    assert later & expected == set()


def test_a_first_call_of_two_minutes() -> None:
    """The scenario's point: the call is answered late, and what is announced afterwards is seen."""
    with Emulator(scenario="slow-first-call") as emulator:
        first = threading.Thread(target=ask, args=(emulator.url,))
        first.start()
        assert emulator.wait_for(lambda: len(emulator.requests) == 1)
        emulator.advance("1m59s")
        waiting = emulator.requests[0].status
        emulator.advance("1s")
        first.join()
        emulator.advance("3m30s")
        ask(emulator.url)
        emulator.advance("30m")

        assert waiting == 0
        assert {verdict.outcome for verdict in emulator.verdicts} == {ExpectationState.MET}


def test_switched_off_after_a_day() -> None:
    """Nobody gets through for a day; a restart runs at once, and the incarnation begins anew."""
    with Emulator(scenario="switched-off") as emulator:
        emulator.advance("2m")
        before = ask(emulator.url).json["DocumentIncarnation"]
        emulator.advance("1h")
        with pytest.raises(ConnectionResetError):
            ask(emulator.url)
        emulator.advance("24h")
        after = ask(emulator.url).json
        emulator.advance("30m")

        assert (before, after["DocumentIncarnation"], len(after["Events"])) == (2, 2, 1)
        assert {verdict.outcome for verdict in emulator.verdicts} == {ExpectationState.MET}


def test_the_preview_of_2017() -> None:
    """Underscores, ISO dates and ten restarts of eleven, in the oldest api-version."""
    with Emulator(scenario="preview-2017") as emulator:
        emulator.advance("2m")
        events = ask(emulator.url, "2017-03-01").json["Events"]

        assert len(events) == 10
        assert events[0]["Resources"] == ["_web-0"]
        assert events[0]["NotBefore"].endswith("Z")


def test_maintenance_that_was_approved_is_not_canceled() -> None:
    """A client that lets it start has not broken the scenario."""
    with Emulator(scenario="canceled-maintenance") as emulator:
        emulator.advance("2m")
        ask(emulator.url)
        (event,) = emulator.events
        event.approve(by="web-0")
        emulator.advance("20m")

        assert {verdict.outcome for verdict in emulator.verdicts} == {ExpectationState.MET}


def test_an_availability_set_freezes_one_update_domain_after_another() -> None:
    """No two of its five VMs are ever Started together."""
    with Emulator(scenario="availability-set-maintenance") as emulator:
        emulator.advance("2m")
        for event in emulator.events:
            event.approve()
        seen: list[list[tuple[str, ...]]] = []
        while not emulator.is_over and len(seen) < 100:
            seen.append([event.resources for event in emulator.events if event.status == "started"])
            emulator.advance("30s")
            ask(emulator.url)

        assert max(map(len, seen)) == 1
        assert {names for started in seen for names in started} == {(f"web-{number}",) for number in range(5)}


def test_a_file_says_what_happens_and_what_is_expected() -> None:
    """Steps, expectations and their times; an expectation without an event means the only one there is."""
    scenario = parse(GOOD, "good.toml", "good")
    (step,) = scenario.steps
    (expectation,) = scenario.expectations

    assert (step.at, step.do, step.vm) == (timedelta(minutes=1), Verb.REBOOT, "web-0")
    assert (expectation.that, expectation.event, expectation.within) == (
        Claim.APPROVED,
        "restart",
        timedelta(seconds=60),
    )


PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "emulate-events.md").read_text(encoding="utf-8")


def examples(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("example", examples("toml"))
def test_the_scenarios_on_the_page_can_be_played(example: str) -> None:
    """Whoever copies one has one that works."""
    with Emulator(scenario=parse(example, "example.toml", "example")) as emulator:
        emulator.advance("1h")

        assert emulator.is_over


@pytest.mark.parametrize("example", examples("python"))
def test_the_programs_on_the_page_run(example: str) -> None:
    """As they are printed."""
    exec(compile(example, "emulate-events.md", "exec"), {})  # noqa: S102 - our own page


def test_a_scenario_without_vms_has_one() -> None:
    """So that a scenario can be three lines long."""
    assert list(parse('title = "x"', "x.toml", "x").setup.fleet.vms) == ["web-0"]


def test_a_scenario_lowers_the_notice() -> None:
    """The minimums are settings, and a scenario may set them."""
    with Emulator(scenario="spot-eviction-short") as emulator:
        emulator.advance("1m")
        (event,) = emulator.events

        assert event.type is EventType.PREEMPT
        assert event.not_before - event.life.event.announced_at < timedelta(seconds=10)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("title", "titel", "bad.toml, line 2: a scenario has no 'titel'; did you mean 'title'?"),
        ('"A restart"', "3", "bad.toml, line 2: title of the scenario is 3, expected a text"),
        ("[[step]]", "[[stepp]]", "bad.toml, line 7: a scenario has no 'stepp'; did you mean 'step'?"),
        ("at =", "att =", "bad.toml, line 8: [[step]] 1 has no key 'att'; did you mean 'at'?"),
        ('"1m"', '"soon"', "bad.toml, line 8: at of [[step]] 1 is 'soon', expected a duration"),
        ('at = "1m"', "", "bad.toml, line 7: [[step]] 1 lacks 'at': a duration"),
        ('"reboot"', '"rebot"', "bad.toml, line 9: do of [[step]] 1 is 'rebot', expected one of reboot"),
        ('"reboot"', '"rebot"', "did you mean 'reboot'?"),
        ('"reboot"', '"fail"', "bad.toml, line 9: [[step]] 1: fail is an operation on a host, not on a VM"),
        ('vm = "web-0"', 'vm = "web-9"', "line 10: [[step]] 1: there is no VM 'web-9'; did you mean 'web-0'?"),
        ('vm = "web-0"', "", "line 9: [[step]] 1: reboot needs a vm or a host; set one of the two"),
        ('vm = "web-0"', 'host = "h"', "line 10: [[step]] 1: there is no host 'h'"),
        ('"approved"', '"aproved"', "line 14: that of [[expect]] 1 is 'aproved', expected one of fetched"),
        ('by = "web-0"', 'event = "x"', "line 15: [[expect]] 1: there is no step 'x'"),
        ('by = "web-0"', 'by = "x"', "line 15: [[expect]] 1: there is no VM 'x'"),
        ('"approved"', '"asked"\nevent = "restart"', "asked refers to a VM, not to an event"),
        ('within = "60s"', "never = 1", "line 16: never of [[expect]] 1 is 1, expected true or false"),
        ('name = "web-0"\n', 'name = "web-0"\nsize = 3\n', "bad.toml, line 6: [[vm]] 1 'web-0'"),
        (
            "[[expect]]",
            '[[fault]]\nkind = "501"\n[[expect]]',
            "line 14: kind of [[fault]] 1 is '501', expected one of",
        ),
        (
            "[[expect]]",
            '[[fault]]\nkind = "500"\nprobability = 2\n[[expect]]',
            "line 15: probability of [[fault]] 1 is 2, expected a number from 0 to 1",
        ),
        ("[[expect]]", "[lasts]\nfrost = 3\n[[expect]]", "line 14: [lasts] has no key 'frost'"),
        ("[[expect]]", '[[step]]\nat = "2m"\ndo = "cancel"\n[[expect]]', "[[step]] 2: cancel needs an event"),
        ("[[expect]]", '[[step]]\nat = "2m"\ndo = "ask"\n[[expect]]', "[[step]] 2: ask needs a vm"),
        ("[[step]]", "[step]", "bad.toml, line 7: step must be a list of tables; write [[step]], with two brackets"),
        ("[[expect]]", "[[expect", "bad.toml, line 13"),
    ],
)
def test_what_is_wrong_is_named_by_its_line(old: str, new: str, said: str) -> None:
    """With the key, what it may be, and the nearest word there is."""
    assert old in GOOD
    with pytest.raises(BadInput) as refused:
        parse(GOOD.replace(old, new, 1), "bad.toml", "bad")

    assert said in str(refused.value)


def test_a_scenario_that_is_not_there_is_refused_with_the_nearest() -> None:
    """By name; a file by why it cannot be read."""
    with pytest.raises(BadInput, match="did you mean 'user-reboot'"):
        load("user-rebot")
    with pytest.raises(BadInput, match=r"nowhere\.toml cannot be read"):
        load("nowhere.toml")


def test_vms_can_be_given_other_names() -> None:
    """In the fleet, the steps, the expectations and the faults alike."""
    scenario = renamed(load("neighbour-only"), ["mine"])

    assert list(scenario.setup.fleet.vms) == ["mine", "web-1"]
    assert {expectation.by for expectation in scenario.expectations} == {"mine"}
    with pytest.raises(BadInput, match="has 2 VMs, and 3 names are given"):
        renamed(scenario, ["a", "b", "c"])
    with pytest.raises(BadInput, match="two VMs of the same name"):
        renamed(scenario, ["web-1"])


def test_a_standalone_vm_takes_its_group_along_when_it_is_renamed() -> None:
    """Its group has its name."""
    with Emulator(scenario=renamed(load("user-reboot"), ["mine"])) as emulator:
        emulator.advance("1m")

        assert emulator.events[0].resources == ("mine",)


def test_a_step_that_the_rules_refuse_is_told() -> None:
    """Unless the scenario says that it will be; and one that is not refused then is told too."""
    twice = GOOD + '\n[[step]]\nat = "2m"\ndo = "reboot"\nvm = "web-0"\n'
    with Emulator(scenario=parse(twice, "x.toml", "x")) as emulator:
        emulator.advance("2m")
        assert "has an unfinished restart" in emulator.verdicts[0].detail

    expected = GOOD.replace('do = "reboot"', 'do = "reboot"\nrefused = true')
    with Emulator(scenario=parse(expected, "x.toml", "x")) as emulator:
        emulator.advance("2m")
        assert emulator.verdicts[0].detail == "it was not refused"
