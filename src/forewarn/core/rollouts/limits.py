"""What a wave may hold: how many hosts, of which labels, and which share of the fleet and of each group.

Unavailable are the hosts that have failed or are cordoned, and those of waves under way, of all rollouts. Every other
host counts as capacity, also a spare one without VMs.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from math import ceil, floor

import msgspec

from forewarn.core import hosts as host_rules
from forewarn.core.fleet import Fleet
from forewarn.core.model import EventStatus, HostState, Operation
from forewarn.core.rollouts.model import Rollout, RolloutOperation, RolloutTerms, run_key
from forewarn.core.rollouts.selection import values_of
from forewarn.core.rollouts.sentences import number_of

_LOOKED_AT = 64
"""Hosts that do not fit into a wave, after which the search for others ends; times the size of the wave."""
_NAMED = 5
_CORDONED = "is cordoned"
_FAILED = "has failed"
_IN_MAINTENANCE = "is in maintenance"
_REMEDIES = {_CORDONED: "host uncordon", _FAILED: "host repaired", _IN_MAINTENANCE: "host exit-maintenance"}
_EVENT_OPERATIONS = {
    RolloutOperation.FREEZE: Operation.HOST_FREEZE,
    RolloutOperation.REBOOT: Operation.HOST_REBOOT,
    RolloutOperation.REDEPLOY: Operation.HOST_REDEPLOY,
    RolloutOperation.DRAIN: Operation.HOST_DRAIN,
    RolloutOperation.COMMAND: Operation.HOST_DRAIN,
}


class Wave(msgspec.Struct):
    """The hosts that begin together, and those that never will."""

    hosts: list[str] = []
    skipped: dict[str, str] = {}
    """Hosts that have no part in the rollout any more, and why."""
    blocked: str = ""
    """Why the first of the other hosts is not in it."""


def event_operation(operation: RolloutOperation) -> Operation:
    """Return the operation that announces the events of a rollout."""
    return _EVENT_OPERATIONS[operation]


def allowed_hosts(terms: RolloutTerms, total: int) -> int:
    """Return how many hosts of the fleet may be unavailable at once."""
    return floor(terms.fleet_share * total + 1e-9)


def allowed_vms(terms: RolloutTerms, running: int) -> int:
    """Return how many running VMs of a group may be on hosts of waves at once."""
    return floor(terms.group_share * running + 1e-9)


class Occupancy:
    """What is unavailable at present: it is filled as hosts are taken into a wave."""

    def __init__(self, fleet: Fleet, terms: RolloutTerms) -> None:
        self._fleet = fleet
        self._terms = terms
        self._hosts: dict[str, str] = {}
        """The unavailable hosts, with the reason."""
        self._counted_hosts: set[str] = set()
        """The hosts with VMs that count towards the share of their groups."""
        self._groups: Counter[str] = Counter()
        self._besides: dict[str, Counter[str]] = {}
        """By group: the hosts of its VMs that crashed or are under Started events."""
        self._counts_passing = True
        self._values: Counter[tuple[str, str]] = Counter()
        self._counted: tuple[str, Counter[str]] = "", Counter()
        self._said = 0, ""

    def add_present(self, *, counts_passing: bool = True) -> None:
        """Count what is unavailable already; of failed hosts and those in waves, their VMs as well.

        ``counts_passing`` tells whether what ends by itself counts: waves under way, crashes and Started events.
        """
        fleet = self._fleet
        self._counts_passing = counts_passing
        self._hosts.update(dict.fromkeys(fleet.cordoned, _CORDONED))
        for rollout in fleet.rollouts.values() if counts_passing else ():
            for host in rollout.active:
                self._hosts[host] = f"is in a wave of rollout {rollout.name}"
                self._add_groups(host)
        for rollout in () if counts_passing else fleet.rollouts.values():
            if rollout.terms.operation is RolloutOperation.COMMAND:  # they are uncordoned afterwards
                self._hosts = {host: why for host, why in self._hosts.items() if host not in rollout.active}
        for host, state in fleet.host_states.items():
            if state is HostState.FAILED:
                self._hosts[host] = _FAILED
                self._add_groups(host)
            elif state is HostState.MAINTENANCE and self._hosts.get(host) == _CORDONED:
                self._hosts[host] = _IN_MAINTENANCE

    def _add_groups(self, host: str) -> None:
        if self._terms.group_share < 1 and host not in self._counted_hosts:  # else it is not needed
            self._counted_hosts.add(host)
            self._groups.update(self.groups_on(host))

    def groups_on(self, host: str) -> Counter[str]:
        """Count the running VMs of each group on a host."""
        if self._counted[0] != host:  # most hosts are looked at and then taken
            vms = (self._fleet.vms[name] for name in self._fleet.vms_on(host))
            self._counted = host, Counter([vm.group for vm in vms if not vm.deallocated])
        return self._counted[1]

    def take(self, host: str) -> None:
        self._hosts[host] = "is in the wave already"
        self._add_groups(host)
        self._values.update(self._values_of(host))

    def against(self, host: str) -> str:
        """Say which limit keeps a host from the wave; empty when none does."""
        terms, fleet = self._terms, self._fleet
        for label, value in self._values_of(host):
            if self._values[label, value] >= terms.parallel_per[label]:
                number = terms.parallel_per[label]
                verb = "is" if number == 1 else "are"
                return f"{number_of(number, 'host')} with {label} {value} {verb} in the wave already"
        allowed = allowed_hosts(terms, len(fleet.hosts))
        if len(self._hosts) + (host not in self._hosts) > allowed:
            return self._too_few(allowed)
        if terms.group_share < 1:
            return self._against_groups(host)
        return ""

    def alone_against(self, host: str) -> str:
        """Say which limit a host breaks by itself, so that it can never be met; empty when none is broken."""
        if self._terms.group_share >= 1:
            return ""
        for group, here in sorted(self.groups_on(host).items()):
            running = self._running_of(group)
            allowed = allowed_vms(self._terms, running)
            if not allowed:
                return (
                    f"a share of {self._terms.group_share:.0%} of the {running} running VMs of group {group} is less "
                    "than one VM, so that no host with one of them could ever be maintained; "
                    f"give --group-share {least_share(running)} or more"
                )
            if here > allowed:
                names = [name for name in sorted(self._fleet.vms_on(host)) if self._fleet.vms[name].group == group]
                return (
                    f"host {host} alone has {here} of the {running} running VMs of group {group}, and only {allowed} "
                    f"may be unavailable at once; move {here - allowed} of {', '.join(names[:5])} to other hosts, "
                    f"or allow a larger --group-share"
                )
        return ""

    def _against_groups(self, host: str) -> str:
        for group, here in self.groups_on(host).items():
            allowed = allowed_vms(self._terms, self._running_of(group))
            unavailable = self._groups[group] + self._unavailable_besides(group, host)
            if unavailable + here > allowed:
                verb = "is" if unavailable == 1 else "are"
                return (
                    f"{number_of(unavailable, 'VM')} of group {group} {verb} unavailable "
                    f"(on hosts of waves or failed hosts, crashed, or under a Started event), and {allowed} may be"
                )
        return ""

    def _unavailable_besides(self, group: str, host: str) -> int:
        """Count the VMs of a group that crashed or are under a Started event, and are not counted with a host."""
        if not self._counts_passing:
            return 0
        fleet = self._fleet
        if group not in self._besides:
            started = (event.vms for event in fleet.events_of(group) if event.status is EventStatus.STARTED)
            vms = (fleet.vms[name] for name in {*fleet.crashed, *chain.from_iterable(started)} if name in fleet.vms)
            running = (vm.standing_on for vm in vms if vm.group == group and not vm.deallocated)
            self._besides[group] = Counter(running)
        elsewhere = self._besides[group].items()
        return sum(count for place, count in elsewhere if place != host and place not in self._counted_hosts)

    def _too_few(self, allowed: int) -> str:
        """Name the unavailable hosts, and what makes those available that do not become so by themselves."""
        if self._said[0] != len(self._hosts):  # it is said of every host that is looked at
            total = len(self._fleet.hosts)
            verb = "is" if len(self._hosts) == 1 else "are"
            named = [f"{host} {reason}" for host, reason in list(self._hosts.items())[:_NAMED]]
            more = [f"{len(self._hosts) - _NAMED} more"] if len(self._hosts) > _NAMED else []
            said = f"{len(self._hosts)} of {number_of(total, 'host')} {verb} unavailable, and {allowed} may be: "
            self._said = len(self._hosts), said + ", ".join(named + more) + self._remedy()
        return self._said[1]

    def _remedy(self) -> str:
        reasons = self._hosts.values()
        commands = [f"'forewarn {command}'" for reason, command in _REMEDIES.items() if reason in reasons]
        if not commands:
            return ""
        return f"; make them available with {' and '.join(commands)}, or allow a larger --fleet-share"

    def _running_of(self, group: str) -> int:
        return len(self._fleet.groups[group].vms) - self._fleet.stopped.get(group, 0)

    def _values_of(self, host: str) -> Iterator[tuple[str, str]]:
        for label in self._terms.parallel_per:
            yield from ((label, value) for value in values_of(self._fleet, host, label))


def least_share(total: int) -> str:
    """Return the smallest share that is one of so many hosts or VMs, as it is written."""
    return f"{ceil(100 / total)}%"


def why_left_out(fleet: Fleet, terms: RolloutTerms, host: str) -> str:
    """Say why a host has no part in the rollout; empty when it has."""
    if host not in fleet.hosts:
        return "the host was removed from the fleet"
    if fleet.state_of(host) is HostState.FAILED:
        return "the host has failed"
    if fleet.state_of(host) is HostState.MAINTENANCE:
        return "the host is in maintenance"
    if terms.opt_out in fleet.hosts[host].labels:
        return f"the host opts out by its label {terms.opt_out}"
    return ""


def next_wave(fleet: Fleet, rollout: Rollout) -> Wave:
    """Choose the hosts of the next wave, from the fleet as it is now. It costs what it touches."""
    busy = {host for other in fleet.rollouts.values() for host in other.active}
    receiving = _receiving(fleet) if rollout.terms.operation.drains else {}

    def obstacle(host: str) -> str:
        if host in busy:
            return f"host {host} is in a wave of another rollout"
        if host in receiving:
            return f"event {receiving[host]} moves VMs to {host}"
        return _unfinished(fleet, rollout.terms, host)

    return choose(fleet, rollout.terms, _waiting(fleet, rollout), obstacle)


def choose(
    fleet: Fleet,
    terms: RolloutTerms,
    waiting: Iterable[str],
    obstacle: Callable[[str], str] = lambda _: "",
    *,
    counts_passing: bool = True,
) -> Wave:
    """Take hosts into a wave in their order, as the limits allow; ``obstacle`` says what else is against one."""
    occupancy = Occupancy(fleet, terms)
    occupancy.add_present(counts_passing=counts_passing)
    wave = Wave()
    looked_at = 0
    for host in waiting:
        if reason := why_left_out(fleet, terms, host):
            wave.skipped[host] = reason
            continue
        if reason := occupancy.against(host) or obstacle(host):
            wave.blocked = wave.blocked or reason
            looked_at += 1
        else:
            occupancy.take(host)
            wave.hosts.append(host)
        if len(wave.hosts) >= terms.parallel or looked_at >= _LOOKED_AT * terms.parallel:
            break
    return wave


def _waiting(fleet: Fleet, rollout: Rollout) -> Iterable[str]:
    """Yield the hosts that have not begun; only canaries as long as one of these has not."""
    end = rollout.canaries if rollout.position < rollout.canaries else len(rollout.hosts)
    for place in range(rollout.position, end):
        if run_key(rollout.name, rollout.hosts[place]) not in fleet.rollout_hosts:
            yield rollout.hosts[place]


def _unfinished(fleet: Fleet, terms: RolloutTerms, host: str) -> str:
    """Say which event is in the way of announcing the operation; empty when none is."""
    standing = host_rules.unfinished(fleet, host, event_operation(terms.operation))
    if standing:
        return f"host {host} has an unfinished {terms.operation} already: event {standing[0].id}"
    return ""


def _receiving(fleet: Fleet) -> dict[str, str]:
    """Return the hosts that unfinished events move VMs to, each with such an event."""
    return {host: event.id for event in fleet.events.values() for host in event.targets}
