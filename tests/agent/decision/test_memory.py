"""What the agent makes of its facts where no story shows it: how events ended, and what cannot be placed."""

import pytest

from forewarn.agent.decision.actions import HandlerTraits
from forewarn.agent.decision.facts import (
    ApprovalGiven,
    CallBegun,
    CallEnded,
    CallWithdrawn,
    CoordinatorConsulted,
    DocumentShown,
    EventForgotten,
    HandlerSkipped,
)
from forewarn.agent.decision.memory import AgentMemory
from forewarn.agent.decision.run_counters import HandlerRunCounts, RunCounters
from forewarn.agent.handler import Direction, HandlerDone
from forewarn.client.changes import Ending
from forewarn.wire.document import Document
from tests.agent.harness import START, DecisionHarness, decision_settings, event, started


def remembered(type_: str = "Reboot", boot: str = "first") -> AgentMemory:
    memory = AgentMemory()
    memory.evolve(DocumentShown(Document(1, (event(type=type_),)), START, boot))
    return memory


def ending(memory: AgentMemory, boot: str = "first", incarnation: int = 9) -> Ending | None:
    """Let everything be gone, after so many changes that nobody knows what happened."""
    memory.evolve(DocumentShown(Document(incarnation, ()), START, boot))
    return memory.events["e1"].ending


@pytest.mark.parametrize(
    ("type_", "before", "after", "ended"),
    [
        ("Reboot", "first", "second", Ending.COMPLETED),
        ("Redeploy", "first", "second", Ending.COMPLETED),
        ("Reboot", "first", "first", Ending.UNKNOWN),
        ("Freeze", "first", "second", Ending.UNKNOWN),
        ("Reboot", "", "second", Ending.UNKNOWN),
        ("Reboot", "first", "", Ending.UNKNOWN),
    ],
)
def test_another_boot_tells_that_a_reboot_has_happened(type_: str, before: str, after: str, ended: Ending) -> None:
    """Only for what boots a VM, and only where the system tells one boot from another."""
    assert ending(remembered(type_, before), after) is ended


def test_what_was_approved_and_is_gone_has_happened() -> None:
    """Nobody else saw it start."""
    memory = remembered("Freeze")
    memory.evolve(ApprovalGiven("e1", START))

    assert ending(memory) is Ending.COMPLETED


def test_what_is_known_of_an_ending_is_not_changed() -> None:
    """What was canceled for certain did not happen, whatever was approved, or booted."""
    memory = remembered()
    memory.evolve(ApprovalGiven("e1", START))

    assert ending(memory, "second", incarnation=2) is Ending.CANCELED


def test_facts_about_an_event_that_is_not_known_change_nothing() -> None:
    """A handler may return long after its event was forgotten."""
    memory = remembered()
    memory.evolve(EventForgotten("e1"))
    for fact in (
        ApprovalGiven("e1", START),
        CallEnded("e1", "drain", Direction.DO, HandlerDone(), START),
        EventForgotten("e1"),
        DocumentShown(Document(2, ()), START),
    ):
        memory.evolve(fact)

    assert memory == AgentMemory(document=Document(2, ()), counters=RunCounters(events={"Reboot": 1}))


def test_an_end_is_the_end_of_the_call_that_began() -> None:
    """Its attempt and its beginning stay known; a call that was withdrawn was none."""
    memory = remembered()
    memory.evolve(CallBegun("e1", "drain", Direction.DO, 3, START))
    memory.evolve(CallEnded("e1", "drain", Direction.DO, HandlerDone(), START))
    call = memory.events["e1"].steps["drain"].do
    assert call
    assert (call.attempt, call.began_at, call.ended_at, call.is_done) == (3, START, START, True)
    memory.evolve(CallWithdrawn("e1", "drain", Direction.DO))

    assert memory.events["e1"].steps["drain"].do is None


def test_an_event_is_known_as_it_was_shown_last() -> None:
    """And by its first sight as to when and in which boot."""
    memory = remembered()
    memory.evolve(DocumentShown(Document(2, (started(event()),)), START.replace(hour=13), "second"))
    known = memory.events["e1"]

    assert (known.event, known.first_seen_at, known.boot) == (started(event()), START, "first")


def test_an_event_that_comes_back_has_not_ended() -> None:
    """It is as if it had never been gone, nor approved, nor too near."""
    memory = remembered()
    memory.evolve(HandlerSkipped("e1", "drain", "no time is left", START))
    memory.evolve(CoordinatorConsulted("e1", agreed=False, at=START))
    assert ending(memory) is Ending.UNKNOWN
    memory.evolve(DocumentShown(Document(10, (event(),)), START, "first"))

    assert memory.events["e1"] == remembered().events["e1"]


def test_totals_are_part_of_what_is_known() -> None:
    """They survive a crash; what was shared is no call, and an event that comes again is counted once."""
    harness = DecisionHarness(decision_settings("drain", traits={"drain": HandlerTraits(repeats=True, shared=True)}))
    harness.show(event("e1"), event("e2"))
    harness.pass_time(seconds=3)
    harness.end("drain", event="e1")
    harness.approved("e1")
    harness.not_approved("e2")
    harness.crash(reboot=True)
    harness.show()
    harness.fail("drain", event="e2")

    counters = harness.memory.counters
    assert counters.events == {"Reboot": 2}
    assert counters.runs == {
        "drain": {"do": HandlerRunCounts(done=1, seconds=3.0), "undo": HandlerRunCounts(failed=1)}
    }
    assert counters.approvals == {"sent": 1, "failed": 1}


@pytest.mark.parametrize("direction", Direction)
def test_calls_that_a_process_left_behind_are_interrupted(direction: Direction) -> None:
    """Nobody waits for their result any more; those that ended stay as they are."""
    memory = remembered()
    memory.evolve(CallBegun("e1", "drain", Direction.DO, 1, START))
    if direction is Direction.UNDO:
        memory.evolve(CallEnded("e1", "drain", Direction.DO, HandlerDone(), START))
        memory.evolve(CallBegun("e1", "drain", Direction.UNDO, 1, START))
    memory.mark_calls_interrupted()

    step = memory.events["e1"].steps["drain"]
    assert step.do
    assert step.do.is_cut_off is (direction is Direction.DO)
    assert (step.undo is not None and step.undo.is_cut_off) is (direction is Direction.UNDO)
