"""Calls of handlers: one at a time, repeated or asked about, shared among events, undone the last begun first."""

import time

import msgspec
import pytest

from forewarn.agent.decision.actions import HandlerTraits
from forewarn.agent.decision.facts import DocumentShown
from forewarn.agent.decision.plan import HandlerTerms
from forewarn.agent.decision.rules import EventRule
from forewarn.agent.decision.run_counters import HandlerRunCounts
from forewarn.agent.handler import Direction, HandlerDone, HandlerFailed, HandlerNotBegun, HandlerOutcome
from forewarn.core.model import EventType
from forewarn.wire.document import Document
from tests.agent.harness import START, DecisionHarness, decision_settings, event

SHARED = {"drain": HandlerTraits(repeats=True, shared=True)}


def once() -> DecisionHarness:
    """Return an agent with a handler that does not repeat and may be retried once."""
    settings = decision_settings(
        "switch",
        terms={"switch": HandlerTerms(retries=1)},
        traits={"switch": HandlerTraits(repeats=False, shared=False)},
    )
    return DecisionHarness(settings)


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


@pytest.mark.end_to_end
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
