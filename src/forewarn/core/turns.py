"""Whose turn it is within a group.

An event is *ready* when it is approved or due. What a ready event waits for:

    user operations, Preempt, Terminate   a Started event of one of its VMs, and nothing else
    platform maintenance                  the same, and maintenance of the group that is Started or ready earlier, or
                                          hardware failure that is Started, unless both share update domain and
                                          fault domain; quiet hours
    hardware failure                      nothing

Platform maintenance is what has source Platform and type Freeze, Reboot or Redeploy, but no hardware failure.
Ready events start in this order: Preempt, Terminate, user operations, platform maintenance; among equals by
NotBefore, then by announcement. One that must wait stays Scheduled, and starts in the same append that ends what it
waits for. Maintenance that waits is not overtaken by later maintenance that would stand in its way.
"""

from collections.abc import Callable, Iterator
from datetime import datetime

from forewarn.core import approval, lifecycle, quiet_hours
from forewarn.core.event_types import EVENT_TYPES
from forewarn.core.facts import Started, Waiting
from forewarn.core.fleet import Fleet
from forewarn.core.model import Event, EventSource, EventStatus, StartCause

HasPassed = Callable[[Event], bool]
"""Whether an event's notice has passed, on a clock that cannot be set."""


def settle(
    fleet: Fleet, group: str, now: datetime, has_passed: HasPassed = lambda _: True
) -> Iterator[Started | Waiting]:
    """Yield the start of every ready event whose turn it is, and what each of the others waits for."""
    events = fleet.events_of(group)
    ahead = _Ahead()
    for event in events:
        if event.status is EventStatus.STARTED:
            ahead.add(event)
    reasons = {event.id: reason for event in events if (reason := _why_ready(fleet, event, now, has_passed))}
    for event in events:
        if (event.waits_for or event.waits_until) and event.id not in reasons:
            yield lifecycle.stop_waiting(event, now)
    ready = [event for event in events if event.id in reasons]
    quiet_until = quiet_hours.quiet_until(fleet.groups[group].terms.policy.quiet_hours, now) if ready else None
    for event in sorted(ready, key=_order):
        if quiet_until and takes_turns(event):
            if event.waits_until != quiet_until:
                yield lifecycle.keep_quiet(event, now, quiet_until)
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
    return order + takes_turns(event), event.not_before  # maintenance comes after the rest


def takes_turns(event: Event) -> bool:
    """Tell whether the event is platform maintenance, which goes one update domain at a time."""
    is_maintenance = event.source is EventSource.PLATFORM and EVENT_TYPES[event.type].is_maintenance
    return is_maintenance and not event.operation.is_failure


def earliest_start(fleet: Fleet, event: Event, now: datetime) -> datetime | None:
    """Return when quiet hours let the event start that is Scheduled into them; None where they do not hold it up."""
    group = fleet.groups.get(event.group)
    if group is None or event.status is not EventStatus.SCHEDULED or not takes_turns(event):
        return None
    return quiet_hours.quiet_until(group.terms.policy.quiet_hours, max(event.not_before, now))


def _why_ready(fleet: Fleet, event: Event, now: datetime, has_passed: HasPassed) -> str:
    """Say why the event may start; empty when it may not yet."""
    if event.status is not EventStatus.SCHEDULED:
        return ""
    if approval.is_enough(fleet, event):
        return f"{StartCause.APPROVED} {approval.describe_approvers(event)}"
    if approval.is_unneeded(fleet, event):
        return StartCause.ALL_DOWN
    if event.not_before <= now and has_passed(event):
        return event.without_notice or StartCause.DUE
    return ""


class _Ahead:
    """The events that go before: those Started, and platform maintenance that is ready earlier."""

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
