"""What the agent does next, told as stories: the world says what happens, the agent what it begins."""

import time
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from forewarn.agent.decision.approval_turn import Approver
from forewarn.agent.decision.facts import DocumentShown, EventForgotten, HandlerSkipped
from forewarn.agent.decision.plan import HANDOVER, HandlerTerms, OnFailure
from forewarn.agent.decision.reaction import HandlerTraits
from forewarn.agent.decision.rules import ApprovalMode, Concern, EventRule
from forewarn.agent.decision.run_counters import HandlerRunCounts
from forewarn.agent.handler import Direction, HandlerDone, HandlerFailed, HandlerNotBegun, HandlerOutcome
from forewarn.agent.runtime.handler_runner import GRACE
from forewarn.core.model import EventType
from forewarn.wire.document import Document
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


def test_a_call_that_was_cut_off_is_made_again_if_it_repeats() -> None:
    """The attempt keeps its number: nothing failed."""
    harness = DecisionHarness(decision_settings("drain"))
    harness.show(event())
    harness.said()
    harness.crash()

    assert harness.said() == ["do drain"]
    assert harness.running["e1", "drain"].attempt == 1


def test_a_call_that_was_cut_off_is_asked_about_if_it_does_not_repeat() -> None:
    """What it answers counts as if it had returned."""
    harness = DecisionHarness(
        decision_settings("switch", traits={"switch": HandlerTraits(repeats=False, shared=False)})
    )
    harness.show(event())
    harness.crash()
    assert harness.said() == ["do switch", "ask switch"]
    harness.end("switch", HandlerDone())

    assert harness.said() == ["approve e1"]


def test_a_call_that_had_not_begun_is_made() -> None:
    """The handler promised that nothing is repeated."""
    harness = DecisionHarness(
        decision_settings("switch", traits={"switch": HandlerTraits(repeats=False, shared=False)})
    )
    harness.show(event())
    harness.crash()
    harness.said()
    harness.end("switch", HandlerNotBegun())

    assert harness.said() == ["do switch"]


def once() -> DecisionHarness:
    """Return an agent with a handler that does not repeat and may be retried once."""
    settings = decision_settings(
        "switch",
        terms={"switch": HandlerTerms(retries=1)},
        traits={"switch": HandlerTraits(repeats=False, shared=False)},
    )
    return DecisionHarness(settings)


@pytest.mark.parametrize("direction", Direction)
def test_a_call_that_was_given_up_is_asked_about_if_it_does_not_repeat(direction: Direction) -> None:
    """It may still have its effect, which counts; the question is about that attempt."""
    harness = once()
    harness.show(event())
    if direction is Direction.UNDO:
        harness.end("switch")
        harness.show()
    harness.give_up("switch")
    harness.said()
    harness.pass_time(seconds=3)
    assert harness.said() == ["ask switch"]
    assert harness.asked["e1", "switch"].attempt == 1
    harness.end("switch", HandlerDone())

    assert harness.said() == (["approve e1"] if direction is Direction.DO else [])
    assert harness.memory.counters.runs["switch"][direction] == HandlerRunCounts(failed=1)


def test_a_call_that_was_given_up_without_effect_is_a_failed_attempt() -> None:
    """It is made again, as often as retries say."""
    harness = once()
    harness.show(event())
    harness.give_up("switch")
    harness.pass_time(seconds=3)
    harness.said()
    harness.end("switch", HandlerNotBegun())
    assert harness.said() == ["do switch"]
    assert harness.running["e1", "switch"].attempt == 2
    harness.give_up("switch")
    harness.pass_time(seconds=3)

    assert harness.said() == []


def test_a_call_that_was_given_up_is_made_again_if_it_repeats() -> None:
    """Without a question, and as the next attempt."""
    harness = DecisionHarness(decision_settings("drain", terms={"drain": HandlerTerms(retries=1)}))
    harness.show(event())
    harness.give_up("drain")
    harness.said()
    harness.pass_time(seconds=3)

    assert harness.said() == ["do drain"]
    assert harness.running["e1", "drain"].attempt == 2


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


