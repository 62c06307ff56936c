"""What events mean for VMs, as the dashboard colours them.

Most VMs of a fleet are idle. So the others are found by what makes them so: an event, a failure, a deallocation;
counts of a large fleet cost what these few and the number of hosts or groups cost.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from enum import StrEnum
from typing import get_args

from forewarn.core.access import Principal
from forewarn.core.approval import is_enough
from forewarn.core.facts import RecordSetChanged, VmDeallocated, VmStarted
from forewarn.core.fleet import Fleet
from forewarn.core.model import Event, EventStatus, Vm
from forewarn.node.feed import Commit


class EventState(StrEnum):
    """What events mean for a VM, the most urgent first."""

    FAILED = "failed"
    """An event failed lately, the last power request failed, or the machine crashed."""
    IN_PROGRESS = "in-progress"
    APPROVED = "approved"
    """The approvals of every event of it satisfy the rule of its group."""
    ANNOUNCED = "announced"
    DEALLOCATED = "deallocated"
    IDLE = "idle"


def state_of(fleet: Fleet, vm: Vm, events: Iterable[Event], failed: Collection[str]) -> EventState:
    """Return the state of a VM, given its unfinished events and the VMs whose event failed lately."""
    request = fleet.power_requests.get(vm.name)
    if (request and request.failure) or vm.name in fleet.crashed or vm.name in failed:
        return EventState.FAILED
    unfinished = list(events)
    if any(event.status is EventStatus.STARTED for event in unfinished):
        return EventState.IN_PROGRESS
    if unfinished:
        is_approved = all(is_enough(fleet, event) for event in unfinished)
        return EventState.APPROVED if is_approved else EventState.ANNOUNCED
    return EventState.DEALLOCATED if vm.deallocated else EventState.IDLE


def events_by_vm(events: Iterable[Event]) -> dict[str, list[Event]]:
    found: dict[str, list[Event]] = {}
    for event in events:
        for name in event.vms:
            found.setdefault(name, []).append(event)
    return found


class DeallocatedVms:
    """Follows which VMs are deallocated, from the first page on that asks: a fleet has no index of them."""

    def __init__(self, fleet: Callable[[], Fleet]) -> None:
        self._fleet = fleet
        self._names: set[str] | None = None

    @property
    def names(self) -> set[str]:
        if self._names is None:
            self._names = {name for name, vm in self._fleet().vms.items() if vm.deallocated}
        return self._names

    def load(self, fleet: Fleet) -> None:
        self._names = None

    def publish(self, commit: Commit) -> None:
        if self._names is None:
            return
        if commit.holds(get_args(RecordSetChanged)):
            self._names = None
        elif commit.holds((VmDeallocated, VmStarted)):
            named = {getattr(fact, "vm", "") for entry in commit.entries for fact in entry.facts}
            for name in named & commit.fleet.vms.keys():
                is_deallocated = commit.fleet.vms[name].deallocated
                (self._names.add if is_deallocated else self._names.discard)(name)


def busy_vms(
    fleet: Fleet, principal: Principal, deallocated: Iterable[str], failed: Collection[str]
) -> dict[str, EventState]:
    """Return the state of every visible VM that is not idle."""
    events = events_by_vm(principal.known_events(fleet))
    unpowered = (name for name, request in fleet.power_requests.items() if request.failure)
    named = {*events, *unpowered, *fleet.crashed, *deallocated, *failed}
    found = ((name, fleet.vms[name]) for name in named if name in fleet.vms)
    visible = ((name, vm) for name, vm in found if principal.sees(vm.group))
    states = ((name, state_of(fleet, vm, events.get(name, ()), failed)) for name, vm in visible)
    return {name: state for name, state in states if state is not EventState.IDLE}


def count_by(fleet: Fleet, busy: dict[str, EventState], key: str) -> dict[str, Counter[EventState]]:
    """Count the VMs that are not idle, by an attribute of them."""
    counts: dict[str, Counter[EventState]] = {}
    for name, state in busy.items():
        counts.setdefault(getattr(fleet.vms[name], key), Counter())[state] += 1
    return counts


def with_idle(counts: Counter[EventState] | None, total: int) -> dict[str, int]:
    """Return counts with the rest as idle, by name, without zeros, in the order of the states."""
    known = counts or Counter[EventState]()
    every = {**known, EventState.IDLE: total - known.total()}
    return {str(state): every[state] for state in EventState if every.get(state)}


def visible_vms(fleet: Fleet, principal: Principal) -> Iterator[str]:
    return iter(principal.known_vms(fleet))
