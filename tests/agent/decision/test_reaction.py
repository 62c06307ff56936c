"""What the agent does next, told as stories: the world says what happens, the agent what it begins."""

from datetime import UTC, datetime, timedelta

import pytest

from forewarn.agent.decision.actions import HandlerTraits
from forewarn.agent.decision.approval_turn import Approver
from forewarn.agent.decision.facts import EventForgotten, HandlerSkipped
from forewarn.agent.decision.plan import HANDOVER, HandlerTerms, OnFailure
from forewarn.agent.decision.rules import ApprovalMode, Concern, EventRule
from forewarn.agent.handler import HandlerDone, HandlerFailed
from forewarn.agent.runtime.handler_runner import GRACE
from tests.agent.harness import START, DecisionHarness, decision_settings, event, started

GO_ON = OnFailure.GO_ON


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


def left_out(harness: DecisionHarness) -> dict[str, str]:
    return {fact.handler: fact.reason for fact in harness.facts if isinstance(fact, HandlerSkipped)}


def test_a_whole_cycle() -> None:
    """Prepare stage after stage, approve, wait, put back in reverse order, forget."""
    harness = DecisionHarness(decision_settings("drain", ("database", "cache"), "tell"))
    harness.show(event())
    assert harness.said() == ["do drain"]
    harness.end("drain")
    assert harness.said() == ["do database", "do cache"]
    harness.end("cache")
    assert harness.said() == []
    harness.end("database")
    assert harness.said() == ["do tell"]
    harness.end("tell")
    assert harness.said() == ["approve e1"]
    harness.approved()
    harness.show(started(event()))
    assert harness.said() == []
    harness.show()
    for handler in ("tell", "cache", "database", "drain"):
        assert harness.said() == [f"undo {handler}"]
        harness.end(handler)
    assert harness.said() == []
    assert harness.memory.events == {}


def test_what_was_kept_is_handed_to_undo() -> None:
    """Undo knows what do said was to be kept, also after the agent has begun anew."""
    harness = DecisionHarness(decision_settings("drain"))
    harness.show(event())
    harness.end("drain", HandlerDone(kept={"was": "ready"}))
    harness.crash(reboot=True)
    harness.show()

    assert harness.running["e1", "drain"].kept == {"was": "ready"}


def test_a_handler_that_is_done_is_not_run_again() -> None:
    """Neither when the same document comes again, nor when the event changes, nor after a crash."""
    harness = DecisionHarness(decision_settings("drain"))
    harness.show(event())
    harness.end("drain")
    harness.said()
    harness.show(event(), event("e2", resources=("web-1",)))
    harness.show(event(not_before=START + timedelta(minutes=20)))
    harness.crash()

    assert harness.said() == ["approve e1"]


def test_a_failed_handler_is_tried_again_as_often_as_it_says() -> None:
    """Each time after its pause; then the event goes on without it."""
    harness = DecisionHarness(
        decision_settings("drain", terms={"drain": HandlerTerms(retries=2, retry_after=seconds(5), on_failure=GO_ON)})
    )
    harness.show(event())
    for _ in range(2):
        assert harness.said() == ["do drain"]
        harness.fail("drain")
        assert harness.said() == []
        assert harness.wake_at == harness.now + seconds(5)
        harness.pass_time(seconds=5)
    assert harness.said() == ["do drain"]
    harness.fail("drain")

    assert harness.said() == ["approve e1"]


def test_a_final_failure_is_not_tried_again() -> None:
    """The handler itself knows that it is pointless."""
    harness = DecisionHarness(decision_settings("drain", terms={"drain": HandlerTerms(retries=5, on_failure=GO_ON)}))
    harness.show(event())
    harness.end("drain", HandlerFailed("no such server", final=True))

    assert harness.said() == ["do drain", "approve e1"]


