"""A fleet with rollouts: rounds are tried until nothing is left to do, and drivers do what they are asked."""

from datetime import datetime, timedelta
from typing import TypeVar

from forewarn.core.commands import CheckDeadlines, Command, ImpactResult, ReportImpact
from forewarn.core.facts import AnyFact
from forewarn.core.fleet import Fleet
from forewarn.core.model import NODE, EventStatus
from forewarn.core.notice import Rules
from forewarn.core.rollouts.advance import wake_at
from forewarn.core.rollouts.commands import AdvanceRollout
from forewarn.core.rollouts.model import HostRun, Rollout
from tests.core.harness import NOON, FleetHarness

WEB = (
    "ann declares: host h1; host h2; host h3; group web availability-set; group db availability-set;"
    " vm web-0 in web on h1 ud=0 fd=0; vm web-1 in web on h2 ud=1 fd=1; vm web-2 in web on h3 ud=2 fd=0;"
    " vm db-0 in db on h1 ud=0 fd=0; vm db-1 in db on h2 ud=1 fd=1"
)

Kind = TypeVar("Kind", bound=AnyFact)


class RolloutHarness(FleetHarness):
    """A fleet whose clock is moved by hand."""

    def __init__(self, *sentences: str, rules: Rules | None = None) -> None:
        self.now = NOON
        self.facts: list[AnyFact] = []
        self._count = 10_000
        super().__init__(*sentences, rules=rules)

    def say(self, sentence: str, at: str = "") -> tuple[AnyFact, ...]:
        """Let a sentence happen now."""
        return self.give(self._reader.read(sentence, self.now), self.now)

    def read(self, sentence: str) -> Command:
        return self._reader.read(sentence, self.now)

    def give(self, command: Command, now: datetime = NOON) -> tuple[AnyFact, ...]:
        facts = super().give(command, self.now)
        self.facts += facts
        return facts

    def advance(self) -> None:
        """Try rounds of all rollouts until nothing is left to do now."""
        while any(self._round(name) for name in list(self.fleet.rollouts)):
            pass

    def _round(self, name: str) -> bool:
        return bool(self.give(AdvanceRollout(id=self.new_id(), by=NODE, rollout=name)))

    def new_id(self) -> str:
        self._count += 1
        return f"{self._count:032x}"

    def perform(self, *, failing: tuple[str, ...] = ()) -> None:
        """Let the driver end every Started event; those of some hosts fail."""
        for event in list(self.fleet.events.values()):
            if event.status is EventStatus.STARTED:
                result = ImpactResult.FAILED if event.host in failing else ImpactResult.DONE
                self.give(
                    ReportImpact(
                        id=self.new_id(), by=NODE, event=event.id, result=result, hosts=dict(event.placements)
                    )
                )
        self.advance()

    def wait(self, seconds: float) -> None:
        """Let time pass: what is due starts, and rounds are tried."""
        self.now += timedelta(seconds=seconds)
        due = tuple(
            event.id
            for event in self.fleet.events.values()
            if event.status is EventStatus.SCHEDULED and (event.waits_until or event.not_before) <= self.now
        )
        self.give(CheckDeadlines(id=self.new_id(), by=NODE, events=due))
        self.advance()

    def finish(self, name: str, most: int = 1_000, *, failing: tuple[str, ...] = ()) -> None:
        """Let time pass until a rollout has ended or nothing moves it any more."""
        for _ in range(most):
            self.advance()
            rollout = self.fleet.rollouts.get(name)
            if rollout is None:
                return
            times = [wake_at(self.fleet, rollout, self.now, self._rules)]
            times += [
                event.waits_until or event.not_before
                for event in self.fleet.events.values()
                if event.status is EventStatus.SCHEDULED and not event.waits_for
            ]
            later = [when for when in times if when and when > self.now]
            if any(event.status is EventStatus.STARTED for event in self.fleet.events.values()):
                self.now += timedelta(seconds=1)
                self.perform(failing=failing)
            elif later:
                self.wait((min(later) - self.now).total_seconds())
            else:
                return

    @property
    def rollout(self) -> Rollout:
        """The rollout that most tests have, k."""
        return self.fleet.rollouts["k"]

    def run(self, host: str) -> HostRun:
        """Return how a host stands in it."""
        return self.fleet.rollout_hosts[f"k/{host}"]

    def said(self, kind: type[Kind]) -> list[Kind]:
        """Return the facts of a kind."""
        return [fact for fact in self.facts if isinstance(fact, kind)]

    def hosts_with_events(self) -> set[str]:
        return {event.host for event in self.fleet.events.values()}


def reloaded(fleet: Fleet) -> Fleet:
    """Return the fleet as a snapshot has it."""
    return Fleet.restore(list(fleet.parts()))
