"""Transcripts: stories of commands and what came of them, told again by the rules themselves.

    # Lines like this one are for the reader.

    12:00:00 ann restarts web-0
    ----
    E1 is announced: Reboot of web-0 (user), not before 12:15:00

A story is a time and a sentence, ``----``, then one line per fact, or what the rules refuse. ``show web`` in place
of a sentence tells what the group sees; ``rules hurry=60 limit=2`` at the beginning sets other rules. After a
change of the rules, ``python -m tests.core.transcript`` tells all stories anew, for review.

Times are the wall clock's. ``the clock is set to 14:00:00`` sets it while no time passes; a line with an earlier time
than the one before sets it back. ``the service starts`` begins with what is recorded.
"""

import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from forewarn.clocks import ManualClock
from forewarn.core.commands import Command, RecordClockStep
from forewarn.core.decide import enact
from forewarn.core.errors import Refused
from forewarn.core.facts import Entry
from forewarn.core.fleet import Fleet
from forewarn.core.model import NODE
from forewarn.core.notice import Rules
from forewarn.node.timekeeper import Timekeeper
from forewarn.simulator.words import MONDAY, Labels, read_time, say, show
from tests.core.sentences import Reader

SCENARIOS = Path(__file__).parents[1] / "scenarios"
_RULES = re.compile(r"rules(?: hurry=([\d.]+))?(?: limit=(\d+))?")
_LINE = re.compile(r"((?:[A-Z][a-z]{2} |\d{4}-\d\d-\d\d )?[\d:.]+) (.*)")
_CLOCK = re.compile(r"the clock is set to (.*)")


def retell(story: str) -> str:
    """Return the story with what the rules make of it now."""
    teller = _TranscriptReplay()
    result: list[str] = []
    is_outcome = False
    for line in story.splitlines():
        if line == "----":
            is_outcome = True
            result += [line, *teller.outcome()]
        elif not line or line.startswith("#"):
            is_outcome = False
            result.append(line)
        elif not is_outcome:
            teller.hear(line)
            result.append(line)
    return "\n".join(result) + "\n"


class _TranscriptReplay:
    def __init__(self) -> None:
        self._fleet = Fleet()
        self._labels = Labels()
        self._reader = Reader(self._fleet, self._labels)
        self._rules = Rules()
        self._heard = ""
        self._clock = ManualClock(MONDAY)
        self._timekeeper = Timekeeper(self._clock)

    def hear(self, line: str) -> None:
        if match := _RULES.fullmatch(line):
            hurry, limit = match.groups()
            self._rules = Rules(user_operation_limit=int(limit or 0)).hurried(float(hurry or 1))
        else:
            # A sentence may go on over several lines.
            self._heard = f"{self._heard} {line.strip()}".strip()

    def outcome(self) -> Iterator[str]:
        match = _LINE.fullmatch(self._heard)
        if match is None:
            raise ValueError(f"{self._heard!r} does not begin with a time")
        time, sentence = match.groups()
        self._heard = ""
        if sentence.startswith("show "):
            yield from show(self._fleet, sentence.removeprefix("show "), self._labels)
        else:
            yield from self._happen(time, sentence)

    def _happen(self, time: str, sentence: str) -> Iterator[str]:
        self._set_clock(time)
        if match := _CLOCK.fullmatch(sentence):
            self._clock.step(read_time(match[1]) - self._clock.now())
        elif sentence == "the service starts":
            self._timekeeper = Timekeeper(self._clock)
            self._timekeeper.start(self._fleet)
        now = self._timekeeper.read(self._fleet.last_at)
        said = []
        if expected := self._timekeeper.unrecorded:
            said += self._enact(RecordClockStep(id=f"step at {now}", by=NODE, expected=expected), now)
        if not match and sentence != "the service starts":
            try:
                said += self._enact(self._reader.read(sentence, now), now)
            except Refused as refusal:
                said.append(f"refused: {self._labels.put_into(str(refusal))}")
        yield from said or ["nothing"]

    def _set_clock(self, time: str) -> None:
        wall = read_time(time)
        if wall < self._clock.now():
            self._clock.step(wall - self._clock.now())
        self._clock.advance_to(wall)

    def _enact(self, command: Command, now: datetime) -> list[str]:
        facts = enact(self._fleet, command, now, self._rules, self._timekeeper.has_passed)
        if facts:
            self._fleet.last_at = now
        self._timekeeper.follow(facts)
        self._timekeeper.note_recorded([Entry(0, now, command.id, command.by, facts)])
        said = []
        for fact in facts:
            self._labels.give(fact)
            said.append(self._labels.put_into(say(fact, self._labels)))
        return said


if __name__ == "__main__":
    for path in sorted(SCENARIOS.glob("*.txt")):
        path.write_text(retell(path.read_text(encoding="utf-8")), encoding="utf-8")