@pytest.mark.parametrize(
    ("outcome", "said"),
    [(HandlerDone(), ["approve e1"]), (HandlerNotBegun(), ["do switch"]), (HandlerFailed("unknown", final=True), [])],
)
@pytest.mark.parametrize("lost", ["everything", "that the call was begun"])
def test_a_first_call_is_asked_about_if_facts_were_lost(lost: str, outcome: HandlerOutcome, said: list[str]) -> None:
    """It may have been made. The handler is asked once."""
    harness = once()
    if lost == "everything":
        harness.memory.mark_doubtful("damage")
    else:
        harness.memory.evolve(DocumentShown(Document(1, (event(),)), START))
        harness.memory.mark_doubtful("damage")
    harness.show(event())
    assert harness.said() == ["ask switch"]
    harness.end("switch", outcome)
    harness.pass_time(seconds=3)

    assert harness.said() == said


def test_a_handler_that_repeats_is_not_asked_if_facts_were_lost() -> None:
    """A second call does no harm."""
    harness = DecisionHarness(decision_settings("drain"))
    harness.memory.mark_doubtful("damage")
    harness.show(event())

    assert harness.said() == ["do drain"]


def test_an_event_that_comes_after_facts_were_lost_is_not_asked_about() -> None:
    """Nothing was begun for it: the first document since then does not show it, also if that one is old."""
    harness = once()
    harness.show()
    harness.memory.mark_doubtful("damage")
    harness.crash()
    harness.show(event())

    assert harness.said() == ["do switch"]


def test_a_cut_off_undo_is_taken_up_again() -> None:
    """Also before the endpoint is heard for the first time."""
    harness = DecisionHarness(decision_settings("drain"))
    harness.show(event())
    harness.end("drain")
    harness.show()
    harness.said()
    harness.crash()

    assert harness.said() == ["undo drain"]


def test_a_cut_off_do_of_an_event_that_is_gone_is_put_back() -> None:
    """The VM was rebooted while it got ready: nothing is begun again, and what was begun is undone."""
    harness = DecisionHarness(decision_settings("drain"))
    harness.show(event())
    harness.said()
    harness.document = None
    harness.memory.mark_calls_interrupted()
    harness.running.clear()
    harness.show()

    assert harness.said() == ["undo drain"]


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


SHARED = {"drain": HandlerTraits(repeats=True, shared=True)}


def test_a_shared_handler_is_done_once_and_undone_after_the_last() -> None:
    """A server that is drained for one event is drained for the other too, and stays so until both are gone."""
    harness = DecisionHarness(decision_settings("drain", traits=SHARED))
    harness.show(event(), event("e2"))
    assert harness.said() == ["do drain"]
    harness.end("drain", HandlerDone(kept={"was": "ready"}))
    assert harness.said() == ["approve e1", "approve e2"]
    harness.show(event("e2"))
    assert harness.said() == []
    harness.show()

    assert harness.said() == ["undo drain"]
    assert harness.running["e2", "drain"].kept == {"was": "ready"}


def undo_failed_and_another_event_is_ready(*earlier: str) -> DecisionHarness:
    """Return an agent whose undo for e1 failed, and that has done the same shared handler for e2 since."""
    harness = DecisionHarness(
        decision_settings(*earlier, "drain", terms={"drain": HandlerTerms(retries=1)}, traits=SHARED)
    )
    harness.show(event())
    for handler in earlier:
        harness.end(handler)
    harness.end("drain", HandlerDone(kept={"was": "ready"}))
    harness.show(event("e2"))
    for handler in earlier:
        harness.end(handler, event="e2")
    harness.fail("drain")
    harness.said()
    harness.end("drain", HandlerDone(kept={"was": "drained"}), "e2")
    assert "approve e2" in harness.said()
    return harness


