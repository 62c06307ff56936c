"""Selects VMs to evict or delete when only a number is given, with the reason for each."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime

from forewarn.core.commands import ReclaimSpot, ScaleIn
from forewarn.core.errors import Refused, unknown
from forewarn.core.event_types import EVENT_TYPES
from forewarn.core.fleet import Fleet
from forewarn.core.model import EventType, GroupKind, Vm
from forewarn.core.notice import Rules

_NUMBER = re.compile(r"\d+")

Choice = tuple[Vm, str]
"""A VM and the reason for its selection."""


def spot_victims(fleet: Fleet, command: ReclaimSpot, now: datetime, rules: Rules) -> list[Choice]:
    """Select spot VMs to evict: from the group with the fewest evictions; all of a host if one is given."""
    if (command.count is None) == (command.host is None):
        raise Refused("say either how many spot VMs to reclaim, or of which host")
    if command.host is not None:
        if command.host not in fleet.hosts:
            raise unknown("host", command.host, fleet.hosts)
        names = fleet.vms_on(command.host)
        victims = sorted(_stays(fleet, (fleet.vms[name] for name in names)), key=_instance_order)
        return [(vm, f"stands on {command.host}") for vm in victims if vm.spot]
    count = _positive(command.count or 0)
    spots = list(_stays(fleet, (vm for vm in fleet.vms.values() if vm.spot)))
    if count > len(spots):
        raise Refused(f"only {len(spots)} spot VMs can be reclaimed, not {count}")
    return list(_fairly(spots, count, _lost(fleet, now, rules)))


def scale_in_victims(fleet: Fleet, command: ScaleIn) -> list[Choice]:
    """Select VMs of a scale set to delete: from the fullest zone, then fault domain, newest first."""
    group = fleet.groups.get(command.group)
    if group is None:
        raise unknown("group", command.group, fleet.groups)
    if group.terms.kind is not GroupKind.SCALE_SET:
        raise Refused(f"group {group.name} is {group.terms.kind}; only a scale-set can be scaled in")
    count = _positive(command.count)
    left = list(_stays(fleet, (fleet.vms[name] for name in group.vms)))
    if count > len(left):
        raise Refused(f"group {group.name} has {len(left)} VMs that are not being deleted already, not {count}")
    chosen: list[Choice] = []
    for _ in range(count):
        zone, in_zone = _fullest(left, lambda vm: vm.zone)
        domain, in_domain = _fullest(in_zone, lambda vm: vm.fault_domain)
        vm = max(in_domain, key=_instance_order)
        place = f"zone {zone}, fault domain {domain}" if zone else f"fault domain {domain}"
        chosen.append((vm, f"newest of the {len(in_domain)} VMs in {place}"))
        left.remove(vm)
    return chosen


def _lost(fleet: Fleet, now: datetime, rules: Rules) -> Counter[str]:
    """Count the evictions by group: unfinished ones, and those of the last 24 hours."""
    lost = Counter(event.group for event in fleet.events.values() if event.type is EventType.PREEMPT)
    lost.update(each.group for each in fleet.evictions if each.at > now - rules.evictions_count_for)
    return lost


def _fairly(spots: Iterable[Vm], count: int, lost: Counter[str]) -> Iterator[Choice]:
    waiting: dict[str, list[Vm]] = {}
    for vm in sorted(spots, key=_instance_order):
        waiting.setdefault(vm.group, []).append(vm)
    for _ in range(count):
        group = min((name for name in waiting if waiting[name]), key=lambda name: (lost[name], name))
        yield waiting[group].pop(), f"group {group} lost {lost[group]} in 24 hours, no other fewer"
        lost[group] += 1


def _fullest(vms: list[Vm], place: Callable[[Vm], str | int]) -> tuple[str | int, list[Vm]]:
    places: dict[str | int, list[Vm]] = {}
    for vm in vms:
        places.setdefault(place(vm), []).append(vm)
    return max(places.items(), key=lambda each: (len(each[1]), str(each[0])))


def _stays(fleet: Fleet, vms: Iterable[Vm]) -> Iterator[Vm]:
    """Yield the running VMs without an unfinished eviction or delete."""
    for vm in vms:
        is_leaving = fleet.last_applied.holds_removal(vm.name)
        is_ending = any(EVENT_TYPES[event.type].ends_vm for event in fleet.events_on(vm.name))
        if not vm.deallocated and not is_leaving and not is_ending:
            yield vm


def _instance_order(vm: Vm) -> tuple[list[int], str]:
    """Order VMs by the numbers in their names, so that web_10 is newer than web_9."""
    return [int(number) for number in _NUMBER.findall(vm.name)[-1:]], vm.name


def _positive(count: int) -> int:
    if count < 1:
        raise Refused(f"{count} VMs are none; give 1 or more")
    return count
