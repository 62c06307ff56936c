"""What a VM is shown never falls, whichever group it joins.

A group's incarnation rises with its own events. A VM that joins from a group with a higher one would see it fall, so
the new group's is raised above it. Of VMs that were removed the fleet remembers one number, the highest incarnation
that any of them may have seen: a VM that is new, or comes back under its old name, joins above it.
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
    VmRemoved,
)
from forewarn.core.fleet import Fleet

_REMOVED = ""
"""Stands for the removed VMs among the names of groups."""
_FIRST = 1
"""The incarnation that only ever shows no events, so that it may be seen again."""


def floors(fleet: Fleet, fact: AnyFact) -> dict[str, int]:
    """Return what groups must lie above after the fact, which the fleet has not taken in yet."""
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
        case _ if isinstance(fact, (AccessFact, ObservationRecorded, ClockStepped)):
            pass
        case _:
            assert_never(fact)
    return least


def raise_above(fleet: Fleet, least: dict[str, int]) -> IncarnationsRaised | None:
    """Return what lifts those groups above their floors that lie on or below them; None where all lie above."""
    retired = least.pop(_REMOVED, 0)
    raised = IncarnationsRaised(
        {name: floor + 1 for name, floor in least.items() if fleet.groups[name].incarnation <= floor},
        retired if retired > fleet.retired_incarnation else 0,
    )
    return raised if raised != IncarnationsRaised() else None
