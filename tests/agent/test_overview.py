"""What others are told of the agent's work."""

from datetime import timedelta

import pytest

from forewarn.agent.approving import Approver
from forewarn.agent.facts import Consulted
from forewarn.agent.handler import Direction, Done
from forewarn.agent.overview import overview
from forewarn.agent.plan import OnFailure, Terms
from forewarn.agent.rules import Approval, Rule
from forewarn.agent.status import ApprovalState, EventStatusView, StepState
from tests.agent.world import START, World, agenda, event, started


def look(world: World) -> EventStatusView:
    (view,) = overview(world.memory, world.agenda, world.now)
    return view


def states(world: World) -> dict[str, StepState]:
    return {step.handler: step.state for step in look(world).steps}


def test_every_handler_is_told_with_its_state() -> None:
    """Also those that have not begun yet, in the order in which they are run."""
    world = World(agenda("drain", "database", "tell"))
    world.show(event())
    world.end("drain", Done(detail="3 sessions ended"))

    assert states(world) == {"drain": "done", "database": "running", "tell": "waiting"}
    assert look(world).steps[0].detail == "3 sessions ended"
    assert look(world).rule == "all"


def test_what_is_left_out_or_failed_says_why() -> None:
    """One sentence each."""
    world = World(agenda("drain", "tell", terms={"drain": Terms(on_failure=OnFailure.GIVE_UP)}))
    world.show(event())
    world.fail("drain", "no such server")

    assert [(step.state, step.detail) for step in look(world).steps] == [
        (StepState.FAILED, "no such server"),
        (StepState.LEFT_OUT, "drain failed"),
    ]


def test_what_is_put_back_is_told_as_such() -> None:
    """Undone is not done."""
    world = World(agenda("drain", "tell"))
    world.show(event())
    world.end("drain")
    world.end("tell")
    world.show(started(event()))
    world.show()
    world.end("tell")

    assert [(step.direction, step.state) for step in look(world).steps] == [
        (Direction.UNDO, StepState.RUNNING),
        (Direction.UNDO, StepState.UNDONE),
    ]


def test_a_call_that_was_cut_off_waits() -> None:
    """Until the handler was called again, or asked."""
    world = World(agenda("drain"))
    world.show(event())
    world.memory.cut_off()

    assert states(world) == {"drain": StepState.WAITING}


@pytest.mark.parametrize(
    ("rule", "state"),
    [(Rule(name="some", approval=Approval.NEVER), ApprovalState.NEVER), (Rule(name="some"), ApprovalState.WAITING)],
)
def test_an_approval_is_told_as_the_rule_has_it(rule: Rule, state: ApprovalState) -> None:
    """Whether it will come at all."""
    world = World(agenda("drain", rule=rule))
    world.show(event())

    assert look(world).approval is state


def test_an_approval_that_is_held_names_the_holder() -> None:
    """And until when."""
    world = World(agenda())
    world.show(event(resources=("web-9", "web-0")))
    world.hold("database", seconds=60)

    view = look(world)

    assert view.approval is ApprovalState.HELD
    assert view.approval_detail == "held by database until 12:01:00 UTC at most"
    assert [hold.holder for hold in view.holds] == ["database"]


def test_an_approval_that_a_handler_forbids_names_it() -> None:
    """So that somebody can mend it."""
    world = World(agenda("drain", terms={"drain": Terms(on_failure=OnFailure.HOLD)}))
    world.show(event())
    world.fail("drain")

    assert look(world).approval is ApprovalState.HELD
    assert look(world).approval_detail.endswith("not approved; it begins at its NotBefore, 12:15:00 UTC")
    assert (look(world).waits_for, look(world).waits_until) == (("drain",), START + timedelta(minutes=15))


def test_an_approval_that_was_sent_is_told_with_its_time() -> None:
    """Nothing more is to come from this VM."""
    world = World(agenda())
    world.show(event())
    world.approved()

    assert (look(world).approval, look(world).approval_detail) == (ApprovalState.SENT, "approved at 12:00:00 UTC")


