"""``python -m bench.rollout_planning plan|waves VMS HOSTS GROUPS``: what planning and waves cost, printed as JSON."""

import os
import sys
from datetime import UTC, datetime
from time import process_time

import msgspec

from bench.processes import peak_memory
from forewarn.core.decide import enact
from forewarn.core.facts import FleetChanged
from forewarn.core.fleet import Fleet
from forewarn.core.model import NODE, GroupKind, GroupTerms, Host, Vm
from forewarn.core.notice import Rules
from forewarn.core.rollouts.commands import AdvanceRollout, CancelRollout, StartRollout
from forewarn.core.rollouts.model import RolloutOperation, RolloutTerms
from forewarn.core.rollouts.planning import make_plan
from forewarn.core.rollouts.prediction import Experience
from forewarn.node.large_change import collection_paused

_NOW = datetime(2026, 1, 1, tzinfo=UTC)
_TERMS = RolloutTerms(
    operation=RolloutOperation.REBOOT, all_hosts=True, parallel=10, fleet_share=0.5, group_share=0.5
)
_WAVES = 200


class PlanningCost(msgspec.Struct, frozen=True):
    """What one plan took."""

    seconds: float
    waves: int
    before: int
    """Bytes that the process held before it."""
    peak: int


class WaveCost(msgspec.Struct, frozen=True):
    """What one wave took, in the middle of many."""

    seconds: float


def make_fleet(vms: int, hosts: int, groups: int, *, in_order: bool = False) -> Fleet:
    """Return a fleet whose groups are spread over hosts, five update domains and three fault domains.

    ``in_order``: neighbouring hosts have VMs of neighbouring groups, so that ten of them have VMs of equally many
    groups in a fleet of any size.
    """
    fleet = Fleet()
    with collection_paused():
        fleet.evolve(
            FleetChanged(
                hosts=tuple(Host(f"host-{number}") for number in range(hosts)),
                groups=tuple(GroupTerms(f"group-{number}", GroupKind.AVAILABILITY_SET) for number in range(groups)),
                vms=tuple(
                    Vm(
                        f"vm-{number}",
                        f"group-{number % groups}",
                        f"host-{_place(number, groups, hosts) if not in_order else number * hosts // vms}",
                        update_domain=number // groups % 5,
                        fault_domain=number // groups % 3,
                    )
                    for number in range(vms)
                ),
            )
        )
    return fleet


def _place(number: int, groups: int, hosts: int) -> int:
    return (number * 7919 + number // groups * 31) % hosts


def measure_planning(fleet: Fleet) -> PlanningCost:
    before = _peak()
    began = process_time()
    plan = make_plan(fleet, "bench", _TERMS, _NOW, Rules(), Experience(), runs_commands=False)
    return PlanningCost(process_time() - began, len(plan.waves), before, _peak())


def measure_waves(fleet: Fleet) -> WaveCost:
    """Begin a first wave again and again, each in a rollout of its own."""
    rules = Rules()
    took: list[float] = []
    for number in range(_WAVES):
        name = f"bench-{number}"
        first = number * 11 % (len(fleet.hosts) - 10)
        hosts = tuple(f"host-{first + each}" for each in range(10))
        terms = msgspec.structs.replace(_TERMS, all_hosts=False, hosts=hosts)
        enact(fleet, StartRollout(id=f"{3 * number:032x}", by=NODE, name=name, terms=terms), _NOW, rules)
        advance = AdvanceRollout(id=f"{3 * number + 1:032x}", by=NODE, rollout=name)
        began = process_time()
        enact(fleet, advance, _NOW, rules)
        took.append(process_time() - began)
        enact(fleet, CancelRollout(id=f"{3 * number + 2:032x}", by=NODE, name=name), _NOW, rules)
        while name in fleet.rollouts:
            enact(fleet, advance, _NOW, rules)
    return WaveCost(sorted(took)[len(took) // 4])  # the machine only ever adds to it


def _peak() -> int:
    """Return the most memory that this program took; ``getrusage`` counts what its parent had when it was started."""
    return peak_memory(os.getpid())


if __name__ == "__main__":
    what, *sizes = sys.argv[1:]
    plans = what == "plan"
    made = make_fleet(*map(int, sizes), in_order=not plans)
    sys.stdout.buffer.write(msgspec.json.encode(measure_planning(made) if plans else measure_waves(made)))
