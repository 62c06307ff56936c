"""How one host takes the steps of a rollout."""

from datetime import timedelta

import pytest

from forewarn.core.commands import SetMaintenance
from forewarn.core.event_types import DEFAULT_NOTICES
from forewarn.core.model import NODE, EventType
from forewarn.core.notice import Rules
from forewarn.core.rollouts.commands import DrainRolloutHost, HostCommandPurpose, ReportHostCommand
from forewarn.core.rollouts.facts import RolloutEnded
from forewarn.core.rollouts.host_steps import notice_of
from forewarn.core.rollouts.model import HostStep, RolloutResult, RolloutState
from tests.core.harness import ANN, NOON
from tests.core.rollouts.harness import WEB, RolloutHarness

EMPTY = f"{WEB}; host h9"


def drained(operation: str, *sentences: str) -> RolloutHarness:
    """Return a fleet with a host without VMs that is drained."""
    command = " command=update" if operation == "command" else ""
    harness = RolloutHarness(EMPTY, *sentences, f"ann rolls out k: {operation} hosts=h9,h1 settle=5{command}")
    harness.say("ann skips h1 of rollout k")
    harness.advance()
    harness.say("rollout k drains h9")
    return harness


@pytest.mark.parametrize("operation", ["reboot", "drain"])
def test_vms_read_the_description_of_the_rollout(operation: str) -> None:
    """Without one, that of the operation."""
    said = []
    for terms in ("", " description=new_kernel"):
        harness = RolloutHarness(WEB, f"ann rolls out k: {operation} hosts=h3{terms}")
        harness.advance()
        if operation == "drain":
            harness.say("rollout k drains h3")
        said += [event.description for event in harness.fleet.events.values()]
    assert said[0]
    assert said[1:] == ["new kernel"]


def test_a_drain_is_announced_for_its_window() -> None:
    """The VMs move inside it."""
    harness = RolloutHarness(WEB, "ann rolls out k: drain hosts=h3 windows=13:00-14:00 lead=10800")
    harness.advance()
    harness.say("rollout k drains h3")
    (event,) = harness.fleet.events.values()
    assert event.not_before == NOON + timedelta(hours=1)


def test_a_host_whose_drain_cannot_be_planned_fails_with_the_reason() -> None:
    """At most five VMs are named that cannot leave."""
    reasons = []
    for given in ({"failure": "the driver knows no capacity"}, {"left": {f"v{n}": "no room" for n in range(7)}}):
        harness = RolloutHarness(WEB, "ann rolls out k: drain hosts=h1")
        harness.advance()
        harness.give(DrainRolloutHost(id=harness.new_id(), by=NODE, rollout="k", host="h1", **given))
        assert harness.run("h1").step is HostStep.FAILED
        reasons.append(harness.run("h1").reason)
    assert reasons[0] == "the driver knows no capacity"
    assert reasons[1].endswith("first: v0: no room; v1: no room; v2: no room; v3: no room; v4: no room")


@pytest.mark.parametrize("is_in_maintenance", [False, True])
def test_a_host_that_is_left_out_is_uncordoned(is_in_maintenance: bool) -> None:  # noqa: FBT001
    """But not one that an operator works on."""
    harness = drained("drain")
    if is_in_maintenance:
        harness.give(SetMaintenance(id=harness.new_id(), by=ANN, host="h9", is_in_maintenance=True))
    harness.say("ann skips h9 of rollout k")
    assert harness.run("h9").step is HostStep.SKIPPED
    assert ("h9" in harness.fleet.cordoned) == is_in_maintenance


@pytest.mark.parametrize("operation", ["drain", "command"])
def test_a_host_that_an_operator_cordoned_before_stays_cordoned(operation: str) -> None:
    """Whether it is left out or done."""
    left_out = drained(operation, "ann cordons host h9")
    left_out.say("ann skips h9 of rollout k")
    assert "h9" in left_out.fleet.cordoned
    done = drained(operation, "ann cordons host h9")
    done.advance()
    if operation == "command":
        done.say("the command on h9 of rollout k ends with 0")
    assert (done.run("h9").step, "h9" in done.fleet.cordoned) == (HostStep.SETTLING, True)


