"""What holds whatever happens: documents, handlers, crashes and time in any order."""

from datetime import timedelta

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from forewarn.agent.decision.actions import HandlerTraits
from forewarn.agent.decision.facts import AgentFact, CallBegun, CallEnded, CallShared, DocumentShown, EventForgotten
from forewarn.agent.decision.plan import HandlerTerms, OnFailure
from forewarn.agent.handler import Direction, HandlerDone, HandlerFailed, HandlerNotBegun
from forewarn.core.model import EventStatus
from tests.agent.harness import DecisionHarness, decision_settings, event, started

EVENTS = ("e1", "e2", "e3")
HANDLERS = ("drain", "switch", "tell", "log")


class AgentLife(RuleBasedStateMachine):
    """An agent with four handlers, one of them shared, one that does not repeat, one that holds the approval."""

    def __init__(self) -> None:
        super().__init__()
        self.harness = DecisionHarness(
            decision_settings(
                "drain",
                ("switch", "tell"),
                "log",
                terms={
                    "drain": HandlerTerms(retries=1),
                    "switch": HandlerTerms(on_failure=OnFailure.HOLD, takes=timedelta(seconds=30), retries=1),
                },
                traits={
                    "drain": HandlerTraits(repeats=True, shared=True),
                    "switch": HandlerTraits(repeats=False, shared=False),
                },
            )
        )
        self.checked = 0
        self.done: set[tuple[str, str]] = set()
        self.is_drained = False
        """Whether the shared handler has really been called, and has not been called to put it back since."""
        self.harness.show()

    @rule(shown=st.dictionaries(st.sampled_from(EVENTS), st.booleans()), notice=st.sampled_from([None, 20, 60, 900]))
    def show(self, shown: dict[str, bool], notice: int | None) -> None:
        """Show some events, some of them started, perhaps all of them moved."""
        present = {each.id: each for each in self.harness.document.events} if self.harness.document else {}
        events = []
        for name, has_started in shown.items():
            known = present.get(name) or event(name, not_before=self.harness.now + timedelta(minutes=15))
            if notice or known.not_before is None:
                not_before = self.harness.now + timedelta(seconds=notice or 900)
                known = msgspec.structs.replace(known, status=EventStatus.SCHEDULED, not_before=not_before)
            events.append(started(known) if has_started else known)
        self.harness.show(*events)

    @rule(seconds=st.sampled_from([1, 3, 30, 600, 2_000]))
    def wait(self, seconds: int) -> None:
        """Let time pass."""
        self.harness.pass_time(seconds=seconds)

    @precondition(lambda self: self.harness.running)
    @rule(data=st.data(), is_well=st.booleans())
    def end(self, data: st.DataObject, is_well: bool) -> None:  # noqa: FBT001 - drawn
        """Let a handler return."""
        name, handler = data.draw(st.sampled_from(sorted(self.harness.running)))
        self.harness.end(handler, HandlerDone() if is_well else HandlerFailed("no"), name)

    @precondition(lambda self: self.harness.running)
    @rule(data=st.data())
    def give_up(self, data: st.DataObject) -> None:
        """Let a handler not return by its deadline."""
        name, handler = data.draw(st.sampled_from(sorted(self.harness.running)))
        self.harness.give_up(handler, name)

    @precondition(lambda self: self.harness.asked)
    @rule(data=st.data(), outcome=st.sampled_from([HandlerDone(), HandlerFailed("no"), HandlerNotBegun()]))
    def answer(self, data: st.DataObject, outcome: HandlerDone | HandlerFailed | HandlerNotBegun) -> None:
        """Let a handler say what came of a call."""
        name, handler = data.draw(st.sampled_from(sorted(self.harness.asked)))
        self.harness.end(handler, outcome, name)

    @rule(reboot=st.booleans())
    def crash(self, reboot: bool) -> None:  # noqa: FBT001 - drawn
        """Kill the agent, perhaps with its VM."""
        self.harness.crash(reboot=reboot)

    @rule()
    def damage(self) -> None:
        """Kill the agent, and lose facts that do not matter."""
        self.harness.memory.mark_doubtful("damage")
        self.harness.crash()

    @invariant()
    def each_step_follows(self) -> None:
        """No handler is run again once it is done, nor undone before it was begun."""
        facts: list[AgentFact] = self.harness.facts
        for fact in facts[self.checked :]:
            match fact:
                case CallEnded(handler="drain", direction=Direction.DO, result=HandlerDone()):
                    self.is_drained = True
                case CallBegun(handler="drain", direction=Direction.UNDO):
                    self.is_drained = False
            match fact:
                case CallBegun(id, handler, Direction.DO):
                    assert (id, handler) not in self.done
                case CallEnded(id, handler, Direction.DO, HandlerDone()) | CallShared(id, handler):
                    self.done.add((id, handler))
                case CallBegun(id, handler, Direction.UNDO) | CallEnded(id, handler, Direction.UNDO):
                    self.done.discard((id, handler))
                case EventForgotten(id):
                    assert not any(each == id for each, _ in self.done)
                case DocumentShown():
                    pass
        self.checked = len(facts)

    @invariant()
    def what_is_shared_holds_as_long_as_anybody_needs_it(self) -> None:
        """Who counts on the shared handler finds its work done, and it is put back when nobody does."""
        steps = [known.steps["drain"] for known in self.harness.memory.events.values() if "drain" in known.steps]
        if any(step.is_in_force for step in steps):
            assert self.is_drained
        if not self.harness.memory.events:
            assert not self.is_drained

    @invariant()
    def handlers_run_one_at_a_time(self) -> None:
        """A handler never has two calls under way."""
        busy = [handler for _, handler in self.harness.running]
        assert len(busy) == len(set(busy))

    @invariant()
    def approvals_are_earned(self) -> None:
        """Nothing is approved while a handler is to come or under way, or while one that holds has not succeeded."""
        for said in self.harness.said():
            if said.startswith("approve "):
                known = self.harness.memory.events[said.removeprefix("approve ")]
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
        events = self.harness.memory.events.values()
        is_drain_needed = any(
            not known.is_gone and "drain" in known.steps and known.steps["drain"].is_in_force for known in events
        )
        for known in events:
            if known.is_gone and not self.harness.running and not self.harness.asked:
                drain = known.steps.get("drain")
                is_undone = drain is None or drain.do is None or (drain.undo is not None and drain.undo.is_done)
                assert self.harness.wake_at is not None or (is_drain_needed and not is_undone)


TestAgentLife = AgentLife.TestCase