def test_what_happens_to_others_is_not_ours_to_approve() -> None:
    """Unless a coordinator decides for all."""
    world = World(agenda())
    world.show(event(resources=("web-1",)))

    assert look(world).approval is ApprovalState.NOT_OURS
    assert not look(world).concerns_me


def test_a_coordinator_may_approve_for_others() -> None:
    """It looks beyond its own VM; but only where a rule fits."""
    world = World(agenda(approver=Approver.COORDINATOR))
    world.show(event())

    assert look(world).approval is ApprovalState.WAITING


def test_a_coordinator_that_does_not_agree_is_quoted() -> None:
    """So that somebody can see what is waited for."""
    world = World(agenda(approver=Approver.COORDINATOR))
    world.show(event())
    world.hear(Consulted("e1", agreed=False, at=world.now, detail="only 1 are healthy"))

    assert look(world).approval is ApprovalState.WAITING
    assert look(world).approval_detail == (
        "the coordinator does not agree yet: only 1 are healthy; it is asked again at 12:00:10 UTC"
    )


def test_what_is_due_is_said_to_come_without_an_approval() -> None:
    """Nobody waits for one any more."""
    world = World(agenda())
    world.show(event(not_before=START))

    assert look(world).approval is ApprovalState.WAITING
    assert look(world).approval_detail == "its time has come: it begins without"


def test_an_approval_that_is_not_taken_says_why() -> None:
    """It is being sent again."""
    world = World(agenda())
    world.show(event())
    world.not_approved(reason="it answers 403")

    assert look(world).approval is ApprovalState.WAITING
    assert look(world).approval_detail == "not taken yet: it answers 403; it is sent again at 12:00:02 UTC"


def test_an_approval_that_waits_for_handlers_names_them_and_their_deadlines() -> None:
    """Those that run, those that are tried again, and those that come later."""
    world = World(
        agenda(("drain", "tell"), "log", terms={"tell": Terms(retries=1, retry_after=timedelta(seconds=5))})
    )
    world.show(event())
    world.fail("tell")

    assert look(world).approval is ApprovalState.WAITING
    assert look(world).approval_detail == (
        "waits for drain (until 12:01:00 UTC), tell (tried again at 12:00:05 UTC) and log"
    )
    assert look(world).waits_for == ("drain", "tell", "log")
    assert look(world).waits_until == START + timedelta(minutes=1)


def test_an_approval_that_another_vm_gives_first_names_it() -> None:
    """And when this VM takes over."""
    world = World(agenda())
    world.show(event(resources=("web-9", "web-0")))

    assert look(world).approval_detail == "waits for web-9, which approves first; this VM takes over at 12:05:00 UTC"
    assert (look(world).waits_for, look(world).waits_until) == (("web-9",), START + timedelta(minutes=5))


def test_an_approval_that_is_never_given_tells_when_the_event_begins() -> None:
    """It waits for NotBefore alone."""
    world = World(agenda(rule=Rule(name="calm", approval=Approval.NEVER)))
    world.show(event())

    assert look(world).approval_detail == "the rule 'calm' says never; it begins at its NotBefore, 12:15:00 UTC"
    assert (look(world).waits_for, look(world).waits_until) == (("NotBefore",), START + timedelta(minutes=15))


def test_an_approval_that_two_programs_hold_names_both() -> None:
    """It waits for the later of them."""
    world = World(agenda())
    world.show(event())
    world.hold("database", seconds=60)
    world.hold("cache", seconds=90)

    assert look(world).approval_detail == (
        "held by database until 12:01:00 UTC at most and cache until 12:01:30 UTC at most"
    )
    assert look(world).waits_until == START + timedelta(seconds=90)


def test_an_approval_that_the_coordinator_is_asked_for_says_so() -> None:
    """Its answer is waited for."""
    world = World(agenda(approver=Approver.COORDINATOR))
    world.show(event())

    assert (look(world).approval_detail, look(world).waits_for) == ("waits for the coordinator", ("coordinator",))
