"""Makes a plan with several nodes of a plan with one service."""

from collections.abc import Callable
from random import Random

from msgspec.structs import replace

from forewarn.simulator.actions import cluster_faults, environment_faults, fleet_requests, service_faults
from forewarn.simulator.actions.planned_action import PlannedAction
from forewarn.simulator.plan import Plan

_NODE_DRIVERS = ("machines", "machines", "immediate", "unfenced", "unfenced", "command", "webhook")
_LOSSY = 0.02
"""The share of plans with nodes in which a standby may not have the last entries."""
_LONGEST_WITH_NODES = 120.0

_OF_ONE_SERVICE = (
    service_faults.KillService,
    service_faults.LosePower,
    service_faults.RestartService,
    service_faults.FailAppends,
    service_faults.FillDisk,
    service_faults.HideDisk,
    service_faults.StepClock,
    service_faults.DriftClock,
)


class NodeGenerator:
    """Makes a plan with several nodes of a plan with one service: other faults happen."""

    def __init__(self, plan: Plan, random: Random) -> None:
        self._random = random
        self._nodes = random.choice((2, 3, 3))
        self._length = min(plan.ends_at, _LONGEST_WITH_NODES)
        self._before = plan
        self._burst = random.uniform(5.0, self._length)

    def plan(self) -> Plan:
        random, before = self._random, self._before
        kept = [each for each in before.actions if not isinstance(each, _OF_ONE_SERVICE) and each.at <= self._length]
        kept = [
            each for each in kept if not (isinstance(each, environment_faults.FailDriver) and each.fault == "hangs")
        ]
        faults: list[Callable[[], PlannedAction]] = [
            self._kill,
            self._kill,
            self._restart,
            self._pause,
            self._pause,
            self._cut_off,
            self._cut_nodes,
            self._skew,
            self._peers,
            self._database,
            self._append,
            self._heartbeats,
            self._notifications,
        ]
        enabled = random.sample(faults, k=random.randint(0, 5))
        made = [random.choice(enabled)() for _ in range(random.randint(1, 8))] if enabled else []
        if any(isinstance(each, fleet_requests.EditFleetFile) for each in kept):
            made.append(cluster_faults.RestartNode(at=self._at(), node="leader"))
        if random.random() < _LOSSY:
            made.append(cluster_faults.FailOver(at=self._at(), seconds=2.0, entries=random.randint(1, 3)))
        actions = sorted([*kept, *made], key=lambda action: action.at)
        return replace(
            before,
            actions=tuple(actions),
            ends_at=self._length,
            has_sqlite=False,
            driver=random.choice(_NODE_DRIVERS),
            workers=0,
            nodes=self._nodes,
        )

    def _at(self) -> float:
        if self._random.random() < 0.5:
            return round(min(self._burst + self._random.uniform(0.0, 8.0), self._length), 3)
        return round(self._random.uniform(5.0, self._length), 3)

    def _node(self) -> str:
        if self._random.random() < 0.5:
            return "leader"
        return f"n{self._random.randint(1, self._nodes)}"

    def _seconds(self) -> float:
        return self._random.choice((0.5, 2.0, 4.0, 10.0, 20.0))

    def _kill(self) -> PlannedAction:
        callbacks = self._random.choice((0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89))
        return cluster_faults.KillNode(at=self._at(), node=self._node(), callbacks=callbacks)

    def _restart(self) -> PlannedAction:
        return cluster_faults.RestartNode(at=self._at(), node=self._node())

    def _pause(self) -> PlannedAction:
        return cluster_faults.PauseNode(at=self._at(), node=self._node(), seconds=self._seconds())

    def _cut_off(self) -> PlannedAction:
        return cluster_faults.CutNodeOff(at=self._at(), node=self._node(), seconds=self._seconds())

    def _cut_nodes(self) -> PlannedAction:
        one, other = self._random.sample([f"n{number}" for number in range(1, self._nodes + 1)], k=2)
        return cluster_faults.CutNodes(at=self._at(), node=one, other=other, seconds=self._seconds())

    def _skew(self) -> PlannedAction:
        seconds = self._random.choice((-600.0, -3.0, -1.0, 1.0, 3.0, 600.0))
        return cluster_faults.SkewNode(at=self._at(), node=self._node(), seconds=seconds)

    def _peers(self) -> PlannedAction:
        fault = self._random.choice(cluster_faults.DisturbPeers.choices)
        return cluster_faults.DisturbPeers(at=self._at(), fault=fault, seconds=self._seconds())

    def _database(self) -> PlannedAction:
        if self._random.random() < 0.5:
            return cluster_faults.StopDatabase(at=self._at(), seconds=self._seconds())
        return cluster_faults.FailOver(at=self._at(), seconds=self._seconds(), entries=0)

    def _append(self) -> PlannedAction:
        fault = self._random.choice(cluster_faults.FailDatabase.choices)
        return cluster_faults.FailDatabase(at=self._at(), count=self._random.choice((1, 1, 2)), fault=fault)

    def _heartbeats(self) -> PlannedAction:
        if self._random.random() < 0.5:
            return cluster_faults.LoseHeartbeats(at=self._at(), count=self._random.randint(1, 9))
        delay = self._random.choice((0.5, 2.0, 4.0))
        return cluster_faults.DelayHeartbeats(at=self._at(), delay=delay, seconds=self._seconds())

    def _notifications(self) -> PlannedAction:
        return cluster_faults.LoseDatabaseNotifications(at=self._at(), seconds=self._seconds())
