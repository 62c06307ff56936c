"""Two workers beside one process: what a request costs, who gets the connections, and memory."""

import socket
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bench import fleets, service, wrk
from bench.figures import Figure, ratios, spread_of
from bench.machine import cores
from bench.processes import memory_of
from bench.rounds import alternate
from bench.server import Server
from forewarn.control.bodies import HealthDetail, WorkerView
from forewarn.control.client import ControlClient

_TWO = ("--workers", "2")
_SIZE = 1_000_000
_QUICK_SIZE = 50_000
_CONNECTIONS = 1_000


def workers(directory: Path, *, quick: bool) -> Iterator[Figure]:
    """Measure two workers, and one process in the same run."""
    yield from _requests(directory, quick=quick)
    yield _memory(directory, _QUICK_SIZE if quick else _SIZE)


def _requests(directory: Path, *, quick: bool) -> Iterator[Figure]:
    core, load = cores()
    alone = fleets.make_journal(directory / "alone", 1_000)
    together = fleets.make_journal(directory / "together", 1_000)
    with service.serving(alone, core) as one, service.serving(together, core, more=_TWO) as two:
        _wait_for_workers(together, 2)
        for name, closing in (("64 keep-alive connections", False), ("one new connection per request", True)):

            def ask(server: Server, seconds: int, *, closing: bool = closing) -> float:
                return server.cost(lambda it: wrk.run(load, it.port, 64, seconds, closing=closing))

            for server in (one, two):
                ask(server, 1)
            costs = alternate({"one": partial(ask, one, 1), "two": partial(ask, two, 1)}, 3 if quick else 12)
            yield Figure(
                name=f"CPU per request of two workers against one process, {name}",
                asked="at most 1.1",
                limit=1.1,
                is_at_least=False,
                measured=spread_of(ratios(costs["two"], costs["one"])).median,
                spread=spread_of(ratios(costs["two"], costs["one"])),
                detail=f"{spread_of(costs['two']).median:.1f} µs against {spread_of(costs['one']).median:.1f} µs",
            )
        yield _share(together, two)


def _share(data: Path, server: Server) -> Figure:
    opened = [
        socket.create_connection(("127.0.0.1", server.port), 30, (fleets.address_of(number), 0))
        for number in range(_CONNECTIONS)
    ]
    for connection in opened:
        connection.sendall(f"GET {wrk.TARGET} HTTP/1.1\r\nHost: 127.0.0.1\r\nMetadata: true\r\n\r\n".encode())
    for connection in opened:
        connection.recv(4096)
    counts = [worker.connections for worker in _workers(data)]
    for connection in opened:
        connection.close()
    return Figure(
        name=f"share of {_CONNECTIONS:,} connections that the busier of two workers has",
        asked="at most 60 %",
        limit=60.0,
        is_at_least=False,
        measured=100 * max(counts) / sum(counts),
        unit="%",
        detail=" and ".join(map(str, counts)),
    )


def _memory(directory: Path, size: int) -> Figure:
    core, _ = cores()
    data = fleets.kept_journal(directory, size)
    with service.serving(data, core, more=("--workers", "1")) as ours:
        (worker,) = _wait_for_workers(data, 1)
        ours.ask()
        leader, follower = memory_of(ours.pid), memory_of(worker.pid)
    return Figure(
        name=f"memory of a worker against the leader's, {size:,} VMs",
        asked="at most 1.1",
        limit=1.1,
        is_at_least=False,
        measured=follower.resident / leader.resident,
        detail=f"{follower.resident / 2**20:,.0f} MiB against {leader.resident / 2**20:,.0f} MiB",
    )


def _workers(data: Path) -> tuple[WorkerView, ...]:
    with ControlClient.local(data) as client:
        health: HealthDetail = client.health()
    return health.workers or ()


def _wait_for_workers(data: Path, number: int) -> tuple[WorkerView, ...]:
    """Return the workers when all of them answer."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        try:
            found = _workers(data)
        except Exception:  # noqa: BLE001 - the control plane opens after the listeners of VMs
            found = ()
        if [worker.state for worker in found] == ["listening"] * number:
            return found
        time.sleep(0.05)
    raise SystemExit(f"{number} workers did not begin to answer.")
