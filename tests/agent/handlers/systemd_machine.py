"""A real systemd as process 1 of namespaces of its own, with nothing but the units of a test.

The machine's own files are read-only to it, and its /run, /tmp and /var are empty: a booting systemd tidies up.
"""

import os
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Self

from tests.cleaning import closed_on_failure

_BOOT = """
set -eu
mount --make-rprivate /
units=$(mktemp -d -p /dev/shm)
cp "$1"/* "$units"
mount -t tmpfs tmpfs /run
mkdir /run/units
mv "$units"/* /run/units
rmdir "$units"
shift
while [ $# -gt 0 ]; do
    mkdir -p "$2"
    mount --bind "$1" "$2"
    shift 2
done
mount -o remount,bind,ro /
mount -t tmpfs tmpfs /tmp
mount -t tmpfs tmpfs /var
mount --bind /proc/sys /proc/sys
mount -o remount,bind,ro /proc/sys
umount -R /sys/fs/cgroup || true
mount -t cgroup2 cgroup2 /sys/fs/cgroup
if touch /etc/is-writable; then exit 1; fi
exec env -i container=test SYSTEMD_UNIT_PATH=/run/units PATH=/usr/bin:/bin /usr/lib/systemd/systemd \
    --system --unit=test.target --log-target=null --show-status=no
"""
PATIENCE = 60.0
_UNIT = "[Unit]\nDefaultDependencies=no\n"
_TARGETS = ("test", "basic", "sysinit", "shutdown", "umount", "final")


def _cgroups() -> Path:
    for line in Path("/proc/mounts").read_text().splitlines():
        _, place, kind, *_ = line.split()
        if kind == "cgroup2":
            return Path(place)
    raise AssertionError("this machine has no cgroup2; systemd cannot run")


class SystemdMachine:
    """A machine whose process 1 is systemd; ``systemctl`` are the words that reach it."""

    def __init__(
        self,
        directory: Path,
        files: Mapping[str, str] = MappingProxyType({}),
        places: Mapping[str, str] = MappingProxyType({}),
        /,
        **units: str,
    ) -> None:
        """``files`` are whole, by name; ``places`` are directories, and where in /run they are seen as well.

        ``units`` are what services do, by name.
        """
        directory.mkdir()
        for name, text in files.items():
            (directory / name).write_text(text)
        for name in _TARGETS:
            (directory / f"{name}.target").write_text(_UNIT)
        for name, text in units.items():
            (directory / f"{name}.service").write_text(f"{_UNIT}StartLimitIntervalSec=0\n[Service]\n{text}\n")
        self._group = _cgroups() / f"forewarn-test-{os.getpid()}-{threading.get_ident()}"
        self._group.mkdir()
        join = f"echo $$ > {self._group}/cgroup.procs; exec"
        namespaces = "unshare --fork --pid --mount --cgroup --ipc --uts --mount-proc --kill-child"
        self._process = subprocess.Popen(
            [
                *("sh", "-c", f'{join} {namespaces} sh -c "$0" boot "$@"', _BOOT, str(directory)),
                *(each for pair in places.items() for each in pair),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        with closed_on_failure(self.close):
            self._enter = ["nsenter", f"--target={self._first_process()}", "--mount", "--pid"]
            self.systemctl = [*self._enter, "systemctl"]
            self._wait_until_it_answers()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()
        until = time.monotonic() + PATIENCE
        for group in [*sorted(self._group.rglob("*/"), reverse=True), self._group]:
            while group.is_dir():
                try:
                    group.rmdir()
                except OSError:
                    assert time.monotonic() < until, f"{group} is still in use"
                    time.sleep(0.02)

    def state(self, unit: str) -> str:
        return self.property(unit, "ActiveState")

    def property(self, unit: str, name: str) -> str:
        shown = [*self.systemctl, "show", "--value", f"--property={name}", unit]
        return subprocess.run(shown, check=True, capture_output=True, text=True, timeout=PATIENCE).stdout.strip()

    def call(self, *words: str) -> None:
        """Have systemd do something, as an administrator would."""
        self.run("systemctl", *words)

    def run(self, *argv: str) -> None:
        subprocess.run([*self._enter, *argv], check=True, capture_output=True, timeout=PATIENCE)

    def _first_process(self) -> int:
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until and self._process.poll() is None:
            for child in children.read_text().split():
                if Path(f"/proc/{child}/comm").read_text().strip() == "systemd":
                    return int(child)
            time.sleep(0.02)
        raise AssertionError(f"systemd does not start here: {self._trouble()}")

    def _wait_until_it_answers(self) -> None:
        until = time.monotonic() + PATIENCE
        while subprocess.run(
            [*self.systemctl, "show"], check=False, capture_output=True, timeout=PATIENCE
        ).returncode:
            assert time.monotonic() < until, "systemd does not answer"
            time.sleep(0.05)

    def _trouble(self) -> str:
        self._process.kill()
        assert self._process.stderr is not None
        return self._process.stderr.read().decode()
