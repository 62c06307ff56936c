"""Adds rollouts to a plan: what operators start, how they steer it, and what befalls its hosts meanwhile."""

import json
from collections.abc import Callable
from random import Random

from msgspec.structs import replace

from forewarn.simulator.actions import (
    cluster_faults,
    environment_faults,
    host_requests,
    rollout_requests,
    service_faults,
    vm_requests,
)
from forewarn.simulator.actions.planned_action import PlannedAction
from forewarn.simulator.environment.machines import ASKS
from forewarn.simulator.plan import Plan

_GATE = {"url": "http://gate.example/health"}
_WINDOWS = (["08:00-08:02"], ["08:01-08:04"], ["00:00-08:01", "08:02-23:59"], ["08:00-20:00"])
_TERMS: dict[str, tuple[object, ...]] = {
    "parallel": (1, 1, 2, 3),
    "parallel_per": ({"fault-domain": 1},),
    "fleet_share": (0.5, 0.75),
    "group_share": (0.5, 0.8),
    "order": ("fewest-vms", "fault-domain"),
    "canary": (1,),
    "canary_settle": (300,),
    "settle": (60, 600),
    "gate": (_GATE, _GATE, _GATE),
    "windows": _WINDOWS,
    "at_close": ("withdraw",),
    "lead": (3600,),
    "expected": (120, 600),
    "host_limit": (300, 1800),
    "asks": (ASKS,),
    "every": (3600,),
    "on_failure": ("skip", "stop", "pause"),
    "on_conflict": ("queue", "queue"),
}
"""What a rollout may be asked for. Durations are hurried, as notices are."""
_RARE = {"every": 0.2, "asks": 0.5, "fleet_share": 0.5, "host_limit": 0.5}
"""The share of what is drawn that is kept."""
_STEERED = ("pause", "pause", "withdraw", "resume", "resume", "resume", "cancel", "retry")


class RolloutGenerator:
    """Draws rollouts, and what happens to them, for a plan."""

    def __init__(self, plan: Plan, random: Random) -> None:
        self._plan = plan
        self._random = random
        self._names = [f"r{number}" for number in range(1, random.choice((1, 1, 2, 3)) + 1)]
        self._begins = random.uniform(3.0, plan.ends_at / 2)
        self._keys = 0

    def plan(self) -> Plan:
        random = self._random
        made: list[PlannedAction] = [self._start(name) for name in self._names]
        made += [self._steer() for _ in range(random.randint(0, 6))]
        meanwhile: list[Callable[[], PlannedAction]] = [
            self._fail_host,
            self._befall,
            self._move,
            self._fail_driver,
            self._gate,
            self._kill,
            self._kill,
        ]
        enabled = random.sample(meanwhile, k=random.randint(0, 3))
        made += [random.choice(enabled)() for _ in range(random.randint(1, 5))] if enabled else []
        actions = sorted((*self._plan.actions, *made), key=lambda action: action.at)
        return replace(self._plan, actions=tuple(actions))

    def _at(self) -> float:
        return round(min(self._begins + self._random.expovariate(1 / 30.0), self._plan.ends_at), 3)

    def _key(self) -> str:
        self._keys += 1
        return f"r{self._keys}"

    def _host(self) -> str:
        return self._random.choice(self._plan.hosts)

    def _vm(self) -> str:
        return self._random.choice(self._plan.vms).name

    def _terms(self) -> str:
        random = self._random
        terms: dict[str, object] = {
            "operation": random.choice(("freeze", "reboot", "reboot", "redeploy", "drain", "command"))
        }
        if terms["operation"] == "command":
            terms["command"] = "update"
        terms |= random.choice(
            ({"all_hosts": True}, {"all_hosts": True}, {"hosts": ["h*"]}, {"hosts": [self._host()]})
        )
        return json.dumps(terms | self._some_terms(random.randint(0, 6)), separators=(",", ":"))

    def _some_terms(self, count: int) -> dict[str, object]:
        keys = self._random.sample(sorted(_TERMS), k=count)
        return {key: self._random.choice(_TERMS[key]) for key in keys if self._random.random() < _RARE.get(key, 1.0)}

    def _start(self, name: str) -> PlannedAction:
        return rollout_requests.RequestRollout(
            at=self._at(), who="ann", rollout=name, terms=self._terms(), key=self._key()
        )

    def _steer(self) -> PlannedAction:
        random, name = self._random, self._random.choice(self._names)
        drawn = random.random()
        if drawn < 0.05:
            return rollout_requests.TryRollout(at=self._at(), who="ann", rollout=name, terms=self._terms())
        if drawn < 0.15:
            return rollout_requests.RequestRolloutSkip(
                at=self._at(), who="ann", rollout=name, host=self._host(), key=self._key()
            )
        if drawn < 0.3:
            terms = json.dumps(self._some_terms(2), separators=(",", ":"))
            return rollout_requests.RequestRolloutEdit(
                at=self._at(), who="ann", rollout=name, terms=terms, key=self._key()
            )
        if drawn < 0.35:
            return rollout_requests.RequestRollout(
                at=self._at(), who=random.choice(("ann", "bob")), rollout=name, terms=self._terms(), key=self._key()
            )
        verb = random.choice(_STEERED)
        return rollout_requests.RequestRolloutChange(
            at=self._at(), who="ann", verb=verb, rollout=name, key=self._key()
        )

    def _fail_host(self) -> PlannedAction:
        operation = self._random.choice(("fail", "repaired", "repaired", "cordon", "uncordon", "reboot"))
        return host_requests.RequestHostOperation(
            at=self._at(), who="ann", operation=operation, host=self._host(), key=self._key()
        )

    def _befall(self) -> PlannedAction:
        what = self._random.choice(environment_faults.BefallMachine.choices)
        host = self._host() if what == "moved" else "-"
        return environment_faults.BefallMachine(at=self._at(), vm=self._vm(), what=what, host=host)

    def _move(self) -> PlannedAction:
        return vm_requests.RequestMove(at=self._at(), who="ann", vm=self._vm(), host=self._host(), key=self._key())

    def _fail_driver(self) -> PlannedAction:
        return environment_faults.FailDriver(
            at=self._at(), count=1, fault=self._random.choice(("fails", "fails", "late", "raises"))
        )

    def _gate(self) -> PlannedAction:
        state = self._random.choice(environment_faults.FailGate.choices)
        return environment_faults.FailGate(at=self._at(), state=state, seconds=self._random.choice((5.0, 60.0)))

    def _kill(self) -> PlannedAction:
        callbacks = self._random.choice((0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89))
        if self._plan.nodes:
            return cluster_faults.KillNode(at=self._at(), node="leader", callbacks=callbacks)
        return service_faults.KillService(at=self._at(), callbacks=callbacks)
