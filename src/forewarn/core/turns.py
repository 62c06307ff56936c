"""Turns: which events of a group may start.

An event is *ready* when it is approved or due. What a ready event waits for:

    user operations, Preempt, Terminate   a Started event of one of its VMs, and nothing else
    platform maintenance                  the same, and maintenance of the group that is Started or ready earlier, or
                                          hardware failure that is Started, unless both share update domain and
                                          fault domain; quiet hours, and the windows of its rollout
    hardware failure                      nothing

Platform maintenance has source Platform and type Freeze, Reboot or Redeploy, and is no hardware failure.
Ready events start in this order: Preempt, Terminate, user operations, platform maintenance; among equals by
NotBefore, then by announcement. An event that must wait stays Scheduled, and starts in the same append that ends what
it waits for. Waiting maintenance is not overtaken by later maintenance that it could not run beside.
"""

from collections.abc import Callable, Iterator
from datetime import datetime

from forewarn.core import approval, lifecycle, quiet_hours
from forewarn.core.event_types import EVENT_TYPES
from forewarn.core.facts import Started, Waiting
from forewarn.core.fleet import Fleet
from forewarn.core.model import Event, EventSource, EventStatus, StartCause
from forewarn.core.rollouts import windows

_STARTED = EventStatus.STARTED
_PLATFORM = EventSource.PLATFORM
"""Frequently compared enumeration members: the attribute lookup is slower than the comparison."""

HasPassed = Callable[[Event], bool]
"""Whether an event's notice has passed, on a clock that cannot be set."""


def settle(fleet: Fleet, group: str, now: datetime, has_passed: HasPassed) -> Iterator[Started | Waiting]:
    """Yield the start of every ready event that has its turn, and what each other one waits for."""
    events = fleet.events_of(group)
    is_unneeded = bool(events) and approval.is_unneeded(fleet, group)
    reasons: dict[str, str] = {}
    ready: list[Event] = []
    for event in events:
        if event.status is _STARTED:
            continue
        # Looked at first, because it can be seen at once of most events of a large group.
        may_start = is_unneeded or event.approvals or event.approved_by or event.not_before <= now
        if may_start and (reason := _why_ready(fleet, event, now, has_passed, is_unneeded=is_unneeded)):
            reasons[event.id] = reason
            ready.append(event)
        elif event.waits_for or event.waits_until:
            yield lifecycle.stop_waiting(event, now)
    if not ready:
        return
    ahead = _Ahead()
    concerned = {vm for event in ready for vm in event.vms}
    for event in events:
        if event.status is _STARTED and (event.source is _PLATFORM or not concerned.isdisjoint(event.resources)):
            ahead.add(event)
    quiet_until = quiet_hours.quiet_until(fleet.groups[group].terms.policy.quiet_hours, now)
    for event in sorted(ready, key=_order):
        held_until = _latest(quiet_until, _window_opens(fleet, event, now)) if takes_turns(event) else None
        if held_until:
            # One that no window lets start any more is withdrawn by its rollout's next round.
            if held_until not in (event.waits_until, windows.NEVER):
                yield lifecycle.keep_quiet(event, now, held_until)
            continue
        blocker = ahead.blocker_of(event)
        if blocker is None:
            yield lifecycle.start(event, now, reasons[event.id])
        elif event.waits_for != blocker.id:
            yield lifecycle.wait(event, now, blocker)
        if blocker is None or takes_turns(event):
            ahead.add(event)


def _order(event: Event) -> tuple[int, datetime]:
    order = EVENT_TYPES[event.type].start_order
    return order + takes_turns(event), event.not_before  # maintenance comes last


def takes_turns(event: Event) -> bool:
    """Return whether the event is platform maintenance, which takes turns."""
    is_maintenance = event.source is _PLATFORM and EVENT_TYPES[event.type].is_maintenance
    return is_maintenance and not event.operation.is_failure


def earliest_start(fleet: Fleet, event: Event, now: datetime) -> datetime | None:
    """Return the earliest start after quiet hours and by windows; None if these do not delay the event.

    An event that no window lets start any more is about to be withdrawn, and has none.
    """
    group = fleet.groups.get(event.group)
    if group is None or event.status is not EventStatus.SCHEDULED or not takes_turns(event):
        return None
    when = max(event.not_before, now)
    opens = _window_opens(fleet, event, when)
    quiet_until = quiet_hours.quiet_until(group.terms.policy.quiet_hours, when)
    return _latest(quiet_until, opens) if opens != windows.NEVER else None


def _window_opens(fleet: Fleet, event: Event, now: datetime) -> datetime | None:
    """Return when a maintenance window lets an event of a rollout start; None where it may, or ``NEVER``."""
    rollout = fleet.rollouts.get(event.rollout) if event.rollout else None
    return windows.held_until(rollout, now) if rollout and rollout.has_windows else None


def _latest(*times: datetime | None) -> datetime | None:
    return max((when for when in times if when), default=None)


def ahead_of(fleet: Fleet, event: Event) -> Iterator[Event]:
    """Yield the maintenance of the group that, as far as is known, has its turn before a Scheduled event."""
    if event.status is not EventStatus.SCHEDULED or not takes_turns(event):
        return
    mine = (event.update_domain, event.fault_domain)
    is_announced_earlier = True
    for other in fleet.events_of(event.group):
        if other.id == event.id:
            is_announced_earlier = False
            continue
        is_earlier = (other.not_before, not is_announced_earlier) < (event.not_before, True)
        is_beside = (other.update_domain, other.fault_domain) == mine and event.fault_domain is not None
        if takes_turns(other) and (is_earlier or other.status is _STARTED) and not is_beside:
            yield other


def _why_ready(fleet: Fleet, event: Event, now: datetime, has_passed: HasPassed, *, is_unneeded: bool) -> str:
    """Return why the Scheduled event may start; empty if it may not yet."""
    if approval.is_enough(fleet, event):
        return f"{StartCause.APPROVED} {approval.describe_approvers(event)}"
    if is_unneeded:
        return StartCause.ALL_DOWN
    if event.not_before <= now and has_passed(event):
        return event.without_notice or StartCause.DUE
    return ""


class _Ahead:
    """The events with priority: Started ones, and platform maintenance that is ready earlier."""

    def __init__(self) -> None:
        self._by_vm: dict[str, Event] = {}
        self._by_domain: dict[tuple[int, int | None], Event] = {}

    def add(self, event: Event) -> None:
        for vm in event.vms:
            self._by_vm.setdefault(vm, event)
        if takes_turns(event) or event.operation.is_failure:
            self._by_domain.setdefault((event.update_domain, event.fault_domain), event)

    def blocker_of(self, event: Event) -> Event | None:
        for vm in event.vms:
            if vm in self._by_vm:
                return self._by_vm[vm]
        if takes_turns(event):
            mine = (event.update_domain, event.fault_domain)
            for domain, other in self._by_domain.items():
                if domain != mine or event.fault_domain is None:
                    return other
        return None
