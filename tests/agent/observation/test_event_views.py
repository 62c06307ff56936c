"""What others are told of the agent's work."""

from datetime import timedelta

import pytest

from forewarn.agent.decision.approval_turn import Approver
from forewarn.agent.decision.facts import CoordinatorConsulted
from forewarn.agent.decision.plan import HandlerTerms, OnFailure
from forewarn.agent.decision.rules import ApprovalMode, EventRule
from forewarn.agent.handler import Direction, HandlerDone
from forewarn.agent.observation.event_views import make_event_views
from forewarn.agent.observation.status import ApprovalState, EventStatusView, StepState
from tests.agent.harness import START, DecisionHarness, decision_settings, event, started


def look(harness: DecisionHarness) -> EventStatusView:
    (view,) = make_event_views(harness.memory, harness.decision_settings, harness.now)
    return view


def states(harness: DecisionHarness) -> dict[str, StepState]:
    return {step.handler: step.state for step in look(harness).steps}


def test_every_handler_is_told_with_its_state() -> None:
    """Also those that have not begun yet, in the order in which they are run."""
    harness = DecisionHarness(decision_settings("drain", "database", "tell"))
    harness.show(event())
    harness.end("drain", HandlerDone(detail="3 sessions ended"))

    assert states(harness) == {"drain": "done", "database": "running", "tell": "waiting"}
    assert look(harness).steps[0].detail == "3 sessions ended"
    assert look(harness).rule == "all"


def test_what_is_left_out_or_failed_says_why() -> None:
    """One sentence each."""
    harness = DecisionHarness(
        decision_settings("drain", "tell", terms={"drain": HandlerTerms(on_failure=OnFailure.GIVE_UP)})
    )
    harness.show(event())
    harness.fail("drain", "no such server")

    assert [(step.state, step.detail) for step in look(harness).steps] == [
        (StepState.FAILED, "no such server"),
        (StepState.LEFT_OUT, "handler drain failed"),
    ]


def test_the_attempts_of_a_handler_are_counted() -> None:
    """None before it was called, and one more for each time it is called again."""
    terms = {"drain": HandlerTerms(retries=1, retry_after=timedelta(0))}
    harness = DecisionHarness(decision_settings("drain", "tell", terms=terms))
    harness.show(event())
    harness.fail("drain", "no such server")

    assert [(step.handler, step.attempt) for step in look(harness).steps] == [("drain", 2), ("tell", 0)]


def test_an_undo_that_waits_for_an_earlier_call_says_so() -> None:
    """It has not begun yet, though the memory says so."""
    harness = DecisionHarness(decision_settings("drain"))
    harness.show(event())
    harness.give_up("drain")
    harness.show()
    (view,) = make_event_views(
        harness.memory, harness.decision_settings, harness.now, waiting_calls=[("e1", "drain"), ("e2", "tell")]
    )

    assert [(step.direction, step.state, step.detail) for step in view.steps] == [
        (Direction.UNDO, StepState.WAITING, "waits until an earlier call of the handler has returned")
    ]


def test_what_is_put_back_is_told_as_such() -> None:
    """Undone is not done."""
    harness = DecisionHarness(decision_settings("drain", "tell"))
    harness.show(event())
    harness.end("drain")
    harness.end("tell")
    harness.show(started(event()))
    harness.show()
    harness.end("tell")

    assert [(step.direction, step.state) for step in look(harness).steps] == [
        (Direction.UNDO, StepState.RUNNING),
        (Direction.UNDO, StepState.UNDONE),
    ]


def test_a_call_that_was_cut_off_waits() -> None:
    """Until the handler was called again, or asked."""
    harness = DecisionHarness(decision_settings("drain"))
    harness.show(event())
    harness.memory.mark_calls_interrupted()

    assert states(harness) == {"drain": StepState.WAITING}


@pytest.mark.parametrize(
    ("rule", "state"),
    [
        (EventRule(name="some", approval=ApprovalMode.NEVER), ApprovalState.NEVER),
        (EventRule(name="some"), ApprovalState.WAITING),
    ],
)
def test_an_approval_is_told_as_the_rule_has_it(rule: EventRule, state: ApprovalState) -> None:
    """Whether it will come at all."""
    harness = DecisionHarness(decision_settings("drain", rule=rule))
    harness.show(event())

    assert look(harness).approval is state


def test_an_approval_that_is_held_names_the_holder() -> None:
    """And until when."""
    harness = DecisionHarness(decision_settings())
    harness.show(event(resources=("web-9", "web-0")))
    harness.hold("database", seconds=60)

    view = look(harness)

    assert view.approval is ApprovalState.HELD
    assert view.approval_detail == "held by database until 12:01:00 UTC at most"
    assert [hold.holder for hold in view.holds] == ["database"]


def test_an_approval_that_a_handler_forbids_names_it() -> None:
    """So that somebody can mend it."""
    harness = DecisionHarness(decision_settings("drain", terms={"drain": HandlerTerms(on_failure=OnFailure.HOLD)}))
    harness.show(event())
    harness.fail("drain")

    assert look(harness).approval is ApprovalState.HELD
    assert look(harness).approval_detail.endswith("not approved; it starts at its NotBefore, 12:15:00 UTC")
    assert (look(harness).waits_for, look(harness).waits_until) == (("drain",), START + timedelta(minutes=15))


