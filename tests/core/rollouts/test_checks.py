"""What is refused of a rollout, at its limits."""

from contextlib import nullcontext

import pytest
from msgspec.structs import replace

from forewarn.core.commands import SetMaintenance
from forewarn.core.errors import Refused
from forewarn.core.facts import FleetChanged
from forewarn.core.model import Host
from forewarn.core.notice import Rules
from forewarn.core.rollouts.checks import check_gate, check_terms, command_length, expected_length, read_threshold
from forewarn.core.rollouts.model import HealthGate, RolloutOperation, RolloutOrder, RolloutTerms
from tests.core.harness import ANN, NOON
from tests.core.rollouts.harness import WEB, RolloutHarness

TERMS = RolloutTerms(operation=RolloutOperation.REBOOT, all_hosts=True)
COMMAND = RolloutTerms(operation=RolloutOperation.COMMAND, all_hosts=True, command="update")
HURRIED = Rules().hurried(10)


def check(terms: RolloutTerms, harness: RolloutHarness | None = None, *, runs_commands: bool = True) -> None:
    fleet = (harness or RolloutHarness(WEB)).fleet
    check_terms(fleet, terms, tuple(fleet.hosts), NOON, Rules(), runs_commands=runs_commands, recorded=0.0)


@pytest.mark.parametrize(
    ("key", "least", "most"),
    [
        ("parallel", 1, 1_000_000),
        ("canary", 0, 1_000_000),
        ("max_failures", 0, 1_000_000),
        ("settle", 0, 31_622_400),
        ("canary_settle", 0, 31_622_400),
        ("lead", 0, 31_622_400),
        ("expected", 0, 31_622_400),
        ("host_limit", 0, 31_622_400),
        ("every", 0, 31_622_400),
        ("command_timeout", 1, 604_800),
    ],
)
def test_numbers_have_a_least_and_a_largest_value(key: str, least: int, most: int) -> None:
    """Both are allowed; what is beyond them is not."""
    for value in (least, least + 1, most):
        check(replace(TERMS, **{key: value}))
    for value in (least - 1, most + 1):
        with pytest.raises(Refused):
            check(replace(TERMS, **{key: value}))


@pytest.mark.parametrize("key", ["fleet_share", "group_share"])
def test_a_share_is_above_nothing_and_at_most_everything(key: str) -> None:
    """The refusal says so."""
    check(replace(TERMS, **{key: 1.0}))
    for share in (0.0, -0.5, 1.01):
        with pytest.raises(Refused, match=f"{key} must be above 0% and at most 100%"):
            check(replace(TERMS, **{key: share}))


@pytest.mark.parametrize(("count", "is_refused"), [(0, True), (1, False), (1_000_000, False), (1_000_001, True)])
def test_a_limit_per_label_is_a_number_of_hosts(count: int, is_refused: bool) -> None:  # noqa: FBT001
    """At least one."""
    with pytest.raises(Refused) if is_refused else nullcontext():
        check(replace(TERMS, parallel_per={"fault-domain": count}))


def test_a_limit_per_label_needs_one_host_that_has_it() -> None:
    """Not all of them."""
    harness = RolloutHarness(WEB)
    harness.fleet.evolve(FleetChanged(hosts=(Host("h2", {"rack": "a"}),)))
    check(replace(TERMS, parallel_per={"rack": 1}), harness)
    with pytest.raises(Refused, match="no host of the rollout has a label 'row'"):
        check(replace(TERMS, parallel_per={"rack": 1, "row": 1}), harness)


def test_a_host_that_is_left_out_breaks_no_limit() -> None:
    """It has all VMs of its group."""
    harness = RolloutHarness(
        "ann declares: host h1; host h2; group web availability-set; vm a in web on h1; vm b in web on h1"
    )
    with pytest.raises(Refused, match="host h1 alone has 2 of the 2"):
        check(replace(TERMS, group_share=0.5), harness)
    harness.fleet.evolve(FleetChanged(hosts=(Host("h1", {"keep": "1"}),)))
    check(replace(TERMS, group_share=0.5, opt_out="keep"), harness)


def test_a_rollout_without_a_host_that_takes_part_is_refused() -> None:
    """One is enough."""
    harness = RolloutHarness(WEB, "ann fails host h1", "ann fails host h2")
    check(TERMS, harness)
    harness.give(SetMaintenance(id=harness.new_id(), by=ANN, host="h3", is_in_maintenance=True))
    with pytest.raises(Refused, match="no host is left: h1: the host has failed; choose other hosts"):
        check(TERMS, harness)


