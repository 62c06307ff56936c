"""Whose turn it is within a group.

An event is *ready* when it is approved or due. It starts as soon as it stands in no other event's way:

- platform maintenance (source Platform; Freeze, Reboot, Redeploy, but not a hardware failure) is never Started
  beside other platform maintenance of the group, unless both share update domain and fault domain;
- no VM is ever under two Started events.

Ready events go by NotBefore, then by announcement. One that must wait stays Scheduled and is not overtaken by a
later one that would stand in its way, so it starts in the same append that ends the one it waits for.
Hardware failure waits for nothing. In a group's quiet hours no platform maintenance starts.
"""

from collections.abc import Iterator
from datetime import datetime

from forewarn.core import approval, lifecycle, quiet
from forewarn.core.facts import Started, Waiting
from forewarn.core.fleet import Fleet
from forewarn.core.model import Event, EventSource, EventStatus, EventType
from forewarn.core.notice import FAILURES

ALL_DOWN = "all VMs of the group are down"
DUE = "NotBefore has passed"
"""Why an event started that nobody approved in time."""
_MAINTENANCE = {EventType.FREEZE, EventType.REBOOT, EventType.REDEPLOY}


def settle(fleet: Fleet, group: str, now: datetime) -> Iterator[Started | Waiting]:
    """Yield the start of every ready event whose turn it is, and what each of the others waits for."""
    events = fleet.events_of(group)
    ahead = _Ahead()
    for event in events:
        if event.status is EventStatus.STARTED:
            ahead.add(event)
    reasons = {event.id: reason for event in events if (reason := _why_ready(fleet, event, now))}
    for event in events:
        if (event.waits_for or event.waits_until) and event.id not in reasons:
            yield lifecycle.stop_waiting(event, now)
    ready = [event for event in events if event.id in reasons]
    quiet_until = quiet.quiet_until(fleet.groups[group].terms.policy.quiet_hours, now) if ready else None
    for event in sorted(ready, key=lambda event: event.not_before):
        if quiet_until and takes_turns(event):
            if event.waits_until != quiet_until:
                yield lifecycle.keep_quiet(event, now, quiet_until)
            continue
        blocker = ahead.blocker_of(event)
        if blocker is None:
            yield lifecycle.start(event, now, reasons[event.id])
        elif event.waits_for != blocker.id:
            yield lifecycle.wait(event, now, blocker)
        ahead.add(event)


def takes_turns(event: Event) -> bool:
    """Tell whether the event is platform maintenance, which goes one update domain at a time."""
    return event.source is EventSource.PLATFORM and event.type in _MAINTENANCE and event.operation not in FAILURES


def _why_ready(fleet: Fleet, event: Event, now: datetime) -> str:
    """Say why the event may start; empty when it may not yet."""
    if event.status is not EventStatus.SCHEDULED:
        return ""
    if approval.is_enough(fleet, event):
        return f"approved by {approval.whose(event)}"
    if approval.is_needless(fleet, event):
        return ALL_DOWN
    if event.not_before <= now:
        return event.without_notice or DUE
    return ""


class _Ahead:
    """The events that go before: those Started, and those ready earlier."""

    def __init__(self) -> None:
        self._by_vm: dict[str, Event] = {}
        self._by_domain: dict[tuple[int, int | None], Event] = {}

    def add(self, event: Event) -> None:
        for vm in event.vms:
            self._by_vm.setdefault(vm, event)
        if takes_turns(event):
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
