"""The promises about one event: one id for life, a status that only moves forward, notice, turns, one impact.

What other requests under way may explain is judged at the end, when those requests are known too.
"""

import re
from datetime import UTC, datetime
from math import inf

import msgspec

from forewarn.simulator.actions.cluster_faults import FailDatabase
from forewarn.simulator.actions.environment_faults import FailDriver
from forewarn.simulator.environment.database import LONGEST_LATE, DatabaseFault
from forewarn.simulator.exchanges import MachineOperation
from forewarn.simulator.promises.event_memory import WINDOW_CLOSED, EventMemory, RecordedTimeline
from forewarn.simulator.promises.memory import CheckerMemory, wall_second
from forewarn.simulator.promises.terms import RECORDED_NOT_BEFORE, TermPromises

NOTICE = {"Freeze": 900.0, "Reboot": 900.0, "Redeploy": 600.0, "Preempt": 30.0, "Terminate": 300.0}
"""The least seconds of notice; Terminate has its group's, from 300 s."""
SCHEDULED, STARTED, GONE = 0, 1, 2
_RANKS = {"Scheduled": SCHEDULED, "Started": STARTED}
_WORDS = ("Scheduled", "Started", "gone")
_PUBLISHED = 0.3
"""Seconds in which every worker holds what was decided, or has been killed."""
_EXACT = 0.01
_GONE = re.compile(r"^vm (?:evict|delete) (\S+)$|^(\S+) was (?:evicted|deleted|deallocated)$")
RECENT = 60.0
"""Seconds before the end from which on a timeline tells how an event ended."""
SETTLING = 120.0
"""Seconds in which an event that may start starts, and one that has started ends, if no driver hangs."""
HANGING = 1100.0
"""The same where the plan has a driver that hangs, for 1,000 s."""


class ShownEvent(msgspec.Struct):
    """How a response shows an event."""

    id: str
    status: str
    fields: dict[str, object]
    sent_at: float
    ended_at: float
    where: str
    group: str = ""
    not_before: float | None = None
    is_past: bool = False
    """The response may be a repetition, which tells how the event stood then."""


