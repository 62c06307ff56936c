"""The incremental decision: the same result as a pass over all events, with work for what changed only."""

from datetime import timedelta

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from forewarn.agent.decision.actions import HandlerTraits
from forewarn.agent.decision.approval_turn import Approver
from forewarn.agent.decision.plan import HandlerTerms, OnFailure
from forewarn.agent.decision.rules import ApprovalMode, EventRule
from forewarn.agent.handler import HandlerDone, HandlerFailed, HandlerNotBegun
from forewarn.core.model import EventStatus
from tests.agent.harness import DecisionHarness, decision_settings, event, started

EVENTS = ("e1", "e2", "e3", "e4", "e5")
HANDLERS = ("drain", "switch", "tell")
PIPELINES: tuple[tuple[str | tuple[str, ...], ...], ...] = (
    ("drain", "switch", "tell"),
    (("drain", "switch"), "tell"),
    ("drain", ("switch", "tell")),
    (HANDLERS,),
)
TERMS = st.builds(
    HandlerTerms,
    takes=st.sampled_from([0, 5, 30, 300]).map(lambda seconds: timedelta(seconds=seconds)),
    importance=st.integers(0, 2),
    retries=st.integers(0, 2),
    on_failure=st.sampled_from(OnFailure),
)


class RandomHistory(RuleBasedStateMachine):
    """Any agenda and any history. The world compares each reaction with that of ``react``."""

    harness: DecisionHarness

    @initialize(
        stages=st.sampled_from(PIPELINES),
        terms=st.tuples(TERMS, TERMS, TERMS),
        traits=st.tuples(*[st.builds(HandlerTraits, st.booleans(), st.booleans())] * 3),
        approver=st.sampled_from(Approver),
        of=st.builds(EventRule, name=st.just("all"), approval=st.sampled_from(ApprovalMode), late=st.booleans()),
    )
    def begin(
        self,
        stages: tuple[str | tuple[str, ...], ...],
        terms: tuple[HandlerTerms, ...],
        traits: tuple[HandlerTraits, ...],
        approver: Approver,
        of: EventRule,
    ) -> None:
        """Start with an empty document."""
        by_name = dict(zip(HANDLERS, terms, strict=True))
        traits_by_name = dict(zip(HANDLERS, traits, strict=True))
        self.harness = DecisionHarness(
            decision_settings(*stages, terms=by_name, traits=traits_by_name, approver=approver, rule=of)
        )
        self.harness.show()

    @rule(
        shown=st.dictionaries(st.sampled_from(EVENTS), st.booleans(), min_size=1),
        notice=st.sampled_from([None, 20, 60, 900]),
    )
    def show(self, shown: dict[str, bool], notice: int | None) -> None:
        """Show some events, some of them started, perhaps all of them moved."""
        present = {each.id: each for each in self.harness.document.events} if self.harness.document else {}
        events = []
        for number, (name, has_started) in enumerate(shown.items()):
            known = present.get(name) or event(name, not_before=self.harness.now + timedelta(minutes=15))
            if notice or known.not_before is None:
                not_before = self.harness.now + timedelta(seconds=(notice or 900) + number)
                known = msgspec.structs.replace(known, status=EventStatus.SCHEDULED, not_before=not_before)
            events.append(started(known) if has_started and number % 2 else known)
        self.harness.show(*events)

    @rule(seconds=st.sampled_from([0.1, 1, 3, 10, 30, 600, -5, -600]))
    def wait(self, seconds: float) -> None:
        """Let time pass, or set the clock back."""
        self.harness.pass_time(seconds=seconds)

    @rule()
    def wake(self) -> None:
        """Let time pass exactly until the decision is to be made again."""
        if self.harness.wake_at:
            self.harness.pass_time(seconds=(self.harness.wake_at - self.harness.now).total_seconds())

    @precondition(lambda self: self.harness.running)
    @rule(
        data=st.data(),
        outcome=st.sampled_from([HandlerDone(), HandlerDone(), HandlerFailed("no"), HandlerNotBegun()]),
    )
    def end(self, data: st.DataObject, outcome: HandlerDone | HandlerFailed | HandlerNotBegun) -> None:
        """Let a handler return."""
        name, handler = data.draw(st.sampled_from(sorted(self.harness.running)))
        self.harness.end(handler, outcome, name)

    @precondition(lambda self: self.harness.asked)
    @rule(data=st.data(), outcome=st.sampled_from([HandlerDone(), HandlerFailed("no"), HandlerNotBegun()]))
    def answer(self, data: st.DataObject, outcome: HandlerDone | HandlerFailed | HandlerNotBegun) -> None:
        """Let a handler say what came of a call."""
        name, handler = data.draw(st.sampled_from(sorted(self.harness.asked)))
        self.harness.end(handler, outcome, name)

    @precondition(lambda self: self.harness.memory.events)
    @rule(data=st.data(), said=st.sampled_from(["hold", "release", "agree", "disagree", "approved", "not approved"]))
    def hear(self, data: st.DataObject, said: str) -> None:
        """Let a listener, the coordinator or the endpoint say something about an event."""
        name = data.draw(st.sampled_from(sorted(self.harness.memory.events)))
        match said:
            case "hold":
                self.harness.hold("database", name, seconds=20)
            case "release":
                self.harness.release("database", name)
            case "agree" | "disagree":
                self.harness.consulted(agreed=said == "agree", event=name)
            case "approved":
                self.harness.approved(name)
            case _:
                self.harness.not_approved(name)

    @rule()
    def crash(self) -> None:
        """Kill the agent."""
        self.harness.crash()

    @rule()
    def lose(self) -> None:
        """Let a reaction be decided that cannot be kept."""
        self.harness.lose()


TestRandomHistory = RandomHistory.TestCase


@pytest.mark.parametrize("stages", [("drain", "tell"), (("drain", "tell"),)], ids=["in turn", "in parallel"])
@pytest.mark.parametrize("shared", [False, True], ids=["own", "shared"])
@pytest.mark.parametrize("size", [100, pytest.param(400, marks=pytest.mark.end_to_end)])
def test_the_work_is_proportional_to_the_number_of_events(
    size: int,
    stages: tuple[str | tuple[str, ...], ...],
    shared: bool,  # noqa: FBT001 - a parameter
) -> None:
    """Two handlers for each event, there and back: each event is considered at most 20 times."""
    traits = HandlerTraits(repeats=True, shared=shared)
    harness = DecisionHarness(decision_settings(*stages, traits={"drain": traits, "tell": traits}), is_checked=False)
    for events in (tuple(event(f"e{number}") for number in range(size)), ()):
        harness.show(*events)
        while harness.running:
            name, handler = next(iter(harness.running))
            harness.end(handler, event=name)

    assert not harness.memory.events
    assert harness.decider.considered <= 20 * size
