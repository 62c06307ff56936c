"""A process that performs an impact with the libvirt driver, and is killed in the middle of it.

python -m tests.drivers.libvirt.dying RECORDS POINTS SETTINGS < IMPACT
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from forewarn.clocks import SystemClock
from forewarn.drivers.libvirt.driver import LibvirtDriver
from forewarn.node.driver import Impact
from tests.drivers.libvirt.machines import crash_after

_ROOT = Path(__file__).parents[3]


def killed(records: Path, impact: Impact, points: int, **settings: object) -> None:
    """Have a process perform an impact that kills itself once it has written down or done so many things."""
    done = subprocess.run(
        [sys.executable, "-m", __name__, str(records), str(points), json.dumps(settings)],
        input=msgspec.json.encode(impact),
        capture_output=True,
        cwd=_ROOT,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()


def main() -> None:
    records, points, settings = Path(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3])
    impact = msgspec.json.decode(sys.stdin.buffer.read(), type=Impact)
    driver = LibvirtDriver.from_settings(settings, SystemClock(), 1.0, records)
    with pytest.MonkeyPatch.context() as patch:
        crash_after(driver, impact, points, patch, die=lambda: os.kill(os.getpid(), signal.SIGKILL))


if __name__ == "__main__":
    main()