def test_an_undo_that_failed_is_repeated_after_the_last_event_that_needs_the_handler() -> None:
    """A server that was drained for another event meanwhile stays drained, and what was kept is used in the end."""
    harness = undo_failed_and_another_event_is_ready()
    harness.pass_time(minutes=5)
    assert harness.said() == []
    harness.crash(reboot=True)
    assert "undo drain" not in harness.said()
    harness.show()
    assert list(harness.running) == [("e2", "drain")]
    harness.end("drain", event="e2")
    assert harness.running["e1", "drain"].kept == {"was": "ready"}
    assert harness.running["e1", "drain"].attempt == 2
    harness.end("drain")

    assert harness.memory.events == {}


def test_an_undo_that_waits_for_another_event_delays_no_other_undo() -> None:
    """Handlers that only the event that is gone needed are undone at once."""
    harness = undo_failed_and_another_event_is_ready("tell")
    assert list(harness.running) == [("e1", "tell")]
    harness.end("tell")

    assert list(harness.memory.events) == ["e1", "e2"]


def test_an_interrupted_undo_is_dropped_when_its_event_and_another_need_the_handler() -> None:
    """The server is drained for the other event, so it is for this one too, until both are gone."""
    harness = DecisionHarness(decision_settings("drain", terms={"drain": HandlerTerms(retries=1)}, traits=SHARED))
    harness.show(event("e2"), event())
    harness.fail("drain", event="e2")
    harness.end("drain", HandlerDone(kept={"was": "ready"}))
    harness.show(event("e2"))
    assert list(harness.running) == [("e1", "drain")]
    harness.show(event("e2"), event())
    harness.pass_time(minutes=1)
    harness.crash()
    assert list(harness.running) == [("e2", "drain")]
    harness.said()
    harness.end("drain", event="e2")
    assert sorted(harness.said()) == ["approve e1", "approve e2"]
    harness.show(event())
    assert harness.said() == []
    harness.show()
    assert list(harness.running) == [("e2", "drain")]
    harness.end("drain", event="e2")

    assert list(harness.running) == [("e1", "drain")]
    assert harness.running["e1", "drain"].kept == {"was": "ready"}


@pytest.mark.parametrize("crashes", [False, True])
def test_a_do_that_failed_is_undone_after_the_last_event_that_needs_the_handler(*, crashes: bool) -> None:
    """It may have changed something that the undo of another event does not know. The later call is undone first."""
    harness = DecisionHarness(decision_settings("drain", traits=SHARED))
    harness.show(event(), event("e2"), event("e3"))
    harness.fail("drain")
    harness.pass_time(seconds=1)
    harness.end("drain", HandlerDone(kept={"was": "drained"}), "e2")
    harness.said()
    harness.show(event("e2"), event("e3"))
    harness.show(event("e3"))
    if crashes:
        harness.crash(reboot=True)
    assert "undo drain" not in harness.said()
    assert list(harness.memory.events) == ["e1", "e3"]
    harness.show()
    assert harness.said() == ["undo drain"]
    assert harness.running["e3", "drain"].kept == {"was": "drained"}
    if crashes:
        harness.crash()
    harness.end("drain", event="e3")
    assert list(harness.running) == [("e1", "drain")]
    harness.end("drain")

    assert harness.memory.events == {}


def test_a_do_that_was_interrupted_is_undone_after_the_last_event_that_needs_the_handler() -> None:
    """The event was gone when the agent was back, and the call may have changed something."""
    harness = DecisionHarness(decision_settings("drain", terms={"drain": HandlerTerms(retries=1)}, traits=SHARED))
    harness.show(event(), event("e2"))
    harness.fail("drain")
    harness.end("drain", event="e2")
    harness.pass_time(seconds=5)
    assert list(harness.running) == [("e1", "drain")]
    harness.crash(shown=[event("e2")])
    assert list(harness.running) == []
    assert list(harness.memory.events) == ["e1", "e2"]
    harness.show()
    assert list(harness.running) == [("e1", "drain")]
    harness.end("drain")

    assert list(harness.running) == [("e2", "drain")]


