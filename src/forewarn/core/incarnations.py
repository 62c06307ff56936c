"""The incarnation that a VM sees never falls, also when it changes its group.

A group's incarnation rises with its own events. A VM that joins from a group with a higher one would see it fall, so
the new group's incarnation is raised above it. For removed VMs the fleet keeps one number, the highest incarnation
that any of them may have seen: a new VM, or one that is added again with its old name, joins above it.
"""

from typing import assert_never

from forewarn.core.facts import (
    AccessFact,
    AnyFact,
    ClockStepped,
    DeclarationFact,
    EnrolmentFact,
    EventFact,
    Fetched,
    FleetChanged,
    IncarnationsRaised,
    ObservationRecorded,
    RecordChanged,
    Selected,
    VmRemoved,
)
from forewarn.core.fleet import Fleet
from forewarn.core.rollouts.facts import RolloutFact

_REMOVED = ""
"""Represents the removed VMs among the names of groups."""
_FIRST = 1
"""The first incarnation: it never shows events, so it may be repeated."""


def floors(fleet: Fleet, fact: AnyFact) -> dict[str, int]:
    """Return the lower bounds of incarnations after a fact that is not applied yet."""
    least: dict[str, int] = {}

    def set_floor(group: str, incarnation: int) -> None:
        if incarnation > max(_FIRST, least.get(group, 0)):
            least[group] = incarnation

    match fact:
        case FleetChanged(vms=vms, removed_vms=removed):
            for vm in vms:
                old = fleet.vms.get(vm.name)
                if old is None:
                    set_floor(vm.group, fleet.retired_incarnation)
                elif old.group != vm.group:
                    set_floor(vm.group, fleet.groups[old.group].incarnation)
            for name in removed:
                set_floor(_REMOVED, fleet.groups[fleet.vms[name].group].incarnation)
        case VmRemoved(vm=name):
            set_floor(_REMOVED, fleet.groups[fleet.vms[name].group].incarnation)
        case _ if isinstance(fact, (EventFact, Fetched, RecordChanged, DeclarationFact, EnrolmentFact)):
            pass
        case _ if isinstance(fact, (AccessFact, ObservationRecorded, ClockStepped, RolloutFact, Selected)):
            pass
        case _:
            assert_never(fact)
    return least


def raise_above(fleet: Fleet, least: dict[str, int]) -> IncarnationsRaised | None:
    """Return the fact that raises groups above their lower bounds; None if all are above."""
    retired = least.pop(_REMOVED, 0)
    raised = IncarnationsRaised(
        {name: floor + 1 for name, floor in least.items() if fleet.groups[name].incarnation <= floor},
        retired if retired > fleet.retired_incarnation else 0,
    )
    return raised if raised != IncarnationsRaised() else None
