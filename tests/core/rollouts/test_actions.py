"""What a rollout needs from the outside, and what the results lead to."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from forewarn.core.model import NODE, EventType
from forewarn.core.notice import Rules
from forewarn.core.rollouts.actions import RolloutAction, RolloutActionKind, actions_due
from forewarn.core.rollouts.commands import HostCommandPurpose, ReportHostCommand, ReportRolloutCheck
from forewarn.core.rollouts.facts import RolloutBlocked, RolloutChecked
from forewarn.core.rollouts.model import HostStep, RolloutState
from tests.core.harness import NOON
from tests.core.rollouts.harness import WEB, RolloutHarness

GATED = "ann rolls out k: reboot all_hosts=true gate=http://h/"
CHECK = RolloutAction("k", RolloutActionKind.CHECK, "", 1)
LATER = NOON + timedelta(seconds=1)


def due(harness: RolloutHarness, **given: object) -> list[RolloutAction]:
    return list(actions_due(harness.fleet, replace(harness.rollout, **given), harness.now))


def test_each_step_that_waits_for_the_outside_has_its_action() -> None:
    """With the number of the wave; what is announced needs none."""
    harness = RolloutHarness(f"{WEB}; host h9", "ann rolls out k: command hosts=h9 command=update asks=test")
    harness.advance()
    assert due(harness) == [RolloutAction("k", RolloutActionKind.ASK, "h9", 1)]
    harness.say("h9 of rollout k answers with 0")
    assert due(harness) == [RolloutAction("k", RolloutActionKind.PLAN, "h9", 1)]
    harness.say("rollout k drains h9")
    assert due(harness) == []
    harness.advance()
    assert due(harness) == [RolloutAction("k", RolloutActionKind.RUN, "h9", 1)]


@pytest.mark.parametrize(
    "given",
    [
        {"position": 3},
        {"state": RolloutState.PAUSED},
        {"blocked_until": LATER},
        {"blocked": "alerts fire: Down", "blocked_until": LATER},
        {"check_after": LATER},
        {"blocked": "a limit is used up"},
        {"checked": 1},
    ],
)
def test_a_gate_is_asked_before_a_wave_that_can_begin(given: dict[str, object]) -> None:
    """Not after the last wave, in a pause, before the stated time, while limits hold it back, or twice."""
    harness = RolloutHarness(WEB, GATED)
    assert due(harness) == [CHECK]
    assert due(harness, blocked="alerts fire: Down", blocked_until=NOON, check_after=NOON) == [CHECK]
    assert due(harness, **given) == []


@pytest.mark.parametrize("sentence", ["ann pauses rollout k", "ann cancels rollout k", "rollout k goes on"])
def test_what_a_gate_says_too_late_changes_nothing(sentence: str) -> None:
    """The rollout is paused, or has ended, or its wave is under way."""
    harness = RolloutHarness(WEB, GATED, "rollout k finds wave 1 well: answered 200", sentence)
    harness.advance()
    assert harness.say("rollout k finds wave 1 unwell: answered 500") == ()
    assert harness.say("rollout k finds wave 2 unwell: answered 500") == ()


def test_a_gate_answers_for_the_next_wave_alone() -> None:
    """Another number is a report of an earlier one."""
    harness = RolloutHarness(WEB, GATED)
    assert harness.say("rollout k finds wave 2 well: answered 200") == ()


def test_alerts_are_looked_at_again_after_a_time_that_is_hurried() -> None:
    """A gate that is well is not."""
    harness = RolloutHarness(WEB, GATED, rules=Rules().hurried(10))
    again_at = NOON + timedelta(seconds=3)
    checked, blocked = harness.say("rollout k finds wave 1 firing: Down")
    assert isinstance(checked, RolloutChecked)
    assert checked.again_at == again_at
    assert blocked == RolloutBlocked("k", NOON, "alerts fire: Down", again_at)
    harness.now = again_at
    (checked,) = harness.say("rollout k finds wave 1 well: answered 200")
    assert isinstance(checked, RolloutChecked)
    assert (checked.passed, checked.detail, checked.again_at) == (True, "answered 200", None)


def test_alerts_that_fire_do_not_pause_also_where_the_gate_failed() -> None:
    """Both are looked at again."""
    harness = RolloutHarness(WEB, GATED)
    report = ReportRolloutCheck(
        id=harness.new_id(), by=NODE, rollout="k", wave=1, passed=False, detail="", firing=("Down", "Slow")
    )
    harness.give(report)
    harness.advance()
    assert (harness.rollout.state, harness.rollout.blocked) == (RolloutState.RUNNING, "alerts fire: Down, Slow")


def report(harness: RolloutHarness, purpose: HostCommandPurpose, **given: object) -> None:
    harness.give(
        ReportHostCommand(id=harness.new_id(), by=NODE, rollout="k", host="h9", purpose=purpose, **given)  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("purpose", HostCommandPurpose)
@pytest.mark.parametrize(
    ("detail", "reason"), [("", "the command did not end"), ("timeout", "the command did not end: timeout")]
)
def test_a_host_fails_whose_command_did_not_end(purpose: HostCommandPurpose, detail: str, reason: str) -> None:
    """Whether it was asked, or the command ran on it."""
    asks = " asks=test" if purpose is HostCommandPurpose.ASK else ""
    harness = RolloutHarness(f"{WEB}; host h9", f"ann rolls out k: command hosts=h9 command=update{asks}")
    harness.advance()
    if not asks:
        harness.say("rollout k drains h9")
        harness.advance()
    report(harness, purpose, detail=detail)
    assert (harness.run("h9").step, harness.run("h9").reason) == (HostStep.FAILED, reason)


def test_a_command_that_fails_is_named_with_its_status() -> None:
    """And with what it said."""
    harness = RolloutHarness(f"{WEB}; host h9", "ann rolls out k: command hosts=h9 command=update")
    harness.advance()
    harness.say("rollout k drains h9")
    harness.advance()
    report(harness, HostCommandPurpose.RUN, exit_status=3, detail="no space left")
    assert harness.run("h9").reason == "the command ended with status 3: no space left"


def test_a_host_that_does_not_ask_is_not_planned() -> None:
    """The reason has the status."""
    harness = RolloutHarness(f"{WEB}; host h9", "ann rolls out k: drain hosts=h9 asks=test")
    harness.advance()
    report(harness, HostCommandPurpose.ASK, exit_status=2)
    assert harness.run("h9").reason == "the host does not ask for it: status 2"


def test_results_that_a_host_does_not_wait_for_change_nothing() -> None:
    """Of another step, of a host that waits, or of a rollout that has ended."""
    harness = RolloutHarness(f"{WEB}; host h9", "ann rolls out k: drain hosts=h9 asks=test")
    harness.advance()
    assert harness.say("rollout k drains h9") == ()
    assert harness.say("the command on h9 of rollout k ends with 0") == ()
    assert harness.say("h1 of rollout k answers with 0") == ()
    assert harness.say("h9 of rollout old answers with 0") == ()
    assert harness.say("rollout old drains h9") == ()
    assert harness.say("rollout old finds wave 1 well: answered 200") == ()


def test_a_host_that_asks_for_a_redeployment_moves_live_where_the_driver_can() -> None:
    """Its VMs are frozen, not redeployed."""
    harness = RolloutHarness(WEB, "ann rolls out k: redeploy hosts=h3 asks=test")
    harness.advance()
    answer = ReportHostCommand(
        id=harness.new_id(),
        by=NODE,
        rollout="k",
        host="h3",
        purpose=HostCommandPurpose.ASK,
        exit_status=0,
        live=True,
    )
    harness.give(answer)
    assert [event.type for event in harness.fleet.events.values()] == [EventType.FREEZE]
