"""The memory of a service that is kept busy: whether it levels off."""

import socket
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import msgspec

from bench import fleets, service
from bench.figures import Figure
from bench.machine import cores, staying_on
from bench.processes import memory_of
from bench.server import Server
from bench.wrk import TARGET
from forewarn.control.bodies import VmOperationBody
from forewarn.control.client import ControlClient
from forewarn.core.errors import Refused

_VMS = 2_000
_RATE = 20
"""Operations per second."""
_MINUTES = 20.0
_QUICK_MINUTES = 0.5
_INTERVAL = 10.0
"""Seconds from one sample of the memory to the next."""
_STRIDE = 677
"""From one VM that is restarted to the next; a prime, so that all groups take turns."""
_HURRY = "60"


class Sample(msgspec.Struct, frozen=True):
    """The memory of the service at one time."""

    minutes: float
    operations: int
    resident: int


def growth(directory: Path, *, quick: bool) -> Iterator[Figure]:
    """Restart 20 VMs a second; every VM asks for its document, and half of them approve."""
    core, load = cores()
    data = fleets.make_journal(directory / "data", _VMS)
    with service.serving(data, core, more=("--hurry", _HURRY)) as ours, staying_on(load):
        while not (data / "control.sock").exists():
            time.sleep(0.01)
        samples = list(_samples(data, ours, _QUICK_MINUTES if quick else _MINUTES))
    yield figure_of(samples)


def figure_of(samples: list[Sample]) -> Figure:
    """Sum up the samples: what an operation leaves in memory, in the second half of the run."""
    last = samples[-1]
    middle = min(samples, key=lambda sample: abs(sample.minutes - last.minutes / 2))
    operations = max(1, last.operations - middle.operations)
    series = ", ".join(f"{sample.resident / 2**20:.1f} at {sample.minutes:.0f}" for sample in _every_other(samples))
    return Figure(
        name=f"memory that an operation leaves behind, {_VMS:,} VMs, {_RATE} operations per second",
        measured=(last.resident - middle.resident) / operations,
        unit="bytes",
        detail=f"second half of {last.minutes:.0f} minutes, {last.operations:,} operations in all; resident MiB by"
        f" minute: {series}",
    )


def _every_other(samples: list[Sample]) -> Iterator[Sample]:
    """Yield the sample at the start and the one nearest to each second minute."""
    for minute in range(0, round(samples[-1].minutes) + 1, 2):
        yield min(samples, key=lambda sample: abs(sample.minutes - minute))


def _samples(data: Path, server: Server, minutes: float) -> Iterator[Sample]:
    began = time.monotonic()
    sampled = began
    yield Sample(0.0, 0, memory_of(server.pid).resident)
    with ControlClient.local(data) as client:
        for number in count():
            _operate(client, server, number)
            now = time.monotonic()
            if now >= sampled + _INTERVAL:
                sampled = now
                yield Sample((now - began) / 60, number + 1, memory_of(server.pid).resident)
            if now >= began + minutes * 60:
                return
            time.sleep(max(0.0, began + (number + 1) / _RATE - now))


def _operate(client: ControlClient, server: Server, number: int) -> None:
    """Restart one VM; it asks for its document, and every second one approves."""
    vm = number * _STRIDE % _VMS
    member, _ = fleets.mixed(vm)
    try:
        result = client.operate_vm(member.name, VmOperationBody(operation="restart"))
    except Refused:
        return  # Its last restart is not over yet: the machine is busy with other work.
    server.ask(fleets.address_of(vm))
    if number % 2:
        _approve(server, fleets.address_of(vm), result.announcements[0].event.id)


def _approve(server: Server, address: str, event: str) -> None:
    body = msgspec.json.encode({"StartRequests": [{"EventId": event}]})
    head = f"POST {TARGET} HTTP/1.1\r\nHost: 127.0.0.1\r\nMetadata: true\r\nContent-Length: {len(body)}\r\n"
    with socket.create_connection(("127.0.0.1", server.port), 30, (address, 0)) as connection:
        connection.sendall(head.encode() + b"Connection: close\r\n\r\n" + body)
        while connection.recv(65_536):
            pass
