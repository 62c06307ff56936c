"""A machine in which time passes and whatever is asked of the fleet is checked by a witness."""

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import lru_cache
from typing import ClassVar
from uuid import UUID

import msgspec
from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from forewarn.core import decide
from forewarn.core.commands import ChangeFleet, CheckDeadlines, Command, HostOperation
from forewarn.core.draft import DraftFleet
from forewarn.core.errors import Refused
from forewarn.core.facts import AnyFact
from forewarn.core.fleet import Fleet
from forewarn.core.model import NODE, EventStatus
from forewarn.core.notice import Rules
from forewarn.core.turns import HasPassed
from forewarn.simulator.words import MONDAY, Labels, say
from tests.core.fleets import STRANGE_ID, VMS, fleets
from tests.core.invariant_checker import InvariantChecker, copy_of, derived, packed
from tests.core.invariants_of_facts import OF_FACTS
from tests.core.invariants_of_steps import OF_STEPS


def now_in(look: Callable[["Machine"], list[str]], *, or_else: str) -> st.SearchStrategy[str]:
    """Pick a name that is there when the rule runs, seldom one that is not."""
    return st.runner().flatmap(lambda machine: _one_of((*((look(machine) or [or_else]) * 6), or_else)))


_one_of = lru_cache(4096)(st.sampled_from)
"""To make a strategy costs more than to draw from it."""


def events_with(status: EventStatus) -> st.SearchStrategy[str]:
    return now_in(
        lambda machine: [id_ for id_, event in machine.fleet.events.items() if event.status is status],
        or_else=STRANGE_ID,
    )


SCHEDULED = events_with(EventStatus.SCHEDULED)
STARTED = events_with(EventStatus.STARTED)
ANY_EVENT = now_in(lambda machine: list(machine.fleet.events), or_else=STRANGE_ID)
WAITED_FOR = now_in(
    lambda machine: [event.waits_for for event in machine.fleet.events.values() if event.waits_for],
    or_else=STRANGE_ID,
)
MISSING = now_in(lambda machine: [name for name in VMS if name not in machine.fleet.vms], or_else="v0")
ANY_VM = now_in(lambda machine: list(machine.fleet.vms), or_else="nobody")
ANY_GROUP = now_in(lambda machine: list(machine.fleet.groups), or_else="nowhere")
LITTLE_TIME = st.sampled_from([timedelta(microseconds=1), timedelta(seconds=1), timedelta(seconds=29.5)])
MUCH_TIME = st.sampled_from([timedelta(minutes=5), timedelta(minutes=10), timedelta(minutes=15), timedelta(hours=25)])
BACK_IN_TIME = st.sampled_from([timedelta(seconds=-1), timedelta(hours=-2)])
NOT_BEFORE = st.sampled_from([None] * 6 + [timedelta(0), timedelta(minutes=15), timedelta(minutes=20.001)])
MAINTENANCE = [HostOperation.FREEZE, HostOperation.REBOOT, HostOperation.REDEPLOY]


def has_events(status: EventStatus) -> Callable[["Machine"], bool]:
    return lambda machine: any(event.status is status for event in machine.fleet.events.values())


is_scheduled = has_events(EventStatus.SCHEDULED)
is_started = has_events(EventStatus.STARTED)


