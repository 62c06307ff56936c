"""Unit tests in the sentences of the transcripts: words in, facts out."""

from collections.abc import Iterable
from datetime import datetime

from forewarn.core.commands import Command
from forewarn.core.decide import enact
from forewarn.core.facts import AnyFact
from forewarn.core.fleet import Fleet
from forewarn.core.model import Caller, CallerKind
from forewarn.core.notice import Rules
from forewarn.simulator.words import Labels, read_time
from tests.core.sentences import Reader

NOON = read_time("12:00:00")
ANN = Caller(CallerKind.OPERATOR, "ann")


class FleetHarness:
    """A fleet to which sentences are said; refusals are raised."""

    def __init__(self, *sentences: str, rules: Rules | None = None) -> None:
        self.fleet = Fleet()
        self.labels = Labels()
        self._reader = Reader(self.fleet, self.labels)
        self._rules = rules or Rules()
        for sentence in sentences:
            self.say(sentence)

    def say(self, sentence: str, at: str = "12:00:00") -> tuple[AnyFact, ...]:
        """Let a sentence happen."""
        now = read_time(at)
        return self.give(self._reader.read(sentence, now), now)

    def give(self, command: Command, now: datetime = NOON) -> tuple[AnyFact, ...]:
        """Let a command happen."""
        facts = enact(self.fleet, command, now, self._rules)
        for fact in facts:
            self.labels.give(fact)
        return facts

    def id(self, label: str) -> str:
        return self.labels.id_of(label)


def kinds(facts: Iterable[AnyFact]) -> list[str]:
    """Return the names of the facts' classes."""
    return [type(fact).__name__ for fact in facts]
