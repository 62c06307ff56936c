"""The terms of each group as they were acknowledged, and the promises that depend on them.

A term is known for a period if the last change of it was acknowledged before, and no other was sent until its end.
"""

import re
from datetime import UTC, datetime
from math import ceil, inf

import msgspec

from forewarn.simulator.promises.event_memory import WINDOW_CLOSED, EventMemory, RecordedTimeline
from forewarn.simulator.promises.memory import CheckerMemory, wall_second, words_of

IDLE = 24 * 3600.0
"""Seconds without a request after which a group is off."""
DEFAULTS: dict[str, object] = {
    "approval": "any",
    "quorum": 0,
    "approve_user_reboot": False,
    "approve_user_redeploy": False,
    "terminate_notice": None,
    "quiet_hours": [],
    "postpone_limit": 0,
    "restart_after_crash": True,
    "eviction": "deallocate",
}
RECORDED_NOT_BEFORE = re.compile(r"not before (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)Z")
"""How a record tells of NotBefore."""
_AROUND = 1.0
_LATE = 60.0
"""Seconds after which a change that was not acknowledged does not take effect any more."""
UNKNOWN = object()
"""Stands for the value of a term that may have changed."""
_MAY_LACK_NOTICE = {
    "vm restart": "Reboot",
    "vm redeploy": "Redeploy",
    "vm delete": "Terminate",
    "host fail": "Redeploy",
    "vm fail": "Redeploy",
}
"""The operations that may owe no notice, and the type of their events."""
_IS_OFF = "the group is off"
_AUTOMATIC = "approved automatically"
_BARE_DELETE = "deleted without terminate notice"
_QUIET = re.compile(r"([0-9]{2}):([0-9]{2})-([0-9]{2}):([0-9]{2})")


class _TermsChange(msgspec.Struct, frozen=True):
    sent_at: float
    ended_at: float
    is_acknowledged: bool
    terms: dict[str, object]


