"""What holds whatever happens: documents, handlers, crashes and time in any order."""

from datetime import timedelta

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from forewarn.agent.facts import Begun, Ended, Fact, Forgotten, Joined, Shown
from forewarn.agent.handler import Direction, Done, Failed, NotBegun
from forewarn.agent.plan import OnFailure, Terms
from forewarn.agent.reaction import Traits
from forewarn.core.model import EventStatus
from tests.agent.world import World, agenda, event, started

EVENTS = ("e1", "e2", "e3")
HANDLERS = ("drain", "switch", "tell", "log")


class AgentLife(RuleBasedStateMachine):
    """An agent with four handlers, one of them shared, one that does not repeat, one that holds the approval."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World(
            agenda(
                "drain",
                ("switch", "tell"),
                "log",
                terms={
                    "drain": Terms(retries=1),
                    "switch": Terms(on_failure=OnFailure.HOLD, takes=timedelta(seconds=30)),
                },
                traits={
                    "drain": Traits(repeats=True, shared=True),
                    "switch": Traits(repeats=False, shared=False),
                },
            )
        )
        self.checked = 0
        self.done: set[tuple[str, str]] = set()
        self.is_drained = False
        """Whether the shared handler has really been called, and has not been called to put it back since."""
        self.world.show()

    @rule(shown=st.dictionaries(st.sampled_from(EVENTS), st.booleans()), notice=st.sampled_from([None, 20, 60, 900]))
    def show(self, shown: dict[str, bool], notice: int | None) -> None:
        """Show some events, some of them started, perhaps all of them moved."""
        present = {each.id: each for each in self.world.document.events} if self.world.document else {}
        events = []
        for name, has_started in shown.items():
            known = present.get(name) or event(name, not_before=self.world.now + timedelta(minutes=15))
            if notice or known.not_before is None:
                not_before = self.world.now + timedelta(seconds=notice or 900)
                known = msgspec.structs.replace(known, status=EventStatus.SCHEDULED, not_before=not_before)
            events.append(started(known) if has_started else known)
        self.world.show(*events)

    @rule(seconds=st.sampled_from([1, 3, 30, 600, 2_000]))
    def wait(self, seconds: int) -> None:
        """Let time pass."""
        self.world.pass_time(seconds=seconds)

    @precondition(lambda self: self.world.running)
    @rule(data=st.data(), is_well=st.booleans())
    def end(self, data: st.DataObject, is_well: bool) -> None:  # noqa: FBT001 - drawn
        """Let a handler return."""
        name, handler = data.draw(st.sampled_from(sorted(self.world.running)))
        self.world.end(handler, Done() if is_well else Failed("no"), name)

    @precondition(lambda self: self.world.asked)
    @rule(data=st.data(), outcome=st.sampled_from([Done(), Failed("no"), NotBegun()]))
    def answer(self, data: st.DataObject, outcome: Done | Failed | NotBegun) -> None:
        """Let a handler say what came of a call."""
        name, handler = data.draw(st.sampled_from(sorted(self.world.asked)))
        self.world.end(handler, outcome, name)

    @rule(reboot=st.booleans())
    def crash(self, reboot: bool) -> None:  # noqa: FBT001 - drawn
        """Kill the agent, perhaps with its VM."""
        self.world.crash(reboot=reboot)

    @invariant()
    def each_step_follows(self) -> None:
        """No handler is run again once it is done, nor undone before it was begun."""
        facts: list[Fact] = self.world.facts
        for fact in facts[self.checked :]:
            match fact:
                case Ended(handler="drain", direction=Direction.DO, result=Done()):
                    self.is_drained = True
                case Begun(handler="drain", direction=Direction.UNDO):
                    self.is_drained = False
            match fact:
                case Begun(id, handler, Direction.DO):
                    assert (id, handler) not in self.done
                case Ended(id, handler, Direction.DO, Done()) | Joined(id, handler):
                    self.done.add((id, handler))
                case Begun(id, handler, Direction.UNDO) | Ended(id, handler, Direction.UNDO):
                    self.done.discard((id, handler))
                case Forgotten(id):
                    assert not any(each == id for each, _ in self.done)
                case Shown():
                    pass
        self.checked = len(facts)

    @invariant()
    def what_is_shared_holds_as_long_as_anybody_needs_it(self) -> None:
        """Who counts on the shared handler finds its work done, and it is put back when nobody does."""
        steps = [known.steps["drain"] for known in self.world.memory.events.values() if "drain" in known.steps]
        if any(step.is_in_force for step in steps):
            assert self.is_drained
        if not self.world.memory.events:
            assert not self.is_drained

    @invariant()
    def handlers_run_one_at_a_time(self) -> None:
        """A handler never has two calls under way."""
        busy = [handler for _, handler in self.world.running]
        assert len(busy) == len(set(busy))

    @invariant()
    def approvals_are_earned(self) -> None:
        """Nothing is approved while a handler is to come or under way, or while one that holds has not succeeded."""
        for said in self.world.said():
            if said.startswith("approve "):
                known = self.world.memory.events[said.removeprefix("approve ")]
                assert known.event.status is EventStatus.SCHEDULED
                for handler in HANDLERS:
                    step = known.steps[handler]
                    assert step.left_out or (step.do and step.do.result)
                    assert step.undo is None
                switch = known.steps["switch"].do
                assert switch
                assert switch.is_done

    @invariant()
    def nothing_is_left_behind(self) -> None:
        """Whoever is gone and has nothing under way is forgotten, or waits for a retry or another event."""
        for known in self.world.memory.events.values():
            if known.is_gone and not self.world.running and not self.world.asked:
                assert self.world.wake_at is not None


TestAgentLife = AgentLife.TestCase
