"""What a machine must have so that the demo can run on it, each said in one sentence with its remedy."""

import os
import platform
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

_PACKAGES = {
    "apt-get": "apt",
    "busybox": "busybox-static",
    "cpio": "cpio",
    "ip": "iproute2",
    "lz4": "lz4",
    "qemu-system-x86_64": "qemu-system-x86",
}
_TUN = Path("/dev/net/tun")
_MEMORY = 1_000_000
"""Kilobytes that should be free: three guests, the service, and some room."""


def missing() -> Iterator[str]:
    """Yield what is missing here."""
    if os.geteuid() != 0:
        yield "The demo makes a network of its own, which only root may: run sudo make demo."
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        yield f"The guests need Linux on x86_64, and this is {platform.system()} on {platform.machine()}."
    packages = [package for program, package in _PACKAGES.items() if shutil.which(program) is None]
    if packages:
        yield f"Not everything is installed; on Debian: apt-get install {' '.join(packages)}."
    if find_spec("qemu") is None:
        yield "Python's package qemu.qmp is not there: make demo installs it, or pip install 'forewarn[qemu]'."
    if not _TUN.exists():
        yield f"There is no {_TUN}, by which guests get their network: modprobe tun, or let the container have it."
    if (free := _free_memory()) < _MEMORY:
        yield f"The guests need {_MEMORY // 1000} MB of memory, and {free // 1000} MB are free: end something."


def _free_memory() -> int:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return _MEMORY
    return next((int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")), _MEMORY)