class EventPromises:
    """Checks what is shown of each event, and what is done for it."""

    def __init__(self, memory: CheckerMemory, terms: TermPromises) -> None:
        self._memory = memory
        self._terms = terms
        self._report = memory.report

    def see(self, seen: ShownEvent) -> EventMemory:
        event = self._memory.event(seen.id, seen.ended_at)
        self._keeps_its_fields(event, seen)
        self._stays_in_its_group(event, seen.group, seen.ended_at, seen.where)
        rank = _RANKS.get(seen.status, GONE)
        if not seen.is_past:
            self._only_moves_forward(event, rank, seen.sent_at, seen.ended_at, seen.where)
            if rank == SCHEDULED:
                event.scheduled_at = max(event.scheduled_at, seen.sent_at)
                if seen.not_before is not None:
                    self._moves_only_as_asked(event, seen.not_before, seen)
        if seen.not_before is not None:
            least = event.least_not_before
            event.least_not_before = seen.not_before if least is None else min(seen.not_before, least)
        if rank == GONE:
            self._ends_once(event, seen.status, seen.ended_at)
        self._note(event, rank, seen.ended_at)
        if event.group and event.ranks.highest < GONE:
            self._memory.unfinished.setdefault(event.group, {})[event.id] = event
        return event

    def see_gone(self, event: EventMemory, ended_at: float) -> None:
        """Note that a response that shows all unfinished events of its group did not show it any more."""
        self._note(event, GONE, ended_at)
        self._memory.unfinished.get(event.group, {}).pop(event.id, None)

    def see_timeline(self, timeline: RecordedTimeline, sent_at: float, ended_at: float) -> None:
        """Check the record of an event against what was shown, and against itself."""
        event = self._memory.event(timeline.id, ended_at)
        fields = {key: getattr(timeline, key) for key in ("type", "source", "resources", "description", "duration")}
        shown = ShownEvent(timeline.id, timeline.status, fields, sent_at, ended_at, "its timeline")
        self._keeps_its_fields(event, shown)
        self._stays_in_its_group(event, timeline.group, ended_at, "its timeline")
        rank = _RANKS.get(timeline.status, GONE)
        self._only_moves_forward(event, rank, sent_at, ended_at, "its timeline")
        if rank < event.recorded_ranks.before(sent_at):
            self._report(ended_at, f"the record of {event} went back to {timeline.status}")
        event.recorded_ranks.add(ended_at, rank)
        if rank == GONE:
            self._ends_once(event, timeline.status, ended_at)
        if ended_at >= event.timeline_at:
            event.timeline, event.timeline_at = timeline, ended_at
        event.without_notice = _without_notice(timeline)
        self._is_recorded_in_order(event, timeline, ended_at)

    def see_operation(self, done: MachineOperation) -> None:
        """No machine is operated on twice for one event, nor for one that was canceled."""
        self._memory.members.maybe_killed.add(done.vm)
        if done.host:
            self._memory.members.maybe_moved.add(done.vm)
        if not done.event:
            return
        event = self._memory.event(done.event, done.at)
        if done.vm in event.operated:
            first = event.operated[done.vm]
            self._report(done.at, f"machine {done.vm} was operated on twice for {event}, first at {first:.3f} s")
        event.operated.setdefault(done.vm, done.at)
        event.started_at = done.at if event.started_at is None else min(done.at, event.started_at)
        if event.end == "Canceled":
            self._report(done.at, f"machine {done.vm} was operated on for {event}, which was canceled")

    # One event has one id for life, and stays in one group; its type, source, resources and description keep.

    def _keeps_its_fields(self, event: EventMemory, seen: ShownEvent) -> None:
        for key, value in seen.fields.items():
            if event.fields.setdefault(key, value) != value:
                known = event.fields[key]
                self._report(seen.ended_at, f"{event}: its {key} was {known!r} and is {value!r} in {seen.where}")

    def _stays_in_its_group(self, event: EventMemory, group: str, at: float, where: str) -> None:
        if group and event.group and group != event.group:
            self._report(at, f"{event} is told to be of group {group} in {where}")
        event.group = event.group or group

    # Its status only moves from Scheduled to Started to gone; what was gone does not come back; it ends once.

    def _only_moves_forward(self, event: EventMemory, rank: int, sent_at: float, ended_at: float, where: str) -> None:
        known = event.ranks.before(sent_at)
        if rank < known:
            self._report(ended_at, f"{event} is {_WORDS[rank]} in {where}, but was {_WORDS[known]} before")

    def _ends_once(self, event: EventMemory, end: str, at: float) -> None:
        if end not in ("Completed", "Failed", "Canceled"):
            self._report(at, f"{event} has the unknown status {end!r}")
        if event.end and event.end != end:
            self._report(at, f"{event} ended {event.end}, and later {end}")
        if end == "Canceled" and event.started_at is not None:
            self._report(at, f"{event} was Started at {event.started_at:.3f} s, and was canceled")
        if end == "Canceled" and event.operated:
            self._report(at, f"{event} was canceled, but {', '.join(event.operated)} was operated on for it")
        event.end = end

    def _note(self, event: EventMemory, rank: int, ended_at: float) -> None:
        event.ranks.add(ended_at, rank)
        if rank == STARTED and (event.started_at is None or ended_at < event.started_at):
            event.started_at = ended_at

    # NotBefore moves later only by a postponement, and earlier only because a host degrades.

    def _moves_only_as_asked(self, event: EventMemory, not_before: float, seen: ShownEvent) -> None:
        known = event.not_before
        if known is not None and seen.sent_at < event.not_before_ended_at:
            return
        event.not_before, event.not_before_ended_at = not_before, seen.ended_at
        if known is None or known == not_before:
            return
        if not_before > known:
            event.moved_later_at = seen.ended_at
        elif self._memory.members.degrades_from > seen.ended_at:
            moved = known - not_before
            self._report(seen.ended_at, f"NotBefore of {event} moved {moved:.0f} s earlier, and no host degraded")

    def settle(self, event: EventMemory, now: float) -> None:
        """Judge an event when all requests are known."""
        self._moved_later_by_postponement(event, now)
        self._has_its_notice(event, now)
        self._terms.settle(event, now)
        self._starts_in_time_or_with_approval(event, now)
        self._is_operated_on_while_started(event, now)
        self._ends(event, now)
        self._outlives_a_vm(event, now)

    # What a VM shares with others is not canceled when that VM goes.

    def _outlives_a_vm(self, event: EventMemory, now: float) -> None:
        last = event.timeline.steps[-1] if event.timeline and event.timeline.steps else None
        gone = _GONE.search(last.detail) if last and last.what == "Canceled" else None
        members = self._memory.members
        if gone:
            others = set(event.resources).difference(
                filter(None, gone.groups()), members.maybe_gone, members.maybe_down
            )
            if others:
                names = ", ".join(sorted(others))
                self._report(now, f"{event} was canceled, which is about {names} too: {last.detail if last else ''}")

    def _moved_later_by_postponement(self, event: EventMemory, now: float) -> None:
        moved = event.moved_later_at
        if moved is None or any(each.sent_at <= moved for each in event.postponements):
            return
        steps = event.timeline.steps if event.timeline else ()
        is_of_rollout = any(WINDOW_CLOSED in step.detail for step in steps)
        if not is_of_rollout and not self._memory.unreported(event, "postponed"):
            self._report(moved, f"NotBefore of {event} moved later, and nobody had postponed it")

    # Notice is never below the minimum of the type, counted from the moment of announcement.

    def _has_its_notice(self, event: EventMemory, now: float) -> None:
        if event.least_not_before is None or event.without_notice is None or event.without_notice:
            return
        begin, clock = event.announced_after, self._memory.clock
        if not begin or not clock.is_steady(begin, max(event.first_seen_at, event.not_before_ended_at)):
            return
        notice, least = event.least_not_before - clock.at(begin), self._minimum(event)
        if notice < least - self._tolerance:
            text = f"{event} was announced after {begin:.3f} s with at most {notice:.1f} s of notice"
            self._report(now, f"{text}, not {least:.1f} s")

    @property
    def _tolerance(self) -> float:
        """Seconds that are not counted: notice begins with the decision, which is shown when it is recorded."""
        if any(
            isinstance(each, FailDatabase) and each.fault == DatabaseFault.LATE for each in self._memory.plan.actions
        ):
            return LONGEST_LATE + 1.0
        return _PUBLISHED if self._memory.plan.workers else _EXACT

    def _minimum(self, event: EventMemory) -> float:
        return NOTICE.get(event.type, 0.0) / self._memory.plan.hurry

    # An event is not Started before NotBefore, nor before its notice has really passed, unless it is approved.

    def _starts_in_time_or_with_approval(self, event: EventMemory, now: float) -> None:
        started = event.started_at
        if started is None or event.without_notice or self._terms.is_approved(event, started):
            return
        if event.without_notice is None and (event.fields.get("source") != "Platform" or event.is_failure):
            return
        members, clock = self._memory.members, self._memory.clock
        if event.group and all(vm in members.maybe_down for vm in members.vms_of(event.group)):
            return
        recorded = wall_second(event.recorded_start) if event.recorded_start else None
        # The last NotBefore that was shown counts, unless the failure of a host may have brought the event forward.
        not_before = event.least_not_before if event.not_before is None else event.not_before
        not_before = not_before if members.degrades_from == inf else _least_not_before(event)
        if recorded is not None and not_before is not None and recorded < not_before:
            early = not_before - recorded
            self._report(started, f"{event} started {early:.3f} s before NotBefore, without sufficient approval")
        begin = event.announced_after
        is_steady = clock.is_steady(begin or event.first_seen_at, started)
        if is_steady and not_before is not None and clock.at(started) < not_before - _EXACT:
            early = not_before - clock.at(started)
            self._report(started, f"{event} was Started {early:.1f} s before NotBefore, without sufficient approval")
        is_measured = is_steady or self._memory.service.is_unchanged(begin, started)
        if begin and is_measured and started - begin < self._minimum(event) - self._tolerance:
            notice = started - begin
            self._report(
                started, f"{event} was Started {notice:.1f} s after {begin:.3f} s, before its notice had passed"
            )

    # No machine is operated on for an event that was not Started, or of which it is no VM.

    def _is_operated_on_while_started(self, event: EventMemory, now: float) -> None:
        timeline, clock = event.timeline, self._memory.clock
        for vm, at in event.operated.items():
            if event.resources and vm not in event.resources:
                self._report(at, f"machine {vm} was operated on for {event}, which is not about it")
            if event.scheduled_at > at:
                self._report(at, f"machine {vm} was operated on for {event}, which was still Scheduled afterwards")
            if timeline is None:
                continue
            started = event.recorded_start
            if started is None:
                self._report(at, f"machine {vm} was operated on for {event}, which has not started by its record")
            elif clock.is_steady(at - 600.0, at) and wall_second(started) > clock.at(at) + _EXACT:
                self._report(at, f"machine {vm} was operated on for {event} before it started by its record")

    def _is_recorded_in_order(self, event: EventMemory, timeline: RecordedTimeline, at: float) -> None:
        """Check that the record begins Scheduled, and has one start and one end at most, which comes last."""
        statuses = [step.what for step in timeline.steps if step.what in (*_RANKS, "Completed", "Failed", "Canceled")]
        expected = ["Scheduled"]
        if timeline.status in ("Started", "Completed", "Failed"):
            expected.append("Started")
        if timeline.status not in expected:
            expected.append(timeline.status)
        if statuses != expected:
            self._report(at, f"the record of {event} is {timeline.status}, with the steps {', '.join(statuses)}")

    # Every event ends: what is due starts, what has started ends.

    def patience(self, group: str) -> float:
        """Return the seconds in which everything that is due in a group ends: its events may wait for each other."""
        hangs = any(
            isinstance(action, FailDriver) and action.fault == "hangs" for action in self._memory.plan.actions
        )
        events = sum(event.group == group for event in self._memory.events.values())
        return (HANGING if hangs else SETTLING) + events * 20.0 * self._memory.plan.slowness

    def _ends(self, event: EventMemory, now: float) -> None:
        timeline, clock = event.timeline, self._memory.clock
        if timeline is None or event.timeline_at < now - RECENT or timeline.status not in _RANKS:
            return
        patience = self.patience(event.group)
        if not clock.is_steady(now - patience, now) or any("quiet hours" in step.detail for step in timeline.steps):
            return
        since = clock.at(now) - wall_second(timeline.not_before or timeline.steps[-1].at)
        if timeline.status == "Scheduled" and timeline.not_before is not None:
            # Where the clock was set ahead, its notice must pass all the same; where it was set back, a start of the
            # service then counts by it.
            notice = (timeline.not_before - timeline.steps[0].at).total_seconds()
            since = min(since, now - event.first_seen_at - notice - clock.set_back_since(event.announced_after))
        if since > patience:
            what = "Started and does not end" if timeline.status == "Started" else "due and does not start"
            self._report(now, f"{event} is {what}, for {since:.0f} s")
        given = [each for each in event.approvals if each.is_acknowledged and not each.of_vm]
        if timeline.status == "Scheduled" and given and now - given[0].sent_at > patience:
            self._report(now, f"{event} was approved by {given[0].by} at {given[0].sent_at:.3f} s and does not start")


def _least_not_before(event: EventMemory) -> float | None:
    """Return the earliest NotBefore that was shown, or recorded when a host was said to fail sooner."""
    steps = event.timeline.steps if event.timeline else ()
    found = (RECORDED_NOT_BEFORE.search(step.detail) for step in steps if step.what == "advanced")
    advanced = [wall_second(datetime.fromisoformat(each[1]).replace(tzinfo=UTC)) for each in found if each]
    return event.least_not_before if event.least_not_before is None else min(event.least_not_before, *advanced, inf)


def _without_notice(timeline: RecordedTimeline) -> str:
    """Return why the record says that no notice was owed; empty where it was."""
    _, mark, reason = timeline.steps[0].detail.partition("no notice is owed: ") if timeline.steps else ("", "", "")
    return reason if mark else ""
