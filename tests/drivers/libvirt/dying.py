"""A process that performs an impact with the libvirt driver, and is killed in the middle of it.

python -m tests.drivers.libvirt.dying RECORDS POINTS SECONDS SETTINGS < IMPACT
"""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import msgspec
import pytest

from forewarn.clocks import SystemClock
from forewarn.drivers.libvirt.driver import LibvirtDriver
from forewarn.node.driver import Impact
from tests.drivers.libvirt.machines import crash_after

_ROOT = Path(__file__).parents[3]


def killed(records: Path, impact: Impact, points: int, *, seconds: float = 0.0, **settings: object) -> None:
    """Have a process perform an impact that kills itself once it has written down or done so many things.

    ``seconds``: how long it goes on after that.
    """
    done = subprocess.run(
        [sys.executable, "-m", __name__, str(records), str(points), str(seconds), json.dumps(settings)],
        input=msgspec.json.encode(impact),
        capture_output=True,
        cwd=_ROOT,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()


def main() -> None:
    records, points, seconds = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    settings = json.loads(sys.argv[4])
    impact = msgspec.json.decode(sys.stdin.buffer.read(), type=Impact)
    driver = LibvirtDriver.from_settings(settings, SystemClock(), 1.0, records)
    with pytest.MonkeyPatch.context() as patch:
        crash_after(driver, impact, points, patch, die=lambda: die_after(seconds))


def die_after(seconds: float) -> None:
    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Timer(seconds, die).start() if seconds else die()


if __name__ == "__main__":
    main()