@pytest.mark.parametrize(
    ("terms", "words"),
    [
        (replace(COMMAND, command="one\ntwo"), "a command is one line"),
        (replace(TERMS, asks="one\ntwo"), "a command is one line"),
        (replace(TERMS, description="one\ntwo"), "a description is one line"),
        (replace(COMMAND, command=""), "go together"),
        (replace(TERMS, command="update"), "go together"),
        (replace(TERMS, canary=1, canary_hosts=("h1",)), "leave one of them out"),
        (replace(TERMS, order=RolloutOrder.LABEL), "needs the label"),
        (replace(TERMS, order_label="rack"), "needs the label"),
        (replace(TERMS, gate=HealthGate(query="up", threshold="<1")), "the address of Prometheus"),
        (replace(TERMS, gate=HealthGate(url="http://h", command="well")), "give exactly one of them"),
    ],
)
def test_what_contradicts_itself_is_refused(terms: RolloutTerms, words: str) -> None:
    """Before anything is announced."""
    with pytest.raises(Refused, match=words):
        check(terms)


@pytest.mark.parametrize("terms", [COMMAND, replace(TERMS, asks="test")])
def test_commands_need_a_driver_that_runs_them(terms: RolloutTerms) -> None:
    """Also the one that asks a host."""
    check(terms)
    check(TERMS, runs_commands=False)
    with pytest.raises(Refused, match="the driver cannot run commands on hosts"):
        check(terms, runs_commands=False)


@pytest.mark.parametrize(
    ("url", "is_address"),
    [
        ("http://h", True),
        ("https://h/health", True),
        ("http://h:1/", True),
        ("http://h:65535/", True),
        ("http://h:0/", False),
        ("http://h:65536/", False),
        ("ftp://h/", False),
        ("http:///health", False),
        ("h/health", False),
    ],
)
def test_a_web_address_has_a_scheme_a_host_and_a_port_that_exists(url: str, is_address: bool) -> None:  # noqa: FBT001
    """That of a gate as well as that of Prometheus."""
    for terms in (replace(TERMS, gate=HealthGate(url=url)), replace(TERMS, alerts=("Down",), prometheus=url)):
        with nullcontext() if is_address else pytest.raises(Refused, match="is no web address"):
            check_gate(terms)


@pytest.mark.parametrize(
    ("query", "threshold", "is_refused"),
    [("up", "<1", False), ("up", "", True), ("", "<1", True), ("up", "1", True), ("up", "< one", True)],
)
def test_a_query_and_a_threshold_that_can_be_read_go_together(query: str, threshold: str, is_refused: bool) -> None:  # noqa: FBT001
    """A gate is nothing without both."""
    gate = HealthGate(url="" if query else "http://h", query=query, threshold=threshold)
    with pytest.raises(Refused) if is_refused else nullcontext():
        check_gate(replace(TERMS, gate=gate, prometheus="http://p:9090"))


@pytest.mark.parametrize(
    ("written", "read"),
    [(">= 3", (">=", 3.0)), ("<0.01", ("<", 0.01)), ("!=-1e-3", ("!=", -0.001)), (" ==2E5 ", ("==", 200_000.0))],
)
def test_a_threshold_is_a_comparison_and_a_number(written: str, read: tuple[str, float]) -> None:
    """Spaces around them do not matter."""
    assert read_threshold(HealthGate(query="up", threshold=written)) == read


@pytest.mark.parametrize(
    ("terms", "recorded", "seconds"),
    [
        (TERMS, 0.0, 6.0),
        (TERMS, 25.0, 25.0),
        (replace(TERMS, expected=700), 25.0, 70.0),
        (replace(TERMS, operation=RolloutOperation.FREEZE), 0.0, 0.5),
        (COMMAND, 0.0, 12.0),
        (COMMAND, 25.0, 25.0),
    ],
)
def test_a_host_takes_what_is_stated_else_what_was_recorded(
    terms: RolloutTerms, recorded: float, seconds: float
) -> None:
    """Else what is announced, or a minute, and another one for a command; what is recorded is hurried already."""
    assert expected_length(terms, HURRIED, recorded) == seconds


@pytest.mark.parametrize(
    ("terms", "recorded", "seconds"),
    [
        (TERMS, 25.0, 0.0),
        (COMMAND, 0.0, 6.0),
        (COMMAND, 25.0, 25.0),
        (replace(COMMAND, expected=200), 25.0, 20.0),
        (replace(COMMAND, expected=200), 15.0, 15.0),
        (replace(COMMAND, expected=30), 0.0, 3.0),
    ],
)
def test_a_command_takes_what_was_recorded_and_no_more_than_a_host(
    terms: RolloutTerms, recorded: float, seconds: float
) -> None:
    """Else a minute; other operations run none."""
    assert command_length(terms, HURRIED, recorded) == seconds
