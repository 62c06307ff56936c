"""What the agent makes of its facts where no story shows it: how events ended, and what cannot be placed."""

import pytest

from forewarn.agent.facts import Approved, Begun, Consulted, Ended, Forgotten, LeftOut, Shown, Withdrawn
from forewarn.agent.handler import Direction, Done
from forewarn.agent.memory import Memory
from forewarn.agent.reaction import Traits
from forewarn.agent.tally import Runs, Tally
from forewarn.client.changes import Ending
from forewarn.wire.document import Document
from tests.agent.world import START, World, agenda, event, started


def remembered(type_: str = "Reboot", boot: str = "first") -> Memory:
    memory = Memory()
    memory.evolve(Shown(Document(1, (event(type=type_),)), START, boot))
    return memory


def ending(memory: Memory, boot: str = "first", incarnation: int = 9) -> Ending | None:
    """Let everything be gone, after so many changes that nobody knows what happened."""
    memory.evolve(Shown(Document(incarnation, ()), START, boot))
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
    memory.evolve(Approved("e1", START))

    assert ending(memory) is Ending.COMPLETED


def test_what_is_known_of_an_ending_is_not_changed() -> None:
    """What was canceled for certain did not happen, whatever was approved, or booted."""
    memory = remembered()
    memory.evolve(Approved("e1", START))

    assert ending(memory, "second", incarnation=2) is Ending.CANCELED


def test_facts_about_an_event_that_is_not_known_change_nothing() -> None:
    """A handler may return long after its event was forgotten."""
    memory = remembered()
    memory.evolve(Forgotten("e1"))
    for fact in (
        Approved("e1", START),
        Ended("e1", "drain", Direction.DO, Done(), START),
        Forgotten("e1"),
        Shown(Document(2, ()), START),
    ):
        memory.evolve(fact)

    assert memory == Memory(document=Document(2, ()), tally=Tally(events={"Reboot": 1}))


def test_an_end_is_the_end_of_the_call_that_began() -> None:
    """Its attempt and its beginning stay known; a call that was withdrawn was none."""
    memory = remembered()
    memory.evolve(Begun("e1", "drain", Direction.DO, 3, START))
    memory.evolve(Ended("e1", "drain", Direction.DO, Done(), START))
    call = memory.events["e1"].steps["drain"].do
    assert call
    assert (call.attempt, call.began_at, call.ended_at, call.is_done) == (3, START, START, True)
    memory.evolve(Withdrawn("e1", "drain", Direction.DO))

    assert memory.events["e1"].steps["drain"].do is None


def test_an_event_is_known_as_it_was_shown_last() -> None:
    """And by its first sight as to when and in which boot."""
    memory = remembered()
    memory.evolve(Shown(Document(2, (started(event()),)), START.replace(hour=13), "second"))
    known = memory.events["e1"]

    assert (known.event, known.first_seen_at, known.boot) == (started(event()), START, "first")


def test_an_event_that_comes_back_has_not_ended() -> None:
    """It is as if it had never been gone, nor approved, nor too near."""
    memory = remembered()
    memory.evolve(LeftOut("e1", "drain", "no time is left", START))
    memory.evolve(Consulted("e1", agreed=False, at=START))
    assert ending(memory) is Ending.UNKNOWN
    memory.evolve(Shown(Document(10, (event(),)), START, "first"))

    assert memory.events["e1"] == remembered().events["e1"]


def test_totals_are_part_of_what_is_known() -> None:
    """They survive a crash; what was shared is no call, and an event that comes again is counted once."""
    world = World(agenda("drain", traits={"drain": Traits(repeats=True, shared=True)}))
    world.show(event("e1"), event("e2"))
    world.pass_time(seconds=3)
    world.end("drain", event="e1")
    world.approved("e1")
    world.not_approved("e2")
    world.crash(reboot=True)
    world.show()
    world.fail("drain", event="e2")

    tally = world.memory.tally
    assert tally.events == {"Reboot": 2}
    assert tally.runs == {"drain": {"do": Runs(done=1, seconds=3.0), "undo": Runs(failed=1)}}
    assert tally.approvals == {"sent": 1, "failed": 1}
