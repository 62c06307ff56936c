"""Which hosts a rollout is for, and in which order they begin."""

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase

from forewarn.core.errors import Refused, nearest
from forewarn.core.fleet import Fleet
from forewarn.core.label_selectors import parse_selector
from forewarn.core.rollouts.model import RolloutOrder, RolloutTerms

FAULT_DOMAIN = "fault-domain"
"""Names, in place of a label, the fault domains of the VMs on a host."""
_PATTERN = re.compile(r"[*?\[]")
_DIGITS = re.compile(r"(\d+)")


def select_hosts(fleet: Fleet, terms: RolloutTerms) -> tuple[str, ...]:
    """Return the hosts in the order in which they begin, canaries first; refuse what matches nothing."""
    if terms.all_hosts and (terms.hosts or terms.selector):
        raise Refused("all hosts are asked for, and names or a selector as well; leave one of them out")
    if not (terms.all_hosts or terms.hosts or terms.selector):
        raise Refused("no hosts are named; give --hosts NAME or PATTERN, --selector LABELS, or --all")
    names = _named(fleet, terms.hosts) if terms.hosts else dict.fromkeys(fleet.hosts)
    if not names:
        raise Refused("the fleet has no hosts; declare some with 'forewarn fleet apply FILE'")
    if terms.selector:
        selector = parse_selector(terms.selector)
        names = {name: None for name in names if selector.matches(fleet.hosts[name].labels)}
        if not names:
            raise Refused(
                f"no host matches the selector {terms.selector!r}; 'forewarn host list --show-labels' shows them"
            )
    chosen = in_order(fleet, terms, names)
    return (*(first := _canaries(fleet, terms, chosen)), *(name for name in chosen if name not in set(first)))


def count_canaries(fleet: Fleet, terms: RolloutTerms, hosts: tuple[str, ...]) -> int:
    """Return how many of the first hosts are canaries."""
    return len(_canaries(fleet, terms, list(hosts)))


def in_order(fleet: Fleet, terms: RolloutTerms, names: Iterable[str]) -> list[str]:
    """Sort hosts as the terms have it; numbers in names and labels compare as numbers."""

    def key(name: str) -> tuple[object, ...]:
        match terms.order:
            case RolloutOrder.FEWEST_VMS:
                return len(fleet.vms_on(name)), _natural(name)
            case RolloutOrder.FAULT_DOMAIN:
                return min(fault_domains(fleet, name), default=-1), _natural(name)
            case RolloutOrder.LABEL:
                return _natural(fleet.hosts[name].labels.get(terms.order_label, "")), _natural(name)
            case _:
                return (_natural(name),)

    return sorted(names, key=key)


def fault_domains(fleet: Fleet, host: str) -> set[int]:
    return {fleet.vms[name].fault_domain for name in fleet.vms_on(host)}


def values_of(fleet: Fleet, host: str, label: str) -> tuple[str, ...]:
    """Return the values that a host counts under for a limit per label, or per fault domain."""
    if label == FAULT_DOMAIN:
        return tuple(map(str, sorted(fault_domains(fleet, host))))
    value = fleet.hosts[host].labels.get(label)
    return () if value is None else (value,)


def _named(fleet: Fleet, patterns: Iterable[str]) -> dict[str, None]:
    found: dict[str, None] = {}
    for pattern in patterns:
        if not _PATTERN.search(pattern):
            matching = [pattern] if pattern in fleet.hosts else []
        else:
            matching = [name for name in fleet.hosts if fnmatchcase(name, pattern)]
        if not matching:
            hint = "; give --hosts once for each" if "," in pattern else nearest(pattern, fleet.hosts)
            raise Refused(f"no host matches {pattern!r}{hint}; see 'forewarn host list'")
        found.update(dict.fromkeys(matching))
    return found


def _canaries(fleet: Fleet, terms: RolloutTerms, chosen: list[str]) -> tuple[str, ...]:
    if not terms.canary_hosts:
        return tuple(chosen[: terms.canary])
    named = _named(fleet, terms.canary_hosts)
    if missing := [name for name in named if name not in set(chosen)]:
        raise Refused(f"canary {missing[0]} is not among the hosts of the rollout; add it, or name another")
    return tuple(name for name in chosen if name in named)


def _natural(text: str) -> tuple[tuple[object, ...], ...]:
    """Return a key by which ``host-10`` comes after ``host-9``: every second part is a number."""
    parts = enumerate(_DIGITS.split(text))
    return tuple((int(part), part) if number % 2 else (part,) for number, part in parts)
