"""Whether the monitors of machines are there. We only knock: a monitor speaks with one caller at a time."""

import socket
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from forewarn.core.model import Vm
from forewarn.drivers.qemu.monitors import MonitorProblem
from forewarn.drivers.qemu.settings import QemuSettings

_LOOKED_AT = 1_000
"""More than any host has machines; of a fleet that is larger, the first are looked at."""


def find_problems(settings: QemuSettings, vms: Iterable[Vm]) -> Iterator[str]:
    """Yield what keeps us from each machine that should run."""
    for vm in islice((vm for vm in vms if not vm.deallocated), _LOOKED_AT):
        try:
            _try_connection(settings.path(vm.name, vm.standing_on))
        except MonitorProblem as trouble:
            yield str(trouble)
        except FileNotFoundError as error:
            yield (
                f"{vm.name} has no monitor at {error.filename}; start it,"
                f" or 'forewarn vm deallocate {vm.name}' if it is not to run"
            )
        except ConnectionRefusedError as error:
            yield f"nobody is behind the monitor of {vm.name} at {error.filename}: its process has ended; start it"
        except OSError as error:
            yield f"the monitor of {vm.name} at {error.filename} cannot be reached: {error.strerror}"


def _try_connection(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as knocking:
        knocking.setblocking(False)
        try:
            # Whoever is busy with another caller lets us wait, and that is answer enough.
            with suppress(BlockingIOError):
                knocking.connect(str(path))
        except OSError as error:
            error.filename = str(path)
            raise
