"""Which commands lead from what is seen to what is wanted, and back to what was before. Pure."""

from collections.abc import Iterable

import msgspec

from forewarn.network.commands import SystemCommand
from forewarn.network.current import CurrentNetwork
from forewarn.network.desired import DesiredNetwork
from forewarn.network.resources import AnyResource, BridgeLink, LinkUp, parse_resource
from forewarn.network.rules import FAMILIES, TABLE, rules_of


class SetupStep(msgspec.Struct, frozen=True):
    """One command, and what it brings about."""

    what: str
    command: SystemCommand


def desired_rules(desired: DesiredNetwork, current: CurrentNetwork) -> str:
    """Return the rules, with what is written down there once everything is made."""
    return rules_of(
        desired,
        _record(desired.resources(current), current),
        desired.undeclared_ports(current),
        desired.outbound_ports(current),
    )


def plan_setup(desired: DesiredNetwork, current: CurrentNetwork, *, has_rules: bool) -> tuple[SetupStep, ...]:
    """Return what is missing, and what earlier runs made that is wanted no longer.

    The rules come first: nothing is opened before it is guarded, nor changed before that is written down.
    """
    steps = []
    if not has_rules:
        steps.append(
            SetupStep(
                "the rules of the packet filter", SystemCommand(("nft", "-f", "-"), desired_rules(desired, current))
            )
        )
    resources = desired.resources(current)
    kept = {_key(resource) for resource in resources}
    steps += _undo_steps(
        (line for line in current.record if (old := parse_resource(line)) and _key(old) not in kept), current
    )
    steps += [
        SetupStep(str(resource), resource.create_command()) for resource in resources if not resource.exists(current)
    ]
    return tuple(steps)


def plan_teardown(current: CurrentNetwork) -> tuple[SetupStep, ...]:
    """Return what undoes all that earlier runs made; what somebody else changed since then is left alone."""
    steps = _undo_steps(current.record, current)
    for family in FAMILIES:
        if family in current.tables:
            steps.append(
                SetupStep(f"no table {family} {TABLE}", SystemCommand(("nft", "delete", "table", family, TABLE)))
            )
    return tuple(steps)


def _undo_steps(lines: Iterable[str], current: CurrentNetwork) -> list[SetupStep]:
    resources = [resource for line in lines if (resource := parse_resource(line))]
    # To take away a bridge with ports would take the network from whoever is behind them.
    used = {
        resource.name
        for resource in resources
        if isinstance(resource, BridgeLink) and ports_of(resource.name, current)
    }
    return [
        SetupStep(f"no longer {resource}", resource.remove_command())
        for resource in reversed(resources)
        if resource.exists(current)
        and not (isinstance(resource, BridgeLink | LinkUp) and resource.name in used)
        # A program that was late may have made a bridge of that name since.
        and not (isinstance(resource, BridgeLink) and not resource.is_ours(current))
    ]


def ports_of(bridge: str, current: CurrentNetwork) -> list[str]:
    return sorted(name for name, link in current.links.items() if link.bridge == bridge)


def _record(resources: Iterable[AnyResource], current: CurrentNetwork) -> list[str]:
    """Return what to write down: what earlier runs changed, as it was before them, and what this one changes."""
    known = {_key(old): line for line in current.record if (old := parse_resource(line))}
    changed = (each for each in resources if _key(each) in known or each.is_ours(current) or not each.exists(current))
    return [known.get(_key(each)) or each.line(current) for each in changed]


def _key(resource: AnyResource) -> tuple[str, ...]:
    """Return what makes two lines tell of one piece, whatever was there before it."""
    fields = msgspec.structs.asdict(resource)
    fields.pop("before", None)
    return (type(resource).__name__, *map(str, fields.values()))