def test_a_failure_that_holds_lets_the_rest_run_and_the_approval_be() -> None:
    """The event comes at its own time; what was done is put back after it."""
    harness = DecisionHarness(
        decision_settings("drain", "tell", terms={"drain": HandlerTerms(on_failure=OnFailure.HOLD)})
    )
    harness.show(event())
    harness.fail("drain")
    harness.end("tell")
    assert harness.said() == ["do drain", "do tell"]
    harness.show(started(event()))
    harness.show()

    assert harness.said() == ["undo tell"]


def test_a_failure_that_gives_up_ends_the_preparation() -> None:
    """Nothing more is run, nothing is approved, and each that is left out is told why."""
    harness = DecisionHarness(
        decision_settings("drain", "tell", "log", terms={"drain": HandlerTerms(on_failure=OnFailure.GIVE_UP)})
    )
    harness.show(event())
    harness.fail("drain")

    assert harness.said() == ["do drain"]
    assert left_out(harness) == {"tell": "handler drain failed", "log": "handler drain failed"}


def test_what_failed_is_put_back_too() -> None:
    """A handler that failed may have changed something."""
    harness = DecisionHarness(decision_settings("drain"))
    harness.show(event())
    harness.fail("drain")
    harness.said()
    harness.show()

    assert harness.said() == ["undo drain"]


def test_only_what_fits_is_run_the_most_important_first() -> None:
    """With half a minute of notice, the checkpoint is worth more than the drain before it."""
    terms = {
        "drain": HandlerTerms(takes=seconds(20)),
        "checkpoint": HandlerTerms(takes=seconds(20), importance=9),
        "tell": HandlerTerms(takes=seconds(2)),
    }
    harness = DecisionHarness(decision_settings("drain", "checkpoint", "tell", terms=terms))
    harness.show(event(type="Preempt", not_before=START + seconds(30)))

    assert harness.said() == ["do checkpoint"]
    assert left_out(harness) == {"drain": "it takes 20s, longer than the time left before NotBefore"}
    assert harness.running["e1", "checkpoint"].deadline == START + seconds(30 - 1 - 2) - HANDOVER


def test_a_deadline_leaves_later_handlers_their_time() -> None:
    """A handler that hangs may not take what another one needs."""
    terms = {
        "drain": HandlerTerms(takes=seconds(5), timeout=seconds(60)),
        "checkpoint": HandlerTerms(takes=seconds(20)),
    }
    harness = DecisionHarness(decision_settings("drain", "checkpoint", terms=terms))
    harness.show(event(not_before=START + seconds(40)))

    assert harness.running["e1", "drain"].deadline == START + seconds(40 - 1 - 20) - HANDOVER


def test_what_took_too_long_costs_the_least_important() -> None:
    """What still fits is looked at anew before every stage."""
    terms = {
        "drain": HandlerTerms(takes=seconds(5)),
        "slow": HandlerTerms(takes=seconds(20)),
        "tell": HandlerTerms(takes=seconds(1)),
    }
    harness = DecisionHarness(decision_settings("drain", "slow", "tell", terms=terms))
    harness.show(event(not_before=START + seconds(30)))
    harness.said()
    harness.pass_time(seconds=15)
    harness.end("drain")

    assert harness.said() == ["do tell"]
    assert left_out(harness) == {"slow": "it takes 20s, longer than the time left before NotBefore"}


def test_what_comes_too_late_is_left_out() -> None:
    """In the last second before NotBefore nothing is begun any more; the reason says so."""
    harness = DecisionHarness(decision_settings("tell"))
    harness.show(event(not_before=START + seconds(1)))

    assert left_out(harness) == {"tell": "no time is left before NotBefore"}


def test_a_started_event_is_not_prepared_for() -> None:
    """It may happen at any moment; what waits is left out, and what runs may end."""
    harness = DecisionHarness(decision_settings("drain", "tell"))
    harness.show(event())
    harness.show(started(event()))
    harness.end("drain")

    assert harness.said() == ["do drain"]
    assert left_out(harness) == {"tell": "the event has started"}


def test_a_late_rule_prepares_for_a_started_event() -> None:
    """Hardware that failed gives no notice, and somebody may want to be told all the same."""
    harness = DecisionHarness(decision_settings("tell", rule=EventRule(name="late", late=True)))
    harness.show(started(event()))
    harness.end("tell")

    assert harness.said() == ["do tell"]


