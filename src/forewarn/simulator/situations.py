"""Short sequences of actions that seeds would otherwise meet too rarely.

They are situations in which faults hid, crashes during starts and stops, and requests that are sent twice.
"""

from collections.abc import Callable
from random import Random

from msgspec.structs import replace

from forewarn.simulator.actions import (
    cluster_faults,
    environment_faults,
    fleet_requests,
    group_requests,
    host_requests,
    service_faults,
    vm_requests,
)
from forewarn.simulator.actions.access_requests import SendTwice
from forewarn.simulator.actions.planned_action import PlannedAction
from forewarn.simulator.plan import Plan

_MOST_CALLBACKS = {"start": 40, "stop": 30}
"""Most starts and stops have at least so many."""
_REPEATED = 0.3
"""The share of requests that are sent twice, in plans with such requests."""


class SituationGenerator:
    """Adds one situation to a plan."""

    def __init__(self, plan: Plan, random: Random) -> None:
        self._plan = plan
        self._random = random
        self._at = random.uniform(5.0, plan.ends_at)
        self._keys = 0

    def plan(self) -> Plan:
        situations: list[Callable[[], list[PlannedAction]]] = [
            self._switched_at_once,
            self._switched_at_once,
            self._off_while_all_must_approve,
            self._waits_for_its_turn,
        ]
        if not self._plan.nodes:
            situations.append(self._file_that_fits_in_part)
        made = self._random.choice(situations)()
        actions = sorted((*self._plan.actions, *made), key=lambda action: action.at)
        return replace(self._plan, actions=tuple(actions))

    def _then(self, most: float) -> float:
        """Return a time soon after the last one."""
        self._at = round(min(self._at + self._random.uniform(0.0, most), self._plan.ends_at), 3)
        return self._at

    def _key(self) -> str:
        self._keys += 1
        return f"s{self._keys}"

    def _who(self) -> str:
        return self._random.choice(("ann", *self._plan.owners))

    def _switched_at_once(self) -> list[PlannedAction]:
        """Stop a VM and start it again before the driver has done what was asked for first."""
        vm, who = self._random.choice(self._plan.vms).name, self._who()
        operations = ["deallocate", "start"] * self._random.randint(1, 2)
        operations += ["deallocate"] * self._random.randint(0, 1)
        return [
            vm_requests.RequestVmOperation(at=self._then(1.5), who=who, operation=operation, vm=vm, key=self._key())
            for operation in operations
        ]

    def _off_while_all_must_approve(self) -> list[PlannedAction]:
        """Let all VMs of a host have to approve, and deallocate one before or after the announcement."""
        vm = self._random.choice(self._plan.vms)
        terms = '{"approval":"all"}'
        announced = host_requests.RequestHostOperation(
            at=self._then(2.0),
            who="ann",
            operation=self._random.choice(("freeze", "reboot")),
            host=vm.host,
            key=self._key(),
        )
        stopped = vm_requests.RequestVmOperation(
            at=self._then(2.0), who="ann", operation="deallocate", vm=vm.name, key=self._key()
        )
        made: list[PlannedAction] = [announced, stopped]
        if self._random.random() < 0.5:
            made = [replace(announced, at=stopped.at), replace(stopped, at=announced.at)]
        first = round(max(made[0].at - 3.0, 3.0), 3)
        return [group_requests.RequestTerms(at=first, who="ann", group=vm.group, terms=terms, key=self._key()), *made]

    def _waits_for_its_turn(self) -> list[PlannedAction]:
        """Maintain all hosts, and approve, cancel or postpone what waits for its turn."""
        random = self._random
        made: list[PlannedAction] = [
            host_requests.RequestHostOperation(
                at=self._then(3.0),
                who="ann",
                operation=random.choice(("freeze", "reboot", "redeploy")),
                host=host,
                key=self._key(),
            )
            for host in random.sample(self._plan.hosts, k=len(self._plan.hosts))
        ]
        for _ in range(random.randint(1, 3)):
            event, verb = f"E{random.randint(1, 6)}", random.choice(("approve", "approve", "cancel", "postpone"))
            made.append(
                group_requests.RequestEventChange(
                    at=self._then(20.0), who="ann", verb=verb, event=event, key=self._key()
                )
            )
        return made

    def _file_that_fits_in_part(self) -> list[PlannedAction]:
        """Add a host to the fleet file, and a VM on a host that has failed, before a start."""
        failed, group = self._random.choice(self._plan.hosts), self._random.choice(self._plan.groups).name
        return [
            host_requests.RequestHostOperation(
                at=self._then(2.0), who="ann", operation="fail", host=failed, key=self._key()
            ),
            fleet_requests.EditFleetFile(at=self._then(2.0), edit="add-host", subject="h5", value="-"),
            fleet_requests.EditFleetFile(
                at=self._then(2.0), edit="add-vm", subject="more-1", value=f"{group}/{failed}/1"
            ),
            service_faults.RestartService(at=self._then(4.0)),
        ]


class CrashGenerator:
    """Adds crashes during starts and stops to a plan: at other times, few kills meet one."""

    def __init__(self, plan: Plan, random: Random) -> None:
        self._plan = plan
        self._random = random

    def plan(self) -> Plan:
        made = [action for _ in range(self._random.randint(1, 4)) for action in self._crash()]
        actions = sorted((*self._plan.actions, *made), key=lambda action: action.at)
        return replace(self._plan, actions=tuple(actions))

    def _crash(self) -> list[PlannedAction]:
        """Let the service end, and kill it while it stops, or while it starts again; then a record may be damaged."""
        random = self._random
        at, phase = round(random.uniform(5.0, self._plan.ends_at), 3), random.choice(("start", "start", "stop"))
        crash = service_faults.KillServiceDuring(
            at=at, callbacks=random.randint(0, _MOST_CALLBACKS[phase]), phase=phase
        )
        made: list[PlannedAction] = [crash]
        if random.random() < 0.3:
            made.append(environment_faults.DamageDriverRecord(at=at))
        ends_in_order = phase == "stop" or random.random() < 0.5
        if self._plan.nodes:
            node = f"n{random.randint(1, self._plan.nodes)}" if random.random() < 0.3 else "leader"
            if ends_in_order:
                return [*made, cluster_faults.RestartNode(at=at, node=node)]
            return [*made, cluster_faults.KillNode(at=at, node=node, callbacks=random.randint(0, 20))]
        if ends_in_order:
            return [*made, service_faults.RestartService(at=at)]
        return [*made, service_faults.KillService(at=at, callbacks=random.randint(0, 20))]


class RepetitionGenerator:
    """Lets some requests of a plan be sent twice at the same time."""

    def __init__(self, plan: Plan, random: Random) -> None:
        self._plan = plan
        self._random = random

    def plan(self) -> Plan:
        chances = [self._random.random() for _ in self._plan.actions]
        actions: list[PlannedAction] = []
        for action, chance in zip(self._plan.actions, chances, strict=True):
            who = getattr(action, "who", "")
            if who and hasattr(action, "key") and chance < _REPEATED:
                actions.append(SendTwice(at=action.at, who=who))
            actions.append(action)
        return replace(self._plan, actions=tuple(actions))
