"""The terms of each group as they were acknowledged, and the promises that depend on them.

A term is known for a period if the last change of it was acknowledged before, and no other was sent until its end.
"""

import re
from datetime import datetime

import msgspec

from forewarn.simulator.promises.memory import CheckerMemory, EventMemory

IDLE = 24 * 3600.0
"""Seconds without a request after which a group is off."""
_DEFAULTS: dict[str, object] = {
    "approval": "any",
    "quorum": 0,
    "approve_user_reboot": False,
    "approve_user_redeploy": False,
    "terminate_notice": None,
    "quiet_hours": [],
}
_UNKNOWN = object()
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

    def _term(self, group: str, key: str, begin: float, end: float) -> object:
        """Return the value of a term from one second to another; ``_UNKNOWN`` where it may have changed."""
        if not group or not begin or group in self._memory.members.unsettled_groups:
            return _UNKNOWN
        value = _DEFAULTS[key]
        for change in self._changes.get(group, ()):
            if key in change.terms and change.sent_at <= end:
                is_certain = change.is_acknowledged and change.ended_at <= begin
                value = change.terms[key] if is_certain else _UNKNOWN
        return value

    # An approval rule is satisfied by any VM of the group, by all VMs of the event, or by so many of the group.

    def is_approved(self, event: EventMemory, started: float) -> bool:
        """Tell whether the approvals that may have been given until then satisfy the rule of the group."""
        given = [each for each in event.approvals if each.sent_at <= started]
        if any(not each.of_vm for each in given):
            return True
        vms = {each.by for each in given} | self._memory.unreported(event, "approved")
        begin, members = event.announced_after, self._memory.members
        match self._term(event.group, "approval", begin, started):
            case "all":
                return set(event.resources) - members.maybe_down - members.maybe_gone <= vms
            case "quorum":
                quorum = self._term(event.group, "quorum", begin, started)
                # Fewer are enough where fewer are left.
                there = {vm.name for vm in self._memory.plan.vms if vm.group == event.group}
                left = there - members.maybe_down - members.maybe_gone
                return bool(vms) and (not isinstance(quorum, int) or len(vms) >= min(quorum, len(left)))
            case _:
                return bool(vms)

    def settle(self, event: EventMemory, now: float) -> None:
        self._lacks_notice_for_a_reason(event, now)
        self._keeps_quiet_hours(event, now)

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
            if key not in _DEFAULTS or self._term(event.group, key, begin, seen) is False:
                self._report(now, f"{event} was approved automatically, and no policy says so")
        if reason.startswith(_BARE_DELETE):
            is_spot = any(vm.spot for vm in self._memory.plan.vms if vm.name in event.resources)
            notice = self._term(event.group, "terminate_notice", begin, seen)
            is_known = not is_spot and notice is not _UNKNOWN and notice is not None
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
        quiet = self._term(event.group, "quiet_hours", event.announced_after, event.started_at)
        if isinstance(quiet, list) and any(_is_within(started, str(hours)) for hours in quiet):
            self._report(now, f"{event} started at {started:%H:%M:%S}, in the quiet hours {quiet}")


def _is_within(time: datetime, hours: str) -> bool:
    found = _QUIET.fullmatch(hours)
    if found is None:
        return False
    begin, end = ((int(found[place]), int(found[place + 1])) for place in (1, 3))
    return begin <= (time.hour, time.minute) < end
