"""Plans the commands from the current to the desired network, and back. Pure functions."""

from collections.abc import Iterable

import msgspec

from forewarn.network.current import CurrentNetwork
from forewarn.network.desired import DesiredNetwork
from forewarn.network.resources import AnyResource, BridgeLink, LinkUp, SystemCommand, parse_resource
from forewarn.network.rules import FAMILIES, TABLE, rules_of


class SetupStep(msgspec.Struct, frozen=True):
    """One command and its effect."""

    what: str
    command: SystemCommand


def desired_rules(desired: DesiredNetwork, current: CurrentNetwork) -> str:
    """Return the rules, including the record of what setup changes."""
    return rules_of(
        desired,
        _record(desired.resources(current), current),
        desired.undeclared_ports(current),
        desired.outbound_ports(current),
    )


def plan_setup(desired: DesiredNetwork, current: CurrentNetwork, *, has_rules: bool) -> tuple[SetupStep, ...]:
    """Return steps for what is missing, and for what earlier runs made and is no longer wanted.

    The rules come first: nothing is opened before it is guarded, or changed before that is recorded.
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
    """Return steps that undo what earlier runs made; what others changed since then is kept."""
    steps = _undo_steps(current.record, current)
    for family in FAMILIES:
        if family in current.tables:
            steps.append(
                SetupStep(f"no table {family} {TABLE}", SystemCommand(("nft", "delete", "table", family, TABLE)))
            )
    return tuple(steps)


def _undo_steps(lines: Iterable[str], current: CurrentNetwork) -> list[SetupStep]:
    resources = [resource for line in lines if (resource := parse_resource(line))]
    # Removing a bridge with ports would disconnect the guests on them.
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
        # Another program may have created a bridge of that name since.
        and not (isinstance(resource, BridgeLink) and not resource.is_ours(current))
    ]


def ports_of(bridge: str, current: CurrentNetwork) -> list[str]:
    return sorted(name for name, link in current.links.items() if link.bridge == bridge)


def _record(resources: Iterable[AnyResource], current: CurrentNetwork) -> list[str]:
    """Return the record: what earlier runs changed, with the original values, and what this run changes."""
    known = {_key(old): line for line in current.record if (old := parse_resource(line))}
    changed = (each for each in resources if _key(each) in known or each.is_ours(current) or not each.exists(current))
    return [known.get(_key(each)) or each.line(current) for each in changed]


def _key(resource: AnyResource) -> tuple[str, ...]:
    """Return the key by which two record lines describe the same resource, whatever its earlier value."""
    fields = msgspec.structs.asdict(resource)
    fields.pop("before", None)
    return (type(resource).__name__, *map(str, fields.values()))