class TermPromises:
    """Remembers the terms of groups, and checks what was done by them."""

    def __init__(self, memory: CheckerMemory) -> None:
        self._memory = memory
        self._report = memory.report
        self._changes: dict[str, list[_TermsChange]] = {}

    def change(self, group: str, body: bytes, sent_at: float, ended_at: float, *, is_acknowledged: bool) -> None:
        """Note a request that may have changed the terms of a group."""
        try:
            terms = msgspec.json.decode(body, type=dict[str, object])
        except (msgspec.DecodeError, UnicodeDecodeError):
            return
        self._changes.setdefault(group, []).append(_TermsChange(sent_at, ended_at, is_acknowledged, terms))

    def reset(self, group: str, sent_at: float, ended_at: float, *, is_acknowledged: bool) -> None:
        """Note a request that may have given a group the terms that it has without any being set."""
        self._changes.setdefault(group, []).append(_TermsChange(sent_at, ended_at, is_acknowledged, DEFAULTS))

    def term(self, group: str, key: str, begin: float, end: float) -> object:
        """Return the value of a term from one second to another; ``UNKNOWN`` where it may have changed."""
        if not group or not begin or self._memory.members.may_be_removed(group):
            return UNKNOWN
        value = DEFAULTS[key]
        certain_from = 0.0
        for change in self._changes.get(group, ()):
            if key in change.terms and change.sent_at <= end:
                is_certain = change.is_acknowledged and certain_from <= change.sent_at and change.ended_at <= begin
                value = change.terms[key] if is_certain else UNKNOWN
                late = 0.0 if change.is_acknowledged else _LATE
                certain_from = max(certain_from, change.ended_at + late)
        return value

    # An approval rule is satisfied by any VM of the group, by all VMs of the event, or by so many of the group.

    def is_approved(self, event: EventMemory, started: float) -> bool:
        """Return whether the approvals that may have been given until then satisfy the rule of the group."""
        given = [each for each in event.approvals if each.sent_at <= started]
        if any(not each.of_vm for each in given):
            return True
        vms = {each.by for each in given} | self._memory.unreported(event, "approved")
        begin, members = event.announced_after, self._memory.members
        match self.term(event.group, "approval", begin, started):
            case "all":
                return set(event.resources) - members.maybe_down - members.maybe_gone <= vms
            case "quorum":
                quorum = self.term(event.group, "quorum", begin, started)
                # Fewer are enough where fewer are left.
                there = {vm.name for vm in self._memory.plan.vms if members.group_of(vm.name) == event.group}
                left = there - members.maybe_down - members.maybe_gone
                return bool(vms) and (not isinstance(quorum, int) or len(vms) >= min(quorum, len(left)))
            case _:
                return bool(vms)

    def sufficient_at(self, event: EventMemory, until: float) -> float:
        """Return the second from which on the approvals surely satisfied the rule; infinity if none did."""
        members, power = self._memory.members, self._memory.power
        given, people = self._surely_given(event, until)
        match self.term(event.group, "approval", event.announced_after, until):
            case "any":
                return min([*given.values(), *people], default=inf)
            case "all":
                asked, needed = list(event.resources), len(event.resources)
            case "quorum":
                quorum = self.term(event.group, "quorum", event.announced_after, until)
                asked = members.vms_of(event.group)
                needed = quorum if isinstance(quorum, int) else len(asked)
            case _:
                return min(people, default=inf)
        down = [vm for vm in asked if power.known(vm, until, until) is True and vm not in members.maybe_gone]
        needed = min(needed, len(asked) - len(down))
        counted = sorted(at for vm, at in given.items() if vm in asked and vm not in down)
        if 0 < needed <= len(counted):
            people.append(max(counted[needed - 1], *(power.known_since(vm, until) for vm in down), 0.0))
        return min(people, default=inf)

    def _surely_given(self, event: EventMemory, until: float) -> tuple[dict[str, float], list[float]]:
        """Return when each VM had approved, and operators and owners, by the record and by what was acknowledged."""
        members = self._memory.members
        given: dict[str, float] = {}
        people: list[float] = []
        for step in event.timeline.steps if event.timeline else ():
            if step.what == "approved" and step.by and "not count" not in step.detail:
                if members.is_vm(who := words_of(step.by)[0]):
                    given.setdefault(who, wall_second(step.at))
                else:
                    people.append(wall_second(step.at))
        for each in event.approvals:
            if each.is_acknowledged and event.first_seen_at <= each.sent_at and 0.0 < each.ended_at < until:
                if not each.of_vm:
                    people.append(each.ended_at)
                elif members.group_of(each.by) == event.group:
                    given.setdefault(each.by, each.ended_at)
        return given, people

    def settle(self, event: EventMemory, now: float) -> None:
        self._lacks_notice_for_a_reason(event, now)
        self._keeps_quiet_hours(event, now)
        self._is_postponed_within_the_limit(event, now)
        self._counts_only_who_must_approve(event, now)
        if self._memory.clock.is_steady(0.0, now) and event.timeline:
            self._is_of_vms_that_run(event, event.timeline, now)
            self._keeps_approvals(event, event.timeline, now)

    # An approval that was acknowledged is on record, unless others were enough or the event had started.

    def _keeps_approvals(self, event: EventMemory, timeline: RecordedTimeline, now: float) -> None:
        first = min((wall_second(step.at) for step in timeline.steps if step.what == "approved"), default=inf)
        started = wall_second(event.recorded_start) if event.recorded_start else event.timeline_at
        for each in event.approvals:
            is_owed = each.is_acknowledged and 0.0 < each.ended_at < min(first, started - _AROUND)
            if is_owed:
                text = f"the approval of {event} by {each.by} was acknowledged at {each.ended_at:.3f} s"
                self._report(now, f"{text}, and is not on record")

    # Nothing but a deletion is announced for a VM that is off; a VM that another manager starts is left to it.

    def _is_of_vms_that_run(self, event: EventMemory, timeline: RecordedTimeline, now: float) -> None:
        at = wall_second(timeline.announced_at)
        for vm in event.resources:
            is_down = self._memory.power.known(vm, at - _AROUND, at) is True
            if is_down and event.type != "Terminate" and vm not in self._memory.members.maybe_gone:
                self._report(now, f"{event} was announced for {vm}, which was deallocated")
        if timeline.operation == "vm fail" and self.term(event.group, "restart_after_crash", at, at) is False:
            self._report(now, f"{event} started a VM that crashed, and its group does not want that")

    def is_deleted_by_eviction(self, event: EventMemory) -> bool:
        """Return whether the VMs of an eviction that has completed are surely deleted by it."""
        timeline = event.timeline
        if timeline is None or timeline.status != "Completed" or event.type != "Preempt":
            return False
        begin, end = wall_second(timeline.announced_at), wall_second(timeline.steps[-1].at)
        return self.term(event.group, "eviction", begin, end + _AROUND) == "delete"

    # Where every VM must approve for itself, the word of another is recorded, and does not count.

    def _counts_only_who_must_approve(self, event: EventMemory, now: float) -> None:
        steps = event.timeline.steps if event.timeline else ()
        given = [step for step in steps if step.what == "approved" and step.by and "not count" not in step.detail]
        if given and self.term(event.group, "approval", event.announced_after, event.timeline_at) == "all":
            for vm in (words_of(step.by)[0] for step in given):
                if self._memory.members.is_vm(vm) and vm not in event.resources:
                    self._report(now, f"the approval of {vm} counts for {event}, which is not about it")

    # A VM postpones an event by no more than the limit in all, and never its own end.

    def _is_postponed_within_the_limit(self, event: EventMemory, now: float) -> None:
        not_before, total = -inf, 0.0
        for step in event.timeline.steps if event.timeline else ():
            if not (found := RECORDED_NOT_BEFORE.search(step.detail)):
                continue
            before, not_before = not_before, wall_second(datetime.fromisoformat(found[1]).replace(tzinfo=UTC))
            if step.what == "postponed" and WINDOW_CLOSED not in step.detail:
                total += not_before - max(before, ceil(wall_second(step.at)))
        if not total:
            return
        if event.type in ("Preempt", "Terminate"):
            self._report(now, f"{event} was postponed, and ends a VM")
        limit = self.term(event.group, "postpone_limit", event.announced_after, event.timeline_at)
        if isinstance(limit, int) and total > limit:
            self._report(now, f"{event} was postponed by {total:.0f} s in all, and the limit is {limit} s")

    # No notice is owed by a user operation on a group that is off, a delete without terminate notice, a failure, and
    # a user operation that the policy approves.

    def _lacks_notice_for_a_reason(self, event: EventMemory, now: float) -> None:
        reason = event.without_notice
        if not reason:
            return
        operation = event.timeline.operation if event.timeline else ""
        if operation and _MAY_LACK_NOTICE.get(operation) != event.type:
            self._report(now, f"{event} had no notice, although {operation} owes it: {reason}")
        begin, seen = event.announced_after, event.first_seen_at
        if reason.startswith(_AUTOMATIC):
            key = f"approve_user_{event.type.lower()}"
            if key not in DEFAULTS or self.term(event.group, key, begin, seen) is False:
                self._report(now, f"{event} was approved automatically, and no policy says so")
        if reason.startswith(_BARE_DELETE):
            is_spot = any(vm.spot for vm in self._memory.plan.vms if vm.name in event.resources)
            notice = self.term(event.group, "terminate_notice", begin, seen)
            is_known = not is_spot and notice is not UNKNOWN and notice is not None
            if is_known and not self._memory.members.may_be_spot.intersection(event.resources):
                self._report(now, f"{event} had no notice, although its group has {notice} s of terminate notice")
        if reason.startswith(_IS_OFF):
            self._is_of_a_group_that_is_off(event, now)

    def _is_of_a_group_that_is_off(self, event: EventMemory, now: float) -> None:
        if event.asked_at is None or not event.group or event.group in self._memory.members.unsettled_groups:
            return
        asked = [at for at in self._memory.asked.get(event.group, ()) if at <= event.asked_at]
        if asked and event.asked_at - asked[-1] < IDLE / self._memory.plan.hurry - 1.0:
            self._report(now, f"{event} had no notice, although a VM of its group asked at {asked[-1]:.3f} s")

    # No maintenance starts in the quiet hours of its group.

    def _keeps_quiet_hours(self, event: EventMemory, now: float) -> None:
        started = event.recorded_start
        if started is None or not event.takes_turns or event.started_at is None:
            return
        quiet = self.term(event.group, "quiet_hours", event.announced_after, event.started_at)
        if isinstance(quiet, list) and any(_is_within(started, str(hours)) for hours in quiet):
            self._report(now, f"{event} started at {started:%H:%M:%S}, in the quiet hours {quiet}")


def _is_within(time: datetime, hours: str) -> bool:
    found = _QUIET.fullmatch(hours)
    if found is None:
        return False
    begin, end = ((int(found[place]), int(found[place + 1])) for place in (1, 3))
    return begin <= (time.hour, time.minute) < end