@pytest.mark.parametrize("is_started", [False, True])
def test_an_event_that_is_canceled_stops_its_preparation(is_started: bool) -> None:  # noqa: FBT001 - a case
    """The handler is told; once it has returned, it is put back."""
    harness = DecisionHarness(decision_settings("drain"))
    harness.show(event())
    if is_started:
        harness.show(started(event()))
    harness.said()
    harness.show()
    assert harness.said() == ["stop drain"]
    harness.fail("drain", "stopped")

    assert harness.said() == ["undo drain"]


@pytest.mark.parametrize("is_asked", [False, True])
def test_an_undo_that_waits_for_an_earlier_call_delays_no_other_undo_for_long(*, is_asked: bool) -> None:
    """The event is forgotten only after both."""
    harness = DecisionHarness(
        decision_settings(
            "drain",
            "switch",
            terms={"switch": HandlerTerms(retries=1)},
            traits={"switch": HandlerTraits(repeats=False, shared=False)},
        )
    )
    harness.show(event())
    harness.end("drain")
    harness.give_up("switch")
    harness.show()
    assert harness.said() == ["do drain", "do switch", "undo switch"]
    if is_asked:
        harness.give_up("switch")
        harness.pass_time(seconds=3)
        assert harness.said() == ["ask switch"]
    harness.pass_time(seconds=50)
    assert harness.said() == []
    harness.pass_time(seconds=15)
    assert harness.said() == ["undo drain"]
    harness.end("drain")
    assert "e1" in harness.memory.events
    harness.end("switch")

    assert harness.facts[-1] == EventForgotten("e1", ("drain", "switch"))


def test_a_handler_that_left_the_configuration_is_told_and_forgotten() -> None:
    """Nobody can undo what nobody describes any more; the event does not stay for ever."""
    harness = DecisionHarness(decision_settings("drain"))
    harness.show(event())
    harness.end("drain")
    harness.decision_settings = decision_settings()
    harness.show()

    assert harness.facts[-1] == EventForgotten("e1", (), ("drain",))


def test_what_could_not_be_put_back_is_named_when_the_event_is_forgotten() -> None:
    """What was tried again with success is not."""
    harness = DecisionHarness(decision_settings("drain", "tell", "log", terms={"log": HandlerTerms(retries=1)}))
    harness.show(event())
    for name in ("drain", "tell", "log"):
        harness.end(name)
    harness.show()
    harness.fail("log")
    harness.pass_time(seconds=5)
    harness.end("log")
    harness.fail("tell")
    harness.end("drain")

    assert harness.facts[-1] == EventForgotten("e1", ("drain", "log"), ("tell",))


def test_an_event_that_comes_back_is_prepared_for_anew() -> None:
    """An endpoint may lose an event and find it again."""
    harness = DecisionHarness(decision_settings("drain"))
    harness.show(event())
    harness.end("drain")
    harness.show()
    harness.said()
    harness.show(event())
    assert harness.said() == []
    harness.end("drain")

    assert harness.said() == ["do drain"]


def test_an_approval_waits_for_whoever_holds() -> None:
    """Until the holder says ready, or its time is up."""
    harness = DecisionHarness(decision_settings("drain"))
    harness.show(event())
    harness.hold("database", seconds=60)
    harness.hold("cache", seconds=90)
    harness.end("drain")
    harness.release("database")
    assert harness.said() == ["do drain"]
    assert harness.wake_at == START + seconds(90)
    harness.pass_time(seconds=90)

    assert harness.said() == ["approve e1"]


def test_an_approval_waits_for_the_last_who_holds() -> None:
    """The others' time may be up before."""
    harness = DecisionHarness(decision_settings("drain"))
    harness.show(event())
    harness.hold("database", seconds=60)
    harness.hold("cache", seconds=90)
    harness.end("drain")
    harness.pass_time(seconds=60)
    assert harness.said() == ["do drain"]
    harness.pass_time(seconds=30)

    assert harness.said() == ["approve e1"]


