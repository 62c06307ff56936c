"""Cordoning a host, and draining it: its VMs are moved away by events, each VM to the host that was planned for it.

    host cordon     it receives no VMs: none is moved, added or started there
    host drain      the same, and events move its running VMs away, one event per group and update domain
    host uncordon   it receives VMs again; drain events that are still Scheduled are canceled

A cordon is no state of the host: it may be up, degraded or failed, and is repaired or not, whatever its cordon.
"""

from collections.abc import Iterator
from datetime import datetime

from msgspec.structs import replace

from forewarn.core import lifecycle
from forewarn.core.commands import CordonHost, DrainHost
from forewarn.core.errors import PlanOutdated, Refused
from forewarn.core.event_types import ANNOUNCEMENTS, LIVE_MIGRATION
from forewarn.core.facts import AnyFact, HostCordonSet
from forewarn.core.fleet import Fleet
from forewarn.core.hosts import check_host, refuse_failed, unfinished
from forewarn.core.model import EventStatus, HostState, Operation, Vm
from forewarn.core.notice import Rules
from forewarn.core.operations import event_for
from forewarn.core.placement import running_on


def cordon_host(fleet: Fleet, command: CordonHost, now: datetime) -> Iterator[AnyFact]:
    """Begin or end a cordon; what stands already changes nothing."""
    check_host(fleet, command.host)
    if (command.host in fleet.cordoned) is command.is_cordoned:
        return
    if command.is_cordoned:
        refuse_receiving(fleet, command.host)
    for event in () if command.is_cordoned else unfinished(fleet, command.host, Operation.HOST_DRAIN):
        if event.status is EventStatus.SCHEDULED:
            yield lifecycle.cancel(event, now, f"{command.host} was uncordoned")
    yield HostCordonSet(command.host, command.is_cordoned, now)


def drain_host(fleet: Fleet, command: DrainHost, now: datetime, rules: Rules) -> Iterator[AnyFact]:
    """Cordon the host and announce the moves that were planned; refuse a plan that the fleet has overtaken."""
    check_drainable(fleet, command.host)
    running = running_on(fleet, command.host)
    _check_plan(fleet, command, running)
    together: dict[tuple[str, int, bool], list[Vm]] = {}
    for vm in running:
        if vm.name in command.placements:
            is_live = command.live and vm.name not in command.cold
            together.setdefault((vm.group, vm.update_domain, is_live), []).append(vm)
    events = []
    for number, key in enumerate(sorted(together)):
        announcement = LIVE_MIGRATION if key[2] else ANNOUNCEMENTS[Operation.HOST_DRAIN]
        event = event_for(fleet, command, number, together[key], announcement, Operation.HOST_DRAIN, now, rules, "")
        events.append(replace(event, placements={vm.name: command.placements[vm.name] for vm in together[key]}))
    if command.host not in fleet.cordoned or command.left:
        yield HostCordonSet(command.host, True, now, command.left)
    for event in events:
        yield lifecycle.announce(event)


def check_drainable(fleet: Fleet, host: str) -> None:
    """Refuse to drain a host that has failed, is being drained, or is to receive VMs."""
    check_host(fleet, host)
    refuse_failed(fleet, host, "has failed, and its VMs are redeployed")
    if standing := unfinished(fleet, host, Operation.HOST_DRAIN):
        others = f" and {len(standing) - 1} more" if len(standing) > 1 else ""
        raise Refused(
            f"host {host} has an unfinished drain already: event {standing[0].id}{others}; "
            "wait until it ends, or cancel it"
        )
    refuse_receiving(fleet, host)


def refuse_receiving(fleet: Fleet, host: str) -> None:
    """Refuse to cordon a host that an unfinished event moves VMs to."""
    for event in fleet.events.values():
        if host in event.targets:
            remedy = "wait until it ends" + ("" if event.status is EventStatus.STARTED else ", or cancel it")
            raise Refused(f"event {event.id} ({event.operation}) moves VMs to {host}; {remedy}")


def _check_plan(fleet: Fleet, command: DrainHost, running: list[Vm]) -> None:
    planned = command.placements.keys() | command.left.keys()
    changed = sorted(planned ^ {vm.name for vm in running})
    for name, host in command.placements.items():
        is_usable = host in fleet.hosts and host != command.host and host not in fleet.cordoned
        if not is_usable or fleet.state_of(host) is HostState.FAILED:
            changed.append(f"{name} to {host}")
    if changed:
        raise PlanOutdated(
            f"the fleet changed while the drain of {command.host} was planned ({', '.join(changed[:5])}); try again"
        )