def test_a_drained_host_stays_cordoned() -> None:
    """It is the rollout that cordoned it, so that a retry would uncordon it."""
    harness = drained("drain")
    harness.advance()
    run = harness.run("h9")
    assert (run.step, run.is_cordoned, "h9" in harness.fleet.cordoned) == (HostStep.SETTLING, True, True)


@pytest.mark.parametrize("is_in_maintenance", [False, True])
def test_a_host_is_uncordoned_after_its_command(is_in_maintenance: bool) -> None:  # noqa: FBT001
    """But not while it is in maintenance; its exit status is kept."""
    harness = drained("command")
    harness.advance()
    if is_in_maintenance:
        harness.give(SetMaintenance(id=harness.new_id(), by=ANN, host="h9", is_in_maintenance=True))
    harness.say("the command on h9 of rollout k ends with 0")
    run = harness.run("h9")
    assert (run.step, run.exit_status) == (HostStep.SETTLING, 0)
    assert (run.is_cordoned, "h9" in harness.fleet.cordoned) == (is_in_maintenance, is_in_maintenance)


@pytest.mark.parametrize(("canary", "seconds"), [("", 5), (" canary_settle=9", 9)])
def test_canaries_settle_as_others_where_nothing_else_is_stated(canary: str, seconds: int) -> None:
    """From the end of their operation on."""
    harness = RolloutHarness(EMPTY, f"ann rolls out k: reboot hosts=h9 canary=1 settle=5{canary}")
    harness.advance()
    assert harness.run("h9").until == NOON + timedelta(seconds=seconds)


def test_failures_that_an_operator_resumed_after_count_no_more() -> None:
    """After two of them, one more is tolerated again."""
    harness = RolloutHarness(WEB, "ann rolls out k: reboot all_hosts=true max_failures=1")
    harness.finish("k", failing=("h1", "h2"))
    assert harness.rollout.reason.endswith(", and 1 are tolerated")
    harness.say("ann resumes rollout k")
    harness.finish("k", failing=("h3",))
    (ended,) = harness.said(RolloutEnded)
    assert (ended.result, ended.failed) == (RolloutResult.COMPLETED, 3)


@pytest.mark.parametrize(
    ("policy", "state", "announced"),
    [("pause", RolloutState.PAUSED, HostStep.ANNOUNCED), ("stop", RolloutState.STOPPING, HostStep.SKIPPED)],
)
def test_a_failure_that_pauses_leaves_hosts_that_are_announced(
    policy: str, state: RolloutState, announced: HostStep
) -> None:
    """One that stops the rollout withdraws them."""
    harness = RolloutHarness(WEB, f"ann rolls out k: reboot hosts=h1,h2 parallel=2 asks=test on_failure={policy}")
    harness.advance()
    harness.say("h1 of rollout k answers with 0")
    failed = ReportHostCommand(
        id=harness.new_id(), by=NODE, rollout="k", host="h2", purpose=HostCommandPurpose.ASK, detail="unreachable"
    )
    harness.give(failed)
    assert (harness.rollout.state, harness.run("h1").step) == (state, announced)
    assert harness.rollout.reason == "host h2 failed: the command did not end: unreachable"


@pytest.mark.parametrize("step", [HostStep.COMMAND, HostStep.SETTLING])
def test_a_cancel_leaves_hosts_whose_vms_have_moved(step: HostStep) -> None:
    """The command ends, and the host settles."""
    harness = drained("command")
    harness.advance()
    if step is HostStep.SETTLING:
        harness.say("the command on h9 of rollout k ends with 0")
    harness.say("ann cancels rollout k")
    assert harness.run("h9").step is step
    harness.say("the command on h9 of rollout k ends with 0")
    harness.wait(5)
    (ended,) = harness.said(RolloutEnded)
    assert (ended.result, ended.done) == (RolloutResult.CANCELED, 1)


def test_only_what_moves_has_the_notice_of_a_live_move() -> None:
    """A reboot has its own, also where the driver moves guests live."""
    rules = Rules(notices={**DEFAULT_NOTICES, EventType.FREEZE: timedelta(hours=1)})
    for operation, hours in {"reboot": 0.25, "redeploy": 1, "drain": 1}.items():
        harness = RolloutHarness(WEB, f"ann rolls out k: {operation} hosts=h1")
        assert notice_of(harness.rollout, rules, live=True) == timedelta(hours=hours)
