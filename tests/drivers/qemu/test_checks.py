"""What is said of monitors that do not answer."""

import socket
from pathlib import Path

from forewarn.clocks import SystemClock
from forewarn.core.model import Vm
from forewarn.drivers.qemu.driver import QemuDriver
from forewarn.node.driver import SupportsCheck


def test_every_machine_that_cannot_be_reached_is_told(tmp_path: Path) -> None:
    """With the remedy; one that is busy with another caller is there, and one that is not to run is not missed."""
    driver = QemuDriver.from_settings({"qmp": f"{tmp_path}/{{vm}}.{{host}}"}, SystemClock(), 1.0)
    vms = (
        Vm("busy", "web", "h1"),
        Vm("ended", "web", "h1"),
        Vm("missing", "web", "h1"),
        Vm("lost", "web"),
        Vm("gone", "web", "h1", deallocated=True),
    )
    with socket.socket(socket.AF_UNIX) as busy, socket.socket(socket.AF_UNIX) as waiting:
        busy.bind(f"{tmp_path}/busy.h1")
        busy.listen(0)
        waiting.connect(f"{tmp_path}/busy.h1")
        with socket.socket(socket.AF_UNIX) as ended:
            ended.bind(f"{tmp_path}/ended.h1")
        assert isinstance(driver, SupportsCheck)
        result = driver.check(vms)
    driver.close()

    assert [said.partition(" at ")[0] for said in result[:2]] == [
        "the monitor of ended",
        "missing has no monitor",
    ]
    assert "lost has no host" in result[2]
    assert len(result) == 3


def test_what_the_system_says_of_a_monitor_is_told(tmp_path: Path) -> None:
    """Such as a path that leads through a file."""
    (tmp_path / "h1").touch()
    driver = QemuDriver.from_settings({"qmp": f"{tmp_path}/{{host}}/{{vm}}"}, SystemClock(), 1.0)
    assert isinstance(driver, SupportsCheck)
    result = driver.check((Vm("web-0", "web", "h1"),))
    driver.close()

    assert result == (f"cannot connect to the monitor of web-0 at {tmp_path}/h1/web-0: Not a directory",)