def test_an_approval_that_was_sent_is_told_with_its_time() -> None:
    """Nothing more is to come from this VM."""
    harness = DecisionHarness(decision_settings())
    harness.show(event())
    harness.approved()

    assert (look(harness).approval, look(harness).approval_detail) == (ApprovalState.SENT, "approved at 12:00:00 UTC")


def test_what_happens_to_others_is_not_ours_to_approve() -> None:
    """Unless a coordinator decides for all."""
    harness = DecisionHarness(decision_settings())
    harness.show(event(resources=("web-1",)))

    assert look(harness).approval is ApprovalState.NOT_OURS
    assert not look(harness).concerns_me


def test_a_coordinator_may_approve_for_others() -> None:
    """It looks beyond its own VM; but only where a rule fits."""
    harness = DecisionHarness(decision_settings(approver=Approver.COORDINATOR))
    harness.show(event())

    assert look(harness).approval is ApprovalState.WAITING


def test_a_coordinator_that_does_not_agree_is_quoted() -> None:
    """So that somebody can see what is waited for."""
    harness = DecisionHarness(decision_settings(approver=Approver.COORDINATOR))
    harness.show(event())
    harness.hear(CoordinatorConsulted("e1", agreed=False, at=harness.now, detail="only 1 are healthy"))

    assert look(harness).approval is ApprovalState.WAITING
    assert look(harness).approval_detail == (
        "the coordinator does not agree yet: only 1 are healthy; it is asked again at 12:00:10 UTC"
    )


def test_what_is_due_is_said_to_come_without_an_approval() -> None:
    """Nobody waits for one any more."""
    harness = DecisionHarness(decision_settings())
    harness.show(event(not_before=START))

    assert look(harness).approval is ApprovalState.WAITING
    assert look(harness).approval_detail == "its NotBefore has passed: it starts without approval"


def test_an_approval_that_is_being_sent_waits_for_nobody() -> None:
    """Everything is ready, and the agent has the turn."""
    harness = DecisionHarness(decision_settings())
    harness.show(event())

    view = look(harness)

    assert (view.approval, view.approval_detail, view.waits_for) == (ApprovalState.WAITING, "", ())


def test_an_approval_that_is_not_taken_says_why() -> None:
    """It is being sent again."""
    harness = DecisionHarness(decision_settings())
    harness.show(event())
    harness.not_approved(reason="it answers 403")

    assert look(harness).approval is ApprovalState.WAITING
    assert look(harness).approval_detail == "the approval failed: it answers 403; it is sent again at 12:00:02 UTC"


def test_an_approval_that_waits_for_handlers_names_them_and_their_deadlines() -> None:
    """Those that run, those that are tried again, and those that come later."""
    harness = DecisionHarness(
        decision_settings(
            ("drain", "tell"), "log", terms={"tell": HandlerTerms(retries=1, retry_after=timedelta(seconds=5))}
        )
    )
    harness.show(event())
    harness.fail("tell")

    assert look(harness).approval is ApprovalState.WAITING
    assert look(harness).approval_detail == (
        "waits for drain (until 12:01:00 UTC), tell (retry at 12:00:05 UTC) and log"
    )
    assert look(harness).waits_for == ("drain", "tell", "log")
    assert look(harness).waits_until == START + timedelta(minutes=1)


def test_an_approval_that_another_vm_gives_first_names_it() -> None:
    """And when this VM takes over."""
    harness = DecisionHarness(decision_settings())
    harness.show(event(resources=("web-9", "web-0")))

    assert (
        look(harness).approval_detail == "waits for web-9, which approves first; this VM takes over at 12:05:00 UTC"
    )
    assert (look(harness).waits_for, look(harness).waits_until) == (("web-9",), START + timedelta(minutes=5))


def test_an_approval_that_is_never_given_tells_when_the_event_begins() -> None:
    """It waits for NotBefore alone."""
    harness = DecisionHarness(decision_settings(rule=EventRule(name="calm", approval=ApprovalMode.NEVER)))
    harness.show(event())

    assert (
        look(harness).approval_detail
        == "rule 'calm' has approval = \"never\"; it starts at its NotBefore, 12:15:00 UTC"
    )
    assert (look(harness).waits_for, look(harness).waits_until) == (("NotBefore",), START + timedelta(minutes=15))


def test_an_approval_that_two_programs_hold_names_both() -> None:
    """It waits for the later of them."""
    harness = DecisionHarness(decision_settings())
    harness.show(event())
    harness.hold("database", seconds=60)
    harness.hold("cache", seconds=90)

    assert look(harness).approval_detail == (
        "held by database until 12:01:00 UTC at most and cache until 12:01:30 UTC at most"
    )
    assert look(harness).waits_until == START + timedelta(seconds=90)


def test_an_approval_that_the_coordinator_is_asked_for_says_so() -> None:
    """Its answer is waited for."""
    harness = DecisionHarness(decision_settings(approver=Approver.COORDINATOR))
    harness.show(event())

    assert (look(harness).approval_detail, look(harness).waits_for) == ("waits for the coordinator", ("coordinator",))
