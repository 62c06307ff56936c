"""Two nodes on PostgreSQL: what an approval costs that a follower passes on to the leader.

The storms take turns between the leader and the follower. The follower takes in every commit, whichever of them a VM
asked, so that only the way to the leader differs. The CPU of both nodes and of PostgreSQL counts.
"""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import islice
from pathlib import Path

from bench import fleets
from bench.approvals import Restart, announce_restarts, approve_one
from bench.figures import Figure, ratios, spread_of
from bench.generator import IN_FLIGHT, Generator
from bench.machine import cores
from bench.processes import cpu_seconds, free_port, run_on, running, wait_until_listening
from bench.rounds import alternate
from bench.server import Server
from forewarn.control.bodies import ClusterView
from forewarn.control.client import ControlClient
from forewarn.journal.postgres.address import DatabaseAddress
from forewarn.journal.postgres.schema import migrate
from tests.cluster.peers.authority import Authority
from tests.postgresql import PostgresServer

_DATABASE = "bench"
_NAMES = ("n1", "n2")
_PATIENCE = 60.0
_WARM_UP = 500


def cluster(directory: Path, *, quick: bool) -> Iterator[Figure]:
    """Measure approvals that a follower passes on to the leader."""
    rounds, number, single = (3, 500, 100) if quick else (10, 2_000, 400)
    size = 2 * (rounds * (number + single) + _WARM_UP)
    data = fleets.make_journal(directory / "sqlite", size)
    restarts = iter(announce_restarts(data, size))
    generator = Generator(directory)

    def storm(port: int, some: list[Restart]) -> None:
        generator.approve(cores()[1], port, some)

    def approve_in_turn(port: int, some: list[Restart]) -> None:
        for restart in some:
            approve_one(port, restart)

    with _database(data) as database, _nodes(directory, database) as nodes:
        leader = next(name for name in nodes if _view(directory / name).role == "leading")
        servers = {"local": nodes.pop(leader), "forwarded": next(iter(nodes.values()))}

        def cost(server: Server, approve: Callable[[int, list[Restart]], None], number: int) -> float:
            """Return the microseconds of CPU for each approval."""
            some = list(islice(restarts, number))
            before = _cpu(servers.values(), database)
            approve(server.port, some)
            _settle([directory / name for name in _NAMES])
            return (_cpu(servers.values(), database) - before) / len(some) * 1e6

        for server in servers.values():
            cost(server, storm, _WARM_UP)
        for how, approve, some in ((f"{IN_FLIGHT} at a time", storm, number), ("in turn", approve_in_turn, single)):
            measures = {name: partial(cost, server, approve, some) for name, server in servers.items()}
            costs = alternate(measures, rounds)
            ratio = spread_of(ratios(costs["forwarded"], costs["local"]))
            yield Figure(
                name=f"CPU of an approval that a follower passes on, against one at the leader, {how}",
                asked="at most 2.5",
                limit=2.5,
                is_at_least=False,
                measured=ratio.median,
                spread=ratio,
                detail=f"{spread_of(costs['forwarded']).median:.0f} µs against"
                f" {spread_of(costs['local']).median:.0f} µs, of all processes together",
            )


@contextmanager
def _database(data: Path) -> Iterator[PostgresServer]:
    """Run PostgreSQL with a copy of a journal."""
    server = PostgresServer(fsync="on")
    try:
        server.initialize()
        server.start()
        server.execute(f"CREATE DATABASE {_DATABASE}")
        migrate(DatabaseAddress.parse(server.location(_DATABASE)))
        copy = ["journal", "copy", f"sqlite:{data}", f"postgresql:{server.location(_DATABASE)}"]
        run_on(cores()[0], [sys.executable, "-m", "forewarn", *copy], 600)
        yield server
    finally:
        server.close()


@contextmanager
def _nodes(directory: Path, database: PostgresServer) -> Iterator[dict[str, Server]]:
    authority = Authority(directory / "authority")
    with ExitStack() as started:
        servers: dict[str, Server] = {}
        for name in _NAMES:
            authority.certify(name)
            port = free_port()
            command = [
                sys.executable, "-m", "forewarn", "serve",
                "--journal", f"postgresql:{database.location(_DATABASE)}",
                "--data", str(directory / name),
                "--node", name,
                "--cluster", f"127.0.0.1:{free_port()}",
                "--cluster-certificate", str(authority.path(f"{name}.pem")),
                "--cluster-key", str(authority.path(f"{name}.key")),
                "--cluster-authority", str(authority.certificate),
                "--metadata", f"127.0.0.1:{port}",
                "--control", "off",
                "--rate-limit", "0",
                "--connections-per-caller", "0",
                "--log-level", "warning",
            ]  # fmt: skip
            log = directory / f"{name}.log"
            process = started.enter_context(running(command, cores()[0], log))
            wait_until_listening(port, process, log, 120)
            servers[name] = Server(name, port, process.pid)
        _settle([directory / name for name in _NAMES])
        yield servers


def _view(data: Path) -> ClusterView:
    with ControlClient.local(data) as client:
        found = client.health().cluster
    assert found
    return found


def _settle(nodes: list[Path]) -> None:
    """Wait until one node leads, and all of them hold the same revision."""
    until = time.monotonic() + _PATIENCE
    while True:
        revisions = set()
        for data in nodes:
            with ControlClient.local(data) as client:
                revisions.add(client.health().revision)
        roles = sorted(_view(data).role for data in nodes)
        if len(revisions) == 1 and roles == ["following", "leading"]:
            return
        if time.monotonic() > until:
            raise SystemExit(f"the nodes do not agree after {_PATIENCE:.0f} s: they are {', '.join(roles)}")
        time.sleep(0.05)


def _cpu(servers: Iterable[Server], database: PostgresServer) -> float:
    """Return the seconds of CPU that all processes have had."""
    pids = [*(server.pid for server in servers), *database.pids()]
    return sum(cpu_seconds(pid) for pid in pids)