def test_each_do_that_was_called_is_undone_the_last_begun_first() -> None:
    """The retry for one event succeeds after the handler was done for another event: both may have changed things."""
    harness = DecisionHarness(decision_settings("drain", terms={"drain": HandlerTerms(retries=1)}, traits=SHARED))
    harness.show(event("e2"), event())
    harness.fail("drain", event="e2")
    harness.end("drain")
    harness.pass_time(seconds=5)
    harness.end("drain", HandlerDone(kept={"was": "drained"}), "e2")
    harness.said()
    harness.show(event())
    harness.crash()
    assert "undo drain" not in harness.said()
    harness.show()
    harness.fail("drain", event="e2")
    assert list(harness.running) == []
    harness.pass_time(seconds=5)
    assert harness.running["e2", "drain"].attempt == 2
    harness.end("drain", event="e2")
    assert list(harness.running) == [("e1", "drain")]
    harness.end("drain")

    assert harness.memory.events == {}


def test_a_handler_is_called_for_one_event_at_a_time() -> None:
    """The second event waits until the first call has returned."""
    harness = DecisionHarness(decision_settings("tell"))
    harness.show(event(), event("e2"))
    assert harness.said() == ["do tell"]
    harness.end("tell")

    assert harness.said() == ["approve e1", "do tell"]


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


def test_a_shared_handler_is_undone_when_all_its_events_are_gone_at_once() -> None:
    """Neither event may leave it to the other."""
    harness = DecisionHarness(decision_settings("drain", traits=SHARED))
    harness.show(event(), event("e2"))
    harness.end("drain")
    harness.said()
    harness.show()

    assert harness.said() == ["undo drain"]


def test_what_an_event_joins_is_not_put_back_in_the_same_moment() -> None:
    """One event is gone as the other comes to the handler they share: it stays as it is, for the other."""
    harness = DecisionHarness(decision_settings("slow", "drain", traits=SHARED))
    freezes = EventRule(name="freezes", types=(EventType.FREEZE,), stages=(("slow",), ("drain",)))
    reboots = EventRule(name="reboots", stages=(("drain",),))
    harness.decision_settings = msgspec.structs.replace(harness.decision_settings, rules=(freezes, reboots))
    harness.show(event("e2", type="Freeze"), event("e1"))
    harness.end("drain", event="e1")
    assert harness.said() == ["do slow", "do drain", "approve e1"]
    harness.document = Document(9, (event("e2", type="Freeze"),))
    harness.end("slow", event="e2")

    assert harness.said() == ["approve e2"]


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


def test_a_cut_off_undo_of_an_event_that_comes_back_is_ended_first() -> None:
    """Nobody may do what is half put back."""
    harness = DecisionHarness(
        decision_settings("switch", traits={"switch": HandlerTraits(repeats=False, shared=False)})
    )
    harness.show(event())
    harness.end("switch")
    harness.show()
    harness.said()
    harness.document = Document(9, (event(),))
    harness.crash()
    assert harness.said() == ["ask switch"]
    assert harness.asked["e1", "switch"].direction is Direction.UNDO
    harness.end("switch")
    assert harness.said() == ["do switch"]
    harness.end("switch")

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


@pytest.mark.parametrize("count", [2_000])
def test_many_events_that_share_a_handler_take_few_turns(count: int) -> None:
    """One call serves them all, and what follows for the others is decided in one pass."""
    harness = DecisionHarness(
        decision_settings(
            "drain", "tell", traits=dict.fromkeys(("drain", "tell"), HandlerTraits(repeats=True, shared=True))
        )
    )
    began = time.process_time()
    harness.show(*(event(f"e{number}") for number in range(count)))
    harness.end("drain", event="e0")
    harness.end("tell", event="e0")
    harness.show()
    harness.end("tell", event=f"e{count - 1}")
    harness.end("drain", event=f"e{count - 1}")

    said = harness.said()
    assert [each for each in said if not each.startswith("approve")] == [
        "do drain",
        "do tell",
        "undo tell",
        "undo drain",
    ]
    assert len(said) == count + 4
    assert harness.memory.events == {}
    assert time.process_time() - began < 20  # it takes half a second; it took hours