@pytest.mark.parametrize(
    ("approval", "said"), [(ApprovalMode.AT_ONCE, ["do drain", "approve e1"]), (ApprovalMode.NEVER, ["do drain"])]
)
def test_when_an_event_is_approved_is_the_rules_choice(approval: ApprovalMode, said: list[str]) -> None:
    """At once means beside the handlers; never leaves it to NotBefore."""
    harness = DecisionHarness(decision_settings("drain", rule=EventRule(name="some", approval=approval)))
    harness.show(event())

    assert harness.said() == said


def test_the_leader_approves_and_the_next_takes_over() -> None:
    """The second name in Resources waits as long as the leader may stay silent."""
    harness = DecisionHarness(decision_settings())
    harness.show(event(resources=("WEB-9", "WEB-0")))
    assert harness.said() == []
    assert harness.wake_at == START + timedelta(minutes=5)
    harness.pass_time(minutes=5)

    assert harness.said() == ["approve e1"]


def test_each_approves_for_itself() -> None:
    """Where the group wants the approval of all, nobody waits for a leader."""
    harness = DecisionHarness(decision_settings(approver=Approver.EACH))
    harness.show(event(resources=("web-9", "web-0")))

    assert harness.said() == ["approve e1"]


def test_the_coordinator_is_asked_until_it_agrees() -> None:
    """No is not now: it is asked again after a while."""
    harness = DecisionHarness(decision_settings(approver=Approver.COORDINATOR))
    harness.show(event())
    harness.consulted(agreed=False)
    assert harness.said() == ["consult e1"]
    harness.pass_time(seconds=10)
    assert harness.said() == ["consult e1"]
    harness.consulted(agreed=True)

    assert harness.said() == ["approve e1"]


def test_the_coordinator_is_asked_again_when_the_clock_is_set_back() -> None:
    """An answer from the future is old."""
    harness = DecisionHarness(decision_settings(approver=Approver.COORDINATOR))
    harness.show(event())
    harness.consulted(agreed=False)
    harness.said()
    harness.pass_time(hours=-1)

    assert harness.said() == ["consult e1"]


def test_an_approval_that_is_not_taken_is_sent_again_after_growing_pauses() -> None:
    """Two seconds, four, and so on, but never more than a minute, also across a restart of the agent."""
    harness = DecisionHarness(decision_settings())
    harness.show(event())
    pauses = []
    for _ in range(8):
        assert harness.said() == ["approve e1"]
        harness.not_approved()
        assert harness.said() == []
        harness.crash()
        assert harness.said() == []
        assert harness.wake_at is not None
        pauses.append((harness.wake_at - harness.now).total_seconds())
        harness.pass_time(seconds=pauses[-1])

    assert pauses == [2, 4, 8, 16, 32, 60, 60, 60]


@pytest.mark.parametrize("approval", [ApprovalMode.WHEN_READY, ApprovalMode.AT_ONCE])
def test_what_is_due_is_not_approved(approval: ApprovalMode) -> None:
    """It comes without; and who was left no time by it, or by a clock that is ahead, is not ready."""
    harness = DecisionHarness(decision_settings("drain", rule=EventRule(name="all", approval=approval)))
    harness.show(event(not_before=START))

    assert harness.said() == []
    assert left_out(harness) == {"drain": "no time is left before NotBefore"}


def test_an_approval_that_is_not_taken_is_not_sent_after_not_before() -> None:
    """The event begins without it."""
    harness = DecisionHarness(decision_settings())
    harness.show(event(not_before=START + timedelta(seconds=5)))
    harness.not_approved()
    harness.pass_time(seconds=2)
    harness.not_approved()
    harness.said()
    harness.pass_time(seconds=4)

    assert harness.said() == []
    assert harness.wake_at is None


