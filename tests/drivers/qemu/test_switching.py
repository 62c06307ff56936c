"""A machine is started and stopped once."""

from pathlib import Path

from forewarn.drivers.qemu import switching
from forewarn.drivers.qemu.machines import QemuMachine
from forewarn.drivers.qemu.settings import QemuSettings
from tests.drivers.qemu.scripted_monitors import ScriptedMonitors


def test_a_machine_that_runs_is_not_started_again(tmp_path: Path) -> None:
    """Nothing is done to it."""
    settings = QemuSettings(qmp=f"{tmp_path}/{{vm}}.qmp", start=["/nowhere"])
    monitors = ScriptedMonitors(web="running")

    assert switching.start(QemuMachine(settings, monitors, "web", "h1"), settings) == "it ran already"
    assert monitors.executed == []
