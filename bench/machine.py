"""The machine that measures: what it is, and which of its cores do what."""

import os
import platform
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path


@cache
def cores() -> tuple[int, int]:
    """Return a core for the server and another one for the load."""
    usable = sorted(os.sched_getaffinity(0))
    if len(usable) < 2:
        raise SystemExit("The bench needs two cores: one for the server, one for the load.")
    return usable[0], usable[1]


def describe() -> dict[str, str]:
    """Tell what a reader needs to compare figures with their own, and nothing that names this machine."""
    return {
        "CPU": f"{len(os.sched_getaffinity(0))} cores, {_line_of('/proc/cpuinfo', 'model name')}",
        "memory": f"{int(_line_of('/proc/meminfo', 'MemTotal').split()[0]) / 2**20:.0f} GiB",
        "kernel": f"{platform.system()} {platform.release().split('-')[0]}",
        "Python": platform.python_version(),
        "SQLite": sqlite3.sqlite_version,
        "nginx": _version_of("nginx", "-v").rpartition("/")[2],
        "QEMU": _version_of("qemu-system-x86_64", "--version").rpartition("version ")[2].partition(" (")[0],
    }


@contextmanager
def staying_on(core: int) -> Iterator[None]:
    """Keep this process, and all that it starts meanwhile, on one core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _line_of(path: str, key: str) -> str:
    for line in Path(path).read_text("utf-8").splitlines():
        if line.startswith(key):
            return line.partition(":")[2].strip()
    return "unknown"


def _version_of(program: str, flag: str) -> str:
    if shutil.which(program) is None:
        return "not installed"
    result = subprocess.run([program, flag], capture_output=True, text=True, check=False)
    return (result.stdout + result.stderr).strip()
