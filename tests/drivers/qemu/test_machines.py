"""What is done to one machine, where no QEMU is needed for it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from forewarn.drivers.qemu.machines import MigrationProgress, QemuMachine
from forewarn.drivers.qemu.monitors import MonitorProblem, Monitors
from forewarn.drivers.qemu.settings import QemuSettings
from tests.drivers.qemu.scripted_monitors import ScriptedMonitors


@pytest.fixture
def machine(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[QemuMachine]:
    monitors = Monitors(lambda *_: None)
    settings = QemuSettings(qmp=str(tmp_path / "{vm}.qmp"), timeout=getattr(request, "param", 60))
    yield QemuMachine(settings, monitors, "web-0", "h1")
    monitors.close()


@pytest.mark.end_to_end
@pytest.mark.parametrize("machine", [0.2], indirect=True)
def test_a_command_that_takes_too_long_is_ended(machine: QemuMachine) -> None:
    """Whose it is and how long it had is said."""
    with pytest.raises(MonitorProblem, match=r"^'start' \(sleep\) took longer than 0 s for web-0$"):
        machine.run("start", ["sleep", "60"])


@pytest.mark.end_to_end
def test_the_last_words_of_a_command_that_fails_are_the_reason(machine: QemuMachine) -> None:
    """What a machine would inherit is a file, so nobody waits for its end."""
    with pytest.raises(MonitorProblem, match=r"^'start' \(sh\) failed for web-0: no disk$"):
        machine.run("start", ["sh", "-c", "echo looking >&2; echo no disk >&2; exit 1"])


def test_a_command_that_is_not_there_is_said(machine: QemuMachine) -> None:
    """With the system's own words."""
    with pytest.raises(
        MonitorProblem, match=r"^'start' \(/nowhere\) cannot be run for web-0: No such file or directory$"
    ):
        machine.run("start", ["/nowhere"])


def scripted(monitors: ScriptedMonitors, tmp_path: Path) -> QemuMachine:
    return QemuMachine(QemuSettings(qmp=str(tmp_path / "{vm}.qmp")), monitors, "web", "h1")


def test_the_bandwidth_of_a_move_is_set_in_bytes(tmp_path: Path) -> None:
    """Its setting is in MiB per second; without one QEMU's own limit stays."""
    monitors = ScriptedMonitors(web="running")
    machine = scripted(monitors, tmp_path)
    machine.send_to("tcp:h2:4444")
    unlimited = [command for _, command, _ in monitors.executed]
    machine.send_to("tcp:h2:4444", 3)

    assert "migrate-set-parameters" not in unlimited
    assert ("web", "migrate-set-parameters", {"max-bandwidth": 3_145_728}) in monitors.executed


@pytest.mark.parametrize(
    ("reply", "progress"),
    [
        ({}, MigrationProgress("none", "", 0, 0)),
        ({"status": "setup"}, MigrationProgress("setup", "", 0, 0)),
        ({"status": "active", "ram": {"total": 100, "remaining": 30}}, MigrationProgress("active", "", 70, 100)),
        ({"status": "failed", "error-desc": "no route"}, MigrationProgress("failed", "no route", 0, 0)),
    ],
)
def test_what_does_not_remain_was_sent(tmp_path: Path, reply: dict[str, object], progress: MigrationProgress) -> None:
    """QEMU says nothing of memory before the first of it is sent."""
    monitors = ScriptedMonitors(web="running")
    monitors.replies["query-migrate"] = reply

    assert scripted(monitors, tmp_path).sending() == progress