class Machine(RuleBasedStateMachine):
    """A fleet in which time passes and nodes restart; the witness looks on.

    Commands are decided on a draft, which is merged into the committed fleet now and then, or lost with a restart.
    """

    fleet: DraftFleet
    of_facts: ClassVar = OF_FACTS
    of_steps: ClassVar = OF_STEPS

    def __init__(self) -> None:
        super().__init__()
        self._draft_over(Fleet())
        self.has_passed: HasPassed = lambda _: True
        self._clock = MONDAY + timedelta(hours=12)
        self._count = 0
        self._labels = Labels()

    def _draft_over(self, committed: Fleet) -> None:
        self._committed, self._committed_packed = committed, packed(committed)
        self.fleet = DraftFleet(committed)

    @property
    def now(self) -> datetime:
        """The time handed to the rules never falls below that of the last fact."""
        return max(self._clock, self.fleet.last_at)

    def let_pass_until(self, time: datetime) -> None:
        self._clock = time

    def next_id(self) -> str:
        self._count += 1
        return str(UUID(int=self._count))

    @initialize(fleet=fleets(), hurry=st.sampled_from([1.0, 1.0, 7.0, 60.0]), limit=st.sampled_from([0, 0, 1, 2]))
    def begin(self, fleet: ChangeFleet, hurry: float, limit: int) -> None:
        self._rules = Rules(user_operation_limit=limit).hurried(hurry)
        self.hurry = hurry
        self._witness = InvariantChecker(self.of_facts, self.of_steps, self._rules, hurry)
        assert self.do(fleet)

    def do(self, command: Command) -> tuple[AnyFact, ...] | None:
        """Give a command to the rules, twice to see that they are pure, then for good."""
        before, now = packed(self.fleet), self.now
        note(f"{now:%a %H:%M:%S.%f} {msgspec.json.encode(command).decode()}")
        double = copy_of(self.fleet)
        first, second = self._outcome(self.fleet, command), self._outcome(double, command)
        assert first == second, "equal fleets decide equally"
        assert packed(self.fleet) == before == packed(double), "to decide changes nothing"
        facts = self._enact(double, command)
        assert facts == self._enact(self.fleet, command), "a restored fleet goes on like the one it was taken from"
        if facts:
            self.fleet.last_at = now
        for fact in facts or ():
            self._labels.give(fact)
            note("    " + say(fact, self._labels))
        self._witness.see(command, now, before, facts, self.fleet)
        assert packed(self._committed) == self._committed_packed, "a draft leaves the committed fleet as it is"
        return facts

    def _outcome(self, fleet: Fleet, command: Command) -> object:
        try:
            return list(decide.decide(fleet, command, self.now, self._rules, self.has_passed))
        except Refused as refusal:
            return str(refusal)

    def _enact(self, fleet: Fleet, command: Command) -> tuple[AnyFact, ...] | None:
        try:
            return decide.enact(fleet, command, self.now, self._rules, self.has_passed)
        except Refused as refusal:
            note(f"    refused: {refusal}")
            return None

    @rule(step=LITTLE_TIME | BACK_IN_TIME)
    def pass_a_moment(self, step: timedelta) -> None:
        self._clock += step

    @rule(step=MUCH_TIME)
    def pass_much_time(self, step: timedelta) -> None:
        self.let_pass_until(self.now + step / self.hurry)

    @rule()
    def wake_what_is_due(self) -> None:
        due = [event for event in self.fleet.events.values() if (event.waits_until or event.not_before) <= self.now]
        ids = tuple(event.id for event in due if event.status is EventStatus.SCHEDULED)
        self.do(CheckDeadlines(id=self.next_id(), by=NODE, events=ids))

    @precondition(is_scheduled)
    @rule(event=SCHEDULED)
    def let_the_time_of_an_event_come(self, event: str) -> None:
        if event in self.fleet.events:
            self.let_pass_until(max(self.now, self.fleet.events[event].not_before))
            self.wake_what_is_due()

    @rule(event=ANY_EVENT)
    def wake_without_reason(self, event: str) -> None:
        self.do(CheckDeadlines(id=self.next_id(), by=NODE, events=(event,)))

    @rule()
    def commit(self) -> None:
        """Let the committed fleet be what the draft is."""
        before, folded = packed(self.fleet), self._witness.refolded()
        self.fleet.merge()
        assert packed(self._committed) == before == packed(folded), "a merged draft is the fold of its facts"
        assert derived(self._committed) == derived(folded), "and so is what is derived"
        self._draft_over(self._committed)

    @rule(from_snapshot=st.booleans())
    def restart(self, *, from_snapshot: bool) -> None:
        """Lose all that is in memory, and go on from a snapshot or from the journal alone."""
        fleet = copy_of(self.fleet) if from_snapshot else self._witness.refolded()
        assert packed(fleet) == packed(self.fleet), "a restart loses nothing"
        assert derived(fleet) == derived(self.fleet), "a restart finds everything again"
        self._draft_over(fleet)
