"""What goes on beside the GETs: writes, snapshots and changes of the fleet, until they are stopped."""

import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from threading import Event as Signal

from msgspec.structs import replace

from bench import fleets
from bench.machine import cores
from forewarn.control.bodies import VmOperationBody
from forewarn.control.client import ControlClient
from forewarn.fleetfile.diff import FleetDiff

WRITES = 200
"""Commands per second."""
CHANGES = 2
"""Changes of the fleet per second."""
_BEYOND = 8_000_000
"""The number of the first VM that is added; no fleet of the bench has so many."""
Disturb = Callable[[Path, Signal], None]


def write(data: Path, stop: Signal) -> None:
    """Announce restarts and take them back."""
    with ControlClient.local(data) as client:
        for number in _beats(WRITES // 2, stop):
            vm, _ = fleets.mixed(1_000 + number % 400)
            result = client.operate_vm(vm.name, VmOperationBody(operation="restart"))
            client.cancel(result.announcements[0].event.id)


def take_snapshots(data: Path, stop: Signal) -> None:
    """Fold one snapshot after another as the service does it: a process of low priority, on the service's core."""
    core, _ = cores()
    vm, _ = fleets.mixed(2_000)
    with ControlClient.local(data) as client:
        while not stop.is_set():
            client.operate_vm(vm.name, VmOperationBody(operation="deallocate"))
            client.operate_vm(vm.name, VmOperationBody(operation="start"))
            subprocess.run(["taskset", "-c", str(core), *fleets.fold_command(data)], check=True, capture_output=True)


def change_fleet(data: Path, stop: Signal) -> None:
    """Add 1,000 VMs and remove them again."""
    with ControlClient.local(data) as client:
        for _ in _beats(CHANGES // 2, stop):
            client.change_fleet(addition(1_000))
            stop.wait(1 / CHANGES)
            client.change_fleet(removal(1_000))


@contextmanager
def beside(data: Path, *disturb: Disturb) -> Iterator[None]:
    """Let all of these go on for as long as the block lasts, and then come to their end."""
    stop = Signal()
    with ThreadPoolExecutor(max(1, len(disturb))) as threads:
        going_on = [threads.submit(each, data, stop) for each in disturb]
        try:
            yield
        finally:
            stop.set()
    for each in going_on:
        each.result()


def addition(size: int) -> FleetDiff:
    """Return a change that adds standalone VMs."""
    members = [fleets.standalone(_BEYOND + number) for number in range(size)]
    return FleetDiff(
        groups=tuple(terms for _, terms in members), vms=tuple(replace(vm, host="") for vm, _ in members)
    )


def removal(size: int) -> FleetDiff:
    """Return the change that takes them away again."""
    return FleetDiff(removed_vms=tuple(fleets.standalone(_BEYOND + number)[0].name for number in range(size)))


def _beats(rate: int, stop: Signal) -> Iterator[int]:
    """Yield numbers, at most so many per second, until it is time to stop."""
    began = time.perf_counter()
    for number in count():
        yield number
        if stop.wait(max(0.0, began + (number + 1) / rate - time.perf_counter())):
            return
