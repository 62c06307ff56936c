"""What a machine must have so that the demo can run on it, each said in one sentence with its remedy."""

import os
import platform
import shutil
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from demo.kernel import cache, has_kernel

_PACKAGES = {
    "apt-get": "apt",
    "busybox": "busybox-static",
    "cpio": "cpio",
    "ip": "iproute2",
    "lz4": "lz4",
    "qemu-system-x86_64": "qemu-system-x86",
    "xz": "xz-utils",
    "zstd": "zstd",
}
_LONGEST = 60
"""Characters of a directory in which sockets still have room for their names."""
_ROOM = 50_000_000
"""Bytes for what guests say, and for the journal."""
_ROOM_FOR_KERNEL = 500_000_000
"""Bytes for the kernel's package, packed and unpacked."""
_TUN = Path("/dev/net/tun")
_MEMORY = 1_000_000
"""Kilobytes that should be free: three guests, the service, and some room."""


def missing(tun: Path = _TUN) -> Iterator[str]:
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
    if not tun.exists():
        yield f"There is no {tun}, by which guests get their network: modprobe tun, or let the container have it."
    if len(place := tempfile.gettempdir()) > _LONGEST:
        yield f"The path {place} is too long for sockets in it: TMPDIR=/tmp make demo."
    yield from _narrow(Path(place), _ROOM)
    if not has_kernel():
        yield from _narrow(cache(), _ROOM_FOR_KERNEL)
    if (free := _free_memory()) < _MEMORY:
        yield f"The guests need {_MEMORY // 1000} MB of memory, and {free // 1000} MB are free: end something."


def _narrow(place: Path, needed: int) -> Iterator[str]:
    there = next(each for each in (place, *place.parents) if each.is_dir())
    if (free := shutil.disk_usage(there).free) < needed:
        yield f"The demo needs {needed // 1_000_000} MB in {there}, and {free // 1_000_000} MB are free: make room."


def _free_memory() -> int:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return _MEMORY
    return next((int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")), _MEMORY)
