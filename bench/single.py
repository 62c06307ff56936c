"""One caller beside nginx: keep-alive connections, and one new connection per request."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bench import fleets, service, wrk
from bench.figures import Figure
from bench.machine import cores
from bench.pair import beside_nginx, compared
from bench.rounds import alternate
from bench.server import Server, field

_FLEET = 1_000


def keep_alive(directory: Path, *, quick: bool) -> Iterator[Figure]:
    """Measure the empty document over 64 and 256 keep-alive connections."""
    for connections in (64,) if quick else (64, 256):
        yield _compare(directory, f"{connections} keep-alive connections", connections, closing=False, quick=quick)


def connections(directory: Path, *, quick: bool) -> Iterator[Figure]:
    """Measure the empty document with one new connection per request."""
    yield _compare(directory, "one new connection per request", 64, closing=True, quick=quick)


def _compare(directory: Path, name: str, connections: int, *, closing: bool, quick: bool) -> Figure:
    core, _ = cores()
    with service.serving(fleets.make_journal(directory / "data", _FLEET), core) as ours:
        etags = {fleets.address_of(number): f'"vm-{number}-1"' for number in range(_FLEET)}
        etags[fleets.address_of(0)] = field(ours.ask(), "ETag")
        with beside_nginx(ours, directory, core, etags, closing=closing) as servers:
            ask = partial(_cost, connections=connections, closing=closing)
            for server in servers.values():
                ask(server, seconds=1)
            costs = alternate(
                {name: partial(ask, server, seconds=1) for name, server in servers.items()}, 3 if quick else 12
            )
    return compared(name, 0.9, costs)


def _cost(server: Server, *, connections: int, closing: bool, seconds: int) -> float:
    _, core = cores()
    return server.cost(lambda it: wrk.run(core, it.port, connections, seconds, closing=closing))
