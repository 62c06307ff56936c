"""The qemu driver keeps the contract of all drivers, with a real guest that is really reset."""

import subprocess
import sys
import time

import msgspec
import pytest

from forewarn.clocks import SystemClock
from forewarn.drivers.qemu.driver import QemuDriver
from forewarn.node.driver import Driver, Impact
from forewarn.testing.driver_contract import DriverContract, DriverTrial
from tests.guests.conftest import GuestHarness

pytestmark = pytest.mark.end_to_end

_PERFORM = """
import sys, msgspec
from pathlib import Path
from forewarn.clocks import SystemClock
from forewarn.drivers.qemu.driver import QemuDriver
from forewarn.node.driver import Impact
settings, directory, impact = sys.argv[1:]
driver = QemuDriver.from_settings(msgspec.json.decode(settings), SystemClock(), 1.0, Path(directory))
driver.perform(msgspec.json.decode(impact, type=Impact))
"""


class QemuTrial(DriverTrial):
    """A guest whose resets are counted by another ear than the driver's."""

    def __init__(self, guest_harness: GuestHarness) -> None:
        self._park = guest_harness
        self._guest = guest_harness.restored("web-0")
        self._resets_before: dict[str, int] = {}

    def make(self, **more: object) -> Driver:
        settings = self._park.settings(**more)
        return QemuDriver.from_settings(settings, SystemClock(), 1.0, self._park.directory / "driver")

    def impact(self) -> Impact:
        impact = super().impact()
        self._resets_before[impact.event.id] = self._guest.resets
        return impact

    def times_done(self, event_id: str) -> int:
        self._guest.status()  # what was said before the answer has been heard by then
        return self._guest.resets - self._resets_before[event_id]

    def crash_during(self, impact: Impact) -> None:
        """Kill the process of the driver while the guest has its grace."""
        directory = self._park.directory / "driver"
        settings = msgspec.json.encode(self._park.settings(grace=60)).decode()
        result = msgspec.json.encode(impact).decode()
        process = subprocess.Popen([sys.executable, "-c", _PERFORM, settings, str(directory), result])
        page = directory / impact.event.id
        try:
            while not page.exists() or b"powering-down" not in page.read_bytes():
                assert process.poll() is None
                time.sleep(0.005)
        finally:
            process.kill()
            process.wait()


class TestQemuDriver(DriverContract):
    """What every driver keeps."""

    @pytest.fixture
    def trial(self, guest_harness: GuestHarness) -> DriverTrial:
        return QemuTrial(guest_harness)
