"""What is done to one machine for an event, and how it ends where the service is stopped meanwhile."""

import threading
from pathlib import Path

import pytest

from forewarn.clocks import ManualClock
from forewarn.core.model import EventType
from forewarn.drivers.executor import ImpactJob
from forewarn.drivers.progress_store import ProgressStore
from forewarn.drivers.qemu import actions
from forewarn.drivers.qemu.actions import MachineAction
from forewarn.drivers.qemu.settings import QemuSettings
from tests.drivers.impacts import impact
from tests.drivers.qemu.scripted_monitors import ScriptedMonitors


@pytest.mark.parametrize(
    ("is_closing", "seconds", "detail"),
    [(True, 3600.0, "cut short, because the service was stopped"), (False, 0.0, "")],
)
def test_a_freeze_ends_when_the_service_stops(
    tmp_path: Path, *, is_closing: bool, seconds: float, detail: str
) -> None:
    """The guest goes on in any case, and its event says that it was frozen for less than announced."""
    clock, closing = ManualClock(), threading.Event()
    if is_closing:
        closing.set()
    asked = impact(EventType.FREEZE, operation="host freeze", vms=("web",))
    monitors = ScriptedMonitors(web="running")
    with ProgressStore(tmp_path / "driver", clock).held(asked.event.id) as progress_file:
        job = ImpactJob(asked, progress_file, closing, is_resumed=False)
        settings = QemuSettings(qmp=f"{tmp_path}/{{vm}}.qmp")
        action = MachineAction(job, settings, monitors, clock, asked.vms[0])

        assert actions.freeze(action, seconds) == detail
    assert [command for _, command, _ in monitors.executed] == ["stop", "cont"]