def test_an_approval_that_is_not_taken_is_sent_at_once_when_the_event_changes() -> None:
    """The endpoint may think otherwise of it now."""
    harness = DecisionHarness(decision_settings())
    harness.show(event())
    harness.not_approved()
    harness.said()
    harness.show(event(not_before=START + timedelta(minutes=20)))

    assert harness.said() == ["approve e1"]


def test_the_coordinator_is_not_asked_again_for_an_approval_that_is_not_taken() -> None:
    """It has agreed; only the endpoint has not."""
    harness = DecisionHarness(decision_settings(approver=Approver.COORDINATOR))
    harness.show(event())
    harness.consulted(agreed=True)
    harness.not_approved()
    harness.said()
    harness.pass_time(seconds=3)

    assert harness.said() == ["approve e1"]


def test_nobody_approves_what_happens_to_others() -> None:
    """Only those whom it happens to know whether they are ready."""
    harness = DecisionHarness(decision_settings("tell", rule=EventRule(name="others", concerns=Concern.OTHERS)))
    harness.show(event(resources=("web-1",)))
    harness.end("tell")

    assert harness.said() == ["do tell"]


def test_without_a_rule_nothing_is_done() -> None:
    """Not even approved: nobody said that this VM is ready for it."""
    harness = DecisionHarness(decision_settings("drain", rule=EventRule(name="freezes", types=())))
    harness.show(event(resources=("web-1",)))

    assert harness.said() == []


def test_an_event_that_comes_back_is_not_approved_while_it_is_being_put_back() -> None:
    """It is approved again, and only after it was prepared for again."""
    harness = DecisionHarness(decision_settings("drain"))
    harness.show(event())
    harness.end("drain")
    harness.approved()
    harness.show()
    assert harness.said() == ["do drain", "approve e1", "undo drain"]
    harness.show(event())
    assert harness.said() == []
    harness.end("drain")
    assert harness.said() == ["do drain"]
    harness.end("drain")

    assert harness.said() == ["approve e1"]


def test_what_was_left_out_for_want_of_time_is_done_when_the_event_is_postponed() -> None:
    """An operator, or a VM of the group, gave it more time."""
    harness = DecisionHarness(
        decision_settings("drain", terms={"drain": HandlerTerms(takes=seconds(20), on_failure=OnFailure.HOLD)})
    )
    harness.show(event(not_before=START + seconds(10)))
    assert harness.said() == []
    harness.show(event(not_before=START + seconds(60)))

    assert harness.said() == ["do drain"]


def test_an_event_that_is_to_come_again_is_prepared_for() -> None:
    """A service may take back that it has started."""
    harness = DecisionHarness(decision_settings("drain"))
    harness.show(started(event()))
    assert harness.said() == []
    harness.show(event())

    assert harness.said() == ["do drain"]


def test_a_call_under_way_is_fitted_to_a_time_that_was_moved() -> None:
    """Whoever comes after it finds its time also when NotBefore is earlier than it was."""
    terms = {"drain": HandlerTerms(timeout=seconds(600)), "checkpoint": HandlerTerms(takes=seconds(20))}
    harness = DecisionHarness(decision_settings("drain", "checkpoint", terms=terms))
    harness.show(event())
    assert harness.running["e1", "drain"].deadline == START + seconds(600)
    harness.show(event(not_before=START + seconds(60)))

    assert harness.stops["e1", "drain"] == START + seconds(60 - 1 - 20) - HANDOVER


@pytest.mark.parametrize("moved_to", [60, 45, 24])
def test_the_next_handler_keeps_its_time_when_not_before_moves_earlier(moved_to: int) -> None:
    """Also if the call that was told to stop needs the whole second of grace, and some milliseconds more."""
    terms = {"drain": HandlerTerms(timeout=seconds(600)), "checkpoint": HandlerTerms(takes=seconds(20))}
    harness = DecisionHarness(decision_settings("drain", "checkpoint", terms=terms))
    harness.show(event())
    harness.show(event(not_before=START + seconds(moved_to)))
    at = harness.stops["e1", "drain"]
    assert at is not None
    harness.now = at + seconds(GRACE) + timedelta(milliseconds=40)
    harness.said()
    harness.fail("drain", "it was told to stop")

    assert harness.said() == ["do checkpoint"]
    assert harness.running["e1", "checkpoint"].deadline == START + seconds(moved_to - 1)


