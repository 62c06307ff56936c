"""A simulation that fails when a service is killed after a restart of web-1, in place of the real one."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from msgspec.structs import replace

from forewarn.simulator.actions.service_faults import KillService
from forewarn.simulator.actions.vm_requests import RequestVmOperation
from forewarn.simulator.coverage import of_action
from forewarn.simulator.plan import Plan
from forewarn.simulator.transcript import Transcript
from tests.simulator.plans import large_plan


class FakeSimulation:
    """Fails for odd seeds, or as ``fail`` does."""

    fail: Callable[[Plan], None] = staticmethod(lambda _: None)

    def __init__(self, plan: Plan, directory: Path, *, has_transcript: bool = False, apps: Any = ()) -> None:
        assert directory.is_dir()
        self._plan = plan
        self.transcript = Transcript(is_wanted=has_transcript)
        self.apps = [*apps, *(object() for _ in range(max(plan.nodes, 1) - len(apps)))]

    def run(self) -> SimpleNamespace:
        restarted = None
        problems = []
        for action in self._plan.actions:
            self.transcript.action(action.at, str(action))
            if isinstance(action, RequestVmOperation) and action.vm == "web-1":
                restarted = action.at
            if isinstance(action, KillService) and restarted is not None and self._plan.seed % 2:
                problems = [f"machine web-1 was started twice after {action.at} s"]
        self.fail(self._plan)
        reached = Counter(name for action in self._plan.actions for name in of_action(action))
        return SimpleNamespace(
            problems=problems, steps=100, seconds=60.0, lines=self.transcript.lines, digest="d" * 64, reached=reached
        )


def make_fake_plan(seed: int, *, has_sqlite: bool | None = None, has_nodes: bool | None = None, **_: object) -> Plan:
    return replace(large_plan(), seed=seed, has_sqlite=bool(has_sqlite), nodes=2 if has_nodes else 0)
