"""The incremental decision: the same result as a pass over all events, with work for what changed only."""

from datetime import timedelta

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from forewarn.agent.approving import Approver
from forewarn.agent.handler import Done, Failed, NotBegun
from forewarn.agent.plan import OnFailure, Terms
from forewarn.agent.reaction import Traits
from forewarn.agent.rules import Approval, Rule
from forewarn.core.model import EventStatus
from tests.agent.world import World, agenda, event, started

EVENTS = ("e1", "e2", "e3", "e4", "e5")
HANDLERS = ("drain", "switch", "tell")
PIPELINES: tuple[tuple[str | tuple[str, ...], ...], ...] = (
    ("drain", "switch", "tell"),
    (("drain", "switch"), "tell"),
    ("drain", ("switch", "tell")),
    (HANDLERS,),
)
TERMS = st.builds(
    Terms,
    takes=st.sampled_from([0, 5, 30, 300]).map(lambda seconds: timedelta(seconds=seconds)),
    importance=st.integers(0, 2),
    retries=st.integers(0, 2),
    on_failure=st.sampled_from(OnFailure),
)


class RandomHistory(RuleBasedStateMachine):
    """Any agenda and any history. The world compares each reaction with that of ``react``."""

    world: World

    @initialize(
        stages=st.sampled_from(PIPELINES),
        terms=st.tuples(TERMS, TERMS, TERMS),
        traits=st.tuples(*[st.builds(Traits, st.booleans(), st.booleans())] * 3),
        approver=st.sampled_from(Approver),
        of=st.builds(Rule, name=st.just("all"), approval=st.sampled_from(Approval), late=st.booleans()),
    )
    def begin(
        self,
        stages: tuple[str | tuple[str, ...], ...],
        terms: tuple[Terms, ...],
        traits: tuple[Traits, ...],
        approver: Approver,
        of: Rule,
    ) -> None:
        """Start with an empty document."""
        by_name = dict(zip(HANDLERS, terms, strict=True))
        traits_by_name = dict(zip(HANDLERS, traits, strict=True))
        self.world = World(agenda(*stages, terms=by_name, traits=traits_by_name, approver=approver, rule=of))
        self.world.show()

    @rule(
        shown=st.dictionaries(st.sampled_from(EVENTS), st.booleans(), min_size=1),
        notice=st.sampled_from([None, 20, 60, 900]),
    )
    def show(self, shown: dict[str, bool], notice: int | None) -> None:
        """Show some events, some of them started, perhaps all of them moved."""
        present = {each.id: each for each in self.world.document.events} if self.world.document else {}
        events = []
        for number, (name, has_started) in enumerate(shown.items()):
            known = present.get(name) or event(name, not_before=self.world.now + timedelta(minutes=15))
            if notice or known.not_before is None:
                not_before = self.world.now + timedelta(seconds=(notice or 900) + number)
                known = msgspec.structs.replace(known, status=EventStatus.SCHEDULED, not_before=not_before)
            events.append(started(known) if has_started and number % 2 else known)
        self.world.show(*events)

    @rule(seconds=st.sampled_from([0.1, 1, 3, 10, 30, 600, -5, -600]))
    def wait(self, seconds: float) -> None:
        """Let time pass, or set the clock back."""
        self.world.pass_time(seconds=seconds)

    @rule()
    def wake(self) -> None:
        """Let time pass exactly until the decision is to be made again."""
        if self.world.wake_at:
            self.world.pass_time(seconds=(self.world.wake_at - self.world.now).total_seconds())

    @precondition(lambda self: self.world.running)
    @rule(data=st.data(), outcome=st.sampled_from([Done(), Done(), Failed("no"), NotBegun()]))
    def end(self, data: st.DataObject, outcome: Done | Failed | NotBegun) -> None:
        """Let a handler return."""
        name, handler = data.draw(st.sampled_from(sorted(self.world.running)))
        self.world.end(handler, outcome, name)

    @precondition(lambda self: self.world.asked)
    @rule(data=st.data(), outcome=st.sampled_from([Done(), Failed("no"), NotBegun()]))
    def answer(self, data: st.DataObject, outcome: Done | Failed | NotBegun) -> None:
        """Let a handler say what came of a call."""
        name, handler = data.draw(st.sampled_from(sorted(self.world.asked)))
        self.world.end(handler, outcome, name)

    @precondition(lambda self: self.world.memory.events)
    @rule(data=st.data(), said=st.sampled_from(["hold", "release", "agree", "disagree", "approved", "not approved"]))
    def hear(self, data: st.DataObject, said: str) -> None:
        """Let a listener, the coordinator or the endpoint say something about an event."""
        name = data.draw(st.sampled_from(sorted(self.world.memory.events)))
        match said:
            case "hold":
                self.world.hold("database", name, seconds=20)
            case "release":
                self.world.release("database", name)
            case "agree" | "disagree":
                self.world.consulted(agreed=said == "agree", event=name)
            case "approved":
                self.world.approved(name)
            case _:
                self.world.not_approved(name)

    @rule()
    def crash(self) -> None:
        """Kill the agent."""
        self.world.crash()

    @rule()
    def lose(self) -> None:
        """Let a reaction be decided that cannot be kept."""
        self.world.lose()


TestRandomHistory = RandomHistory.TestCase


@pytest.mark.parametrize("stages", [("drain", "tell"), (("drain", "tell"),)], ids=["in turn", "in parallel"])
@pytest.mark.parametrize("shared", [False, True], ids=["own", "shared"])
@pytest.mark.parametrize("size", [100, 400])
def test_the_work_is_proportional_to_the_number_of_events(
    size: int,
    stages: tuple[str | tuple[str, ...], ...],
    shared: bool,  # noqa: FBT001 - a parameter
) -> None:
    """Two handlers for each event, there and back: each event is considered at most 20 times."""
    traits = Traits(repeats=True, shared=shared)
    world = World(agenda(*stages, traits={"drain": traits, "tell": traits}), is_checked=False)
    for events in (tuple(event(f"e{number}") for number in range(size)), ()):
        world.show(*events)
        while world.running:
            name, handler = next(iter(world.running))
            world.end(handler, event=name)

    assert not world.memory.events
    assert world.decider.considered <= 20 * size
