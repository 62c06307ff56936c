"""Moves that a crash of the service interrupted."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from forewarn.clocks import ManualClock
from forewarn.core.model import EventType
from forewarn.drivers.executor import ImpactJob
from forewarn.drivers.progress_store import ProgressStore
from forewarn.drivers.qemu import moves
from forewarn.drivers.qemu.actions import MachineAction
from forewarn.drivers.qemu.monitors import MonitorProblem
from forewarn.drivers.qemu.observations import MonitorObserver
from forewarn.drivers.qemu.settings import QemuSettings
from tests.drivers.impacts import impact
from tests.drivers.qemu.scripted_monitors import ScriptedMonitors


@pytest.fixture
def monitors() -> ScriptedMonitors:
    return ScriptedMonitors()


@pytest.fixture
def action(tmp_path: Path, monitors: ScriptedMonitors) -> Iterator[MachineAction]:
    """Return a move from h7 to h2 that sent the machine before the service was lost."""
    clock, settings = ManualClock(), QemuSettings(qmp=f"{tmp_path}/{{vm}}_{{host}}.qmp")
    asked = impact(EventType.REDEPLOY, operation="host redeploy", vms=("web",))
    with ProgressStore(tmp_path / "driver", clock).held(asked.event.id) as progress_file:
        job = ImpactJob(asked, progress_file, threading.Event(), is_resumed=True)
        action = MachineAction(job, settings, monitors, clock, asked.vms[0])
        action.note("moving", host="h2")
        action.note("migrating")
        yield action


def move(action: MachineAction) -> str:
    return moves.move(action, (), MonitorObserver(action.settings, action.clock))


def test_a_machine_that_left_and_runs_there_has_moved(action: MachineAction, monitors: ScriptedMonitors) -> None:
    """Nothing is done to it."""
    monitors.statuses["web_h2"] = "running"

    assert move(action) == "h2"
    assert monitors.executed == []


@pytest.mark.parametrize("status", ["inmigrate", "paused"])
def test_a_machine_that_left_and_does_not_run_there_has_not_moved(
    action: MachineAction, monitors: ScriptedMonitors, status: str
) -> None:
    """The event fails, with what to do."""
    monitors.statuses["web_h2"] = status

    with pytest.raises(MonitorProblem, match=r"does not run at .*web_h2.qmp; start it again$"):
        move(action)
