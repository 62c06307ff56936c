"""What the checker of promises remembers of one event."""

from bisect import bisect_right, insort
from collections.abc import Sequence
from datetime import datetime

import msgspec

MAINTENANCE = ("Freeze", "Reboot", "Redeploy")
WINDOW_CLOSED = "the maintenance window of rollout"
"""The words of a postponement by a rollout, which is no one's wish and counts towards no limit."""
FAILURE = "Virtual machine has encountered a failure."


class HighWater:
    """The highest value that responses have shown, by the time when each had ended."""

    __slots__ = ("_marks",)

    def __init__(self) -> None:
        self._marks: list[tuple[float, int]] = []

    def add(self, ended_at: float, value: int) -> None:
        marks = self._marks
        if not marks or (value > marks[-1][1] and ended_at >= marks[-1][0]):
            marks.append((ended_at, value))
        elif ended_at < marks[-1][0] and value > self.before(ended_at):
            insort(marks, (ended_at, value))
            kept = self._marks = [marks[0]]
            kept.extend(mark for number, mark in enumerate(marks) if number and mark[1] > kept[-1][1])

    def before(self, sent_at: float) -> int:
        """Return the highest value of the responses that had ended then; -1 where there is none."""
        place = bisect_right(self._marks, sent_at, key=lambda mark: mark[0])
        return self._marks[place - 1][1] if place else -1

    @property
    def highest(self) -> int:
        return self._marks[-1][1] if self._marks else -1

    @property
    def reached_at(self) -> float:
        """When the first response with the highest value had ended."""
        return self._marks[-1][0] if self._marks else 0.0


class GivenApproval(msgspec.Struct, frozen=True):
    """An approval, or a wish for postponement, that may have been taken."""

    by: str
    sent_at: float
    is_acknowledged: bool
    of_vm: bool
    ended_at: float = 0.0


class EventMemory:
    """All that was shown of one event. Its statuses count 0 (Scheduled), 1 (Started) and 2 (gone)."""

    def __init__(self, id_: str, at: float) -> None:
        self.id = id_
        self.first_seen_at = at
        self.fields: dict[str, object] = {}
        """Type, source, resources, description and duration, as far as shown; they keep for life."""
        self.group = ""
        self.ranks = HighWater()
        """By documents, lists and replies, which show what the service goes by."""
        self.recorded_ranks = HighWater()
        """By its timeline, which is read from the journal and may be ahead."""
        self.end = ""
        self.not_before: float | None = None
        self.not_before_ended_at = 0.0
        """When the response with that NotBefore had ended."""
        self.moved_later_at: float | None = None
        self.least_not_before: float | None = None
        self.scheduled_at = -1.0
        """The latest second from which on a response showed it Scheduled."""
        self.started_at: float | None = None
        """When the first response that showed it Started had ended."""
        self.absent_at = 0.0
        """A second at which a document of its group did not have it yet."""
        self.asked_at: float | None = None
        """When the command that announced it was first sent."""
        self.without_notice: str | None = None
        """Why no notice was owed; empty where it was; None where nothing tells."""
        self.approvals: list[GivenApproval] = []
        self.postponements: list[GivenApproval] = []
        self.operated: dict[str, float] = {}
        """When each machine was operated on for it."""
        self.timeline: RecordedTimeline | None = None
        self.timeline_at = -1.0

    def __str__(self) -> str:
        type_ = self.fields.get("type", "event")
        return f"{type_} {self.id[:8].upper()} of {self.group or 'an unknown group'}"

    def is_over_since(self, at: float) -> bool:
        """Return whether it was seen to be gone before a second."""
        return self.ranks.highest == 2 and self.ranks.reached_at < at

    @property
    def type(self) -> str:
        return str(self.fields.get("type", ""))

    @property
    def resources(self) -> tuple[str, ...]:
        found = self.fields.get("resources", ())
        return found if isinstance(found, tuple) else ()

    @property
    def is_failure(self) -> bool:
        """Whether it is a hardware failure, which takes no turn."""
        operation = self.timeline.operation if self.timeline else ""
        return operation.endswith(" fail") or self.fields.get("description") == FAILURE

    @property
    def takes_turns(self) -> bool:
        """Whether it is known to be platform maintenance, which goes one update domain at a time."""
        return self.fields.get("source") == "Platform" and self.type in MAINTENANCE and not self.is_failure

    @property
    def recorded_start(self) -> datetime | None:
        """When it started, by its record."""
        steps = self.timeline.steps if self.timeline else ()
        return next((step.at for step in steps if step.what == "Started"), None)

    def is_hidden_from(self, groups: Sequence[str]) -> bool:
        return bool(self.group) and self.group not in groups

    @property
    def announced_after(self) -> float:
        """The latest true second of which it is known that the event was not announced before it."""
        return max(self.absent_at, self.asked_at or 0.0)


class RecordedStep(msgspec.Struct):
    """One step of a timeline."""

    at: datetime
    what: str
    by: str = ""
    detail: str = ""


class RecordedTimeline(msgspec.Struct):
    """The record of an event, as the control API returns it."""

    id: str
    type: str
    status: str
    resources: tuple[str, ...]
    source: str
    group: str
    operation: str
    description: str
    duration: int
    announced_at: datetime
    steps: tuple[RecordedStep, ...]
    not_before: datetime | None = None
