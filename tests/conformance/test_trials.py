"""Clients are tried out: a good one passes, and each fault is found by the trial that is for it."""

import shlex
import sys
from pathlib import Path

import pytest

from forewarn.conformance.checks import RuleOutcome, is_good
from forewarn.conformance.trials import TRIALS, try_out
from forewarn.core.errors import BadInput

PYTHON = shlex.quote(sys.executable)
CLIENT = f"{PYTHON} {shlex.quote(str(Path(__file__).with_name('kit') / 'client.py'))} {{url}} {{vm}} {{prepared}}"

pytestmark = pytest.mark.end_to_end


def test_a_good_client_passes_every_trial() -> None:
    """Nothing is missed, and nothing is left unseen."""
    findings = try_out(CLIENT, patience=60)

    assert {each.rule: each for each in findings if each.outcome is not RuleOutcome.KEPT} == {}
    assert [each.rule for each in findings] == list(TRIALS)


def test_a_client_that_waits_for_news_passes_every_trial() -> None:
    """What the service holds back is no silence."""
    findings = try_out(CLIENT.replace("client.py", "waiting.py"), patience=60)

    assert {each.rule: each for each in findings if each.outcome is not RuleOutcome.KEPT} == {}


@pytest.mark.parametrize(
    ("fault", "trial"),
    [
        ("early", "approves-when-prepared"),
        ("greedy", "leaves-others-alone"),
        ("date", "stands-an-empty-not-before"),
        ("cancel", "notices-a-cancel"),
        ("less", "compares-incarnations-for-equality"),
        ("header", "asks-with-the-header"),
        ("version", "asks-a-known-version"),
        ("proxy", "asks-without-a-proxy"),
        ("hasty", "asks-at-most-5-a-second"),
        ("404", "stands-404"),
        ("410", "stands-410"),
        ("429", "stands-429"),
        ("500", "stands-500"),
        ("body", "stands-empty-body"),
        ("half", "stands-half-body"),
    ],
)
def test_a_fault_is_found_by_its_trial(fault: str, trial: str) -> None:
    """The trial that is for it says so; the others that were made do not."""
    findings = {each.rule: each for each in try_out(f"{CLIENT} {fault}", only=(trial, "stands-reset"), patience=10)}

    assert findings[trial].outcome is RuleOutcome.BREACH
    assert findings["stands-reset"].outcome is not RuleOutcome.BREACH


def test_a_client_that_uses_a_proxy_is_seen_in_every_other_trial() -> None:
    """One fault is one breach; it does not hide what else there is to see."""
    findings = try_out(f"{CLIENT} proxy", only=("asks-without-a-proxy", "asks-with-the-header"), patience=10)

    assert [each.outcome for each in findings] == [RuleOutcome.KEPT, RuleOutcome.BREACH]


def test_a_client_that_ends_at_once_fails() -> None:
    """Nothing was seen of it but that, and its last words are told."""
    command = f"{PYTHON} -c 'raise SystemExit(\"no such VM\")'"
    (finding,) = try_out(command, only=["stands-500"], patience=10)

    assert not is_good([finding])
    assert finding.seen.endswith("it ended with 1: no such VM")


def test_a_client_that_never_asks_fails() -> None:
    """Though it runs."""
    (finding,) = try_out(f"{PYTHON} -c 'import time; time.sleep(600)'", only=["asks-with-the-header"], patience=1)

    assert not is_good([finding])
    assert finding.seen == "the client did not request the document within 1 s; it runs"


def test_a_client_that_asks_once_and_ends_fails() -> None:
    """It would hear of nothing that is announced later."""
    ask = "import sys, urllib.request as r; r.urlopen(r.Request(sys.argv[1], headers=dict(Metadata=str(True))))"
    command = f"{PYTHON} -c {shlex.quote(ask)} {{url}}?api-version=2020-07-01"
    findings = try_out(command, only=["approves-its-own", "leaves-others-alone"], patience=5)

    assert [each.outcome for each in findings] == [RuleOutcome.BREACH, RuleOutcome.BREACH]


def test_a_client_that_approves_nothing_is_not_wrong() -> None:
    """What only its approvals would show is not seen; it may be required to be."""
    (finding,) = try_out(f"{CLIENT} shy", only=["approves-its-own"], patience=2)

    assert finding.outcome is RuleOutcome.NOT_SEEN
    assert is_good([finding])
    assert not is_good([finding], requires_all=True)


def test_a_client_that_cannot_be_run_is_wrong_usage() -> None:
    """The sentence names the command."""
    with pytest.raises(BadInput, match="the client 'no-such-program' cannot be run"):
        try_out("no-such-program", only=["stands-500"])