def test_two_that_just_fit_lose_no_milliseconds_to_each_other() -> None:
    """The first may use all that it says it takes, and what passes until the second begins is not counted."""
    terms = {
        "drain": HandlerTerms(takes=seconds(9), timeout=seconds(60)),
        "checkpoint": HandlerTerms(takes=seconds(20)),
    }
    harness = DecisionHarness(decision_settings("drain", "checkpoint", terms=terms))
    harness.show(event())
    harness.show(event(not_before=START + seconds(30)))
    assert harness.stops["e1", "drain"] == START + seconds(9)
    harness.now = START + seconds(9) + timedelta(milliseconds=40)
    harness.said()
    harness.end("drain")

    assert harness.said() == ["do checkpoint"]


def test_a_call_is_not_cut_for_one_that_does_not_fit_any_more() -> None:
    """It has all the time that is left."""
    terms = {"drain": HandlerTerms(timeout=seconds(600)), "checkpoint": HandlerTerms(takes=seconds(20))}
    harness = DecisionHarness(decision_settings("drain", "checkpoint", terms=terms))
    harness.show(event())
    harness.show(event(not_before=START + seconds(22)))

    assert harness.stops["e1", "drain"] == START + seconds(21)


def test_a_pause_ends_when_the_clock_is_set_back() -> None:
    """A failure that seems to lie in the future was long enough ago."""
    harness = DecisionHarness(
        decision_settings("drain", terms={"drain": HandlerTerms(retries=1, retry_after=seconds(5))})
    )
    harness.show(event())
    harness.fail("drain")
    harness.said()
    harness.pass_time(hours=-1)

    assert harness.said() == ["do drain"]


@pytest.mark.parametrize(("year", "said"), [(1, []), (9999, ["do drain"])])
def test_no_time_that_a_service_may_say_is_too_much(year: int, said: list[str]) -> None:
    """The ends of the calendar are times like others: one long past, one far ahead."""
    harness = DecisionHarness(
        decision_settings("drain", ("tell", "log"), terms={"drain": HandlerTerms(takes=seconds(5))})
    )
    harness.show(event(not_before=datetime(year, 1, 1, tzinfo=UTC)))
    harness.show(event(not_before=datetime(year, 1, 1, tzinfo=UTC), description="still"))

    assert harness.said() == said


def test_who_holds_and_succeeds_is_not_in_the_way() -> None:
    """Holding the approval is for failures."""
    harness = DecisionHarness(decision_settings("drain", terms={"drain": HandlerTerms(on_failure=OnFailure.HOLD)}))
    harness.show(event())
    harness.end("drain")

    assert harness.said() == ["do drain", "approve e1"]


def test_what_is_still_open_is_looked_at_when_the_time_has_come() -> None:
    """Nothing else may happen before NotBefore."""
    harness = DecisionHarness(decision_settings("drain"))
    harness.show(event())

    assert harness.wake_at == event().not_before


def test_nothing_is_put_back_while_anything_is_still_being_done() -> None:
    """The order would be lost."""
    harness = DecisionHarness(decision_settings(("database", "cache")))
    harness.show(event())
    harness.end("cache")
    harness.said()
    harness.show()
    assert harness.said() == ["stop database"]
    harness.end("database")

    assert harness.said() == ["undo cache"]


def test_what_was_put_back_before_an_event_came_back_is_done_again_in_order() -> None:
    """And is not put back twice."""
    harness = DecisionHarness(decision_settings("drain", "tell"))
    harness.show(event())
    harness.end("drain")
    harness.end("tell")
    harness.show()
    harness.end("tell")
    harness.said()
    harness.show(event())
    for handler in ("drain", "drain", "tell"):
        harness.end(handler)

    assert harness.said() == ["do drain", "do tell", "approve e1"]
