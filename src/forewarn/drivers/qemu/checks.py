"""Checks of QMP monitors: whether their sockets accept connections. A monitor serves one client at a time."""

import socket
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from forewarn.core.model import Vm
from forewarn.drivers.qemu.monitors import MonitorProblem
from forewarn.drivers.qemu.settings import QemuSettings

_CHECKED = 1_000
"""Number of machines that are checked; more than any host has."""


def find_problems(settings: QemuSettings, vms: Iterable[Vm]) -> Iterator[str]:
    """Yield the reason for each machine that should run and cannot be reached."""
    for vm in islice((vm for vm in vms if not vm.deallocated), _CHECKED):
        try:
            _try_connection(settings.path(vm.name, vm.standing_on))
        except MonitorProblem as error:
            yield str(error)
        except FileNotFoundError as error:
            yield (
                f"{vm.name} has no monitor at {error.filename}; start it,"
                f" or 'forewarn vm deallocate {vm.name}' if it is not to run"
            )
        except ConnectionRefusedError as error:
            yield f"the monitor of {vm.name} at {error.filename} refuses connections: its process has ended; start it"
        except OSError as error:
            yield f"cannot connect to the monitor of {vm.name} at {error.filename}: {error.strerror}"


def _try_connection(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            # A monitor that is busy with another client lets us wait; that is enough to know that it exists.
            with suppress(BlockingIOError):
                probe.connect(str(path))
        except OSError as error:
            error.filename = str(path)
            raise
