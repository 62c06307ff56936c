"""A journal in PostgreSQL, beside ``pgbench`` on the same server: commands, followers, and the start of a node.

``pgbench`` inserts one row in each transaction, from 64 clients, of the size that a command leaves in the journal.
Our 64 callers give single commands to a node that leads. Both take turns on one server of Debian's PostgreSQL: every
commit is on the disk before it is answered.
"""

import asyncio
import re
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from time import perf_counter, sleep

import uvloop

from bench import fleets
from bench.commands import CALLERS, submit
from bench.figures import Figure, percentile, ratios, spread_of
from bench.processes import python
from bench.rounds import alternate
from forewarn.clocks import SystemClock
from forewarn.core.facts import Entry
from forewarn.core.model import NODE
from forewarn.core.notice import Rules
from forewarn.journal.postgres.address import DatabaseAddress
from forewarn.journal.postgres.journal import PostgresJournal
from forewarn.journal.postgres.schema import migrate
from forewarn.node.node import Node
from forewarn.runtime import exempt_fleet_from_collection
from forewarn.testing.shared_journal_contract import lead
from tests.postgresql import PostgresServer, binary

_FLEET = 1_000
_DATABASE = "bench"


def postgresql(directory: Path, *, quick: bool) -> Iterator[Figure]:  # noqa: ARG001 - the server has its own
    """Measure a journal in PostgreSQL."""
    with _server() as server:
        yield _commands(server, *((3, 1.0) if quick else (10, 3.0)))
        yield from _following(server, 100 if quick else 2_000)
    with _server() as server:
        yield _starting(server, 20_000 if quick else 1_000_000)


@contextmanager
def _server() -> Iterator[PostgresServer]:
    server = PostgresServer(fsync="on", shared_buffers="256MB")
    try:
        server.initialize()
        server.start()
        server.execute(f"CREATE DATABASE {_DATABASE}")
        migrate(DatabaseAddress.parse(server.location(_DATABASE)))
        yield server
    finally:
        server.close()


def _journal(server: PostgresServer) -> PostgresJournal:
    return PostgresJournal(DatabaseAddress.parse(server.location(_DATABASE)))


def _commands(server: PostgresServer, rounds: int, seconds: float) -> Figure:
    with closing(_journal(server)) as journal, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        journal.load()
        lead(journal)
        fleets.append_fleet(journal, _FLEET)
        node = Node(journal, SystemClock(), Rules())
        runner.run(node.start())
        exempt_fleet_from_collection()  # as the service does
        runner.run(submit(node, seconds / 2))
        ((size,),) = server.execute(
            "SELECT avg(length(body))::int FROM forewarn.entries WHERE revision > 200", _DATABASE
        )
        server.execute("CREATE TABLE plain (number bigserial PRIMARY KEY, body bytea NOT NULL)", _DATABASE)
        script = server.directory / "insert.sql"
        script.write_text(f"INSERT INTO plain (body) VALUES (convert_to(repeat('x', {size}), 'UTF8'));\n")  # noqa: S608 - ours
        rates = alternate(
            {
                "ours": lambda: runner.run(submit(node, seconds)),
                "pgbench": partial(_pgbench, server, script, seconds),
            },
            rounds,
        )
        runner.run(node.stop())
    ratio = spread_of(ratios(rates["ours"], rates["pgbench"]))
    ours, plain = spread_of(rates["ours"]), spread_of(rates["pgbench"])
    return Figure(
        name=f"commands from {CALLERS} callers, in PostgreSQL",
        asked="at least 0.6 of what pgbench inserts",
        limit=0.6,
        measured=ratio.median,
        spread=ratio,
        noise=spread_of([rate / plain.median for rate in rates["pgbench"]]),
        detail=f"{ours.median:,.0f} commands per second, pgbench {plain.median:,.0f} rows of {size} bytes",
    )


def _pgbench(server: PostgresServer, script: Path, seconds: float) -> float:
    """Return how many one-row transactions per second 64 clients commit."""
    command = [binary("pgbench"), "--no-vacuum", "--client", str(CALLERS), "--jobs", "2", "--protocol", "prepared"]
    command += ["--time", str(max(1, round(seconds))), "--file", str(script), "--host", "127.0.0.1"]
    command += ["--port", str(server.port), "--username", "postgres", _DATABASE]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = re.search(r"tps = ([0-9.]+)", said)
    assert found, said
    return float(found[1])


def _following(server: PostgresServer, count: int) -> Iterator[Figure]:
    """Append one entry after another, and have a follower in another process tell when it has read each."""
    with closing(_journal(server)) as journal:
        revision = journal.load().revision
        lead(journal)
        command = python("bench.postgresql_follower", server.location(_DATABASE), str(revision), str(count))
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as follower:
            assert follower.stdout
            assert follower.stdout.readline() == "ready\n"
            began: list[float] = []
            for number in range(1, count + 1):
                entry = Entry(revision + number, datetime.now(UTC), f"follow-{revision + number}", NODE, ())
                began.append(perf_counter())
                journal.append(revision + number - 1, [entry])
                sleep(0.005)
            seen = [float(line) for line in follower.stdout]
    delays = [1000 * (there - here) for here, there in zip(began, seen, strict=True)]
    for name, share, limit in (("median", 0.5, 10.0), ("p99", 0.99, 50.0)):
        yield Figure(
            name=f"change to visible on a follower, {name}",
            asked=f"under {limit:g} ms",
            limit=limit,
            is_at_least=False,
            measured=percentile(delays, share),
            unit="ms",
            detail=f"{count} entries, from before the append to read in another process",
        )


def _starting(server: PostgresServer, size: int) -> Figure:
    """Let a process load a fleet from its snapshot."""
    with closing(_journal(server)) as journal:
        journal.load()
        lead(journal)
        fleets.append_fleet(journal, size)
        journal.take_snapshot()
    command = python("bench.postgresql_loader", server.location(_DATABASE))
    seconds = [float(subprocess.run(command, check=True, capture_output=True, text=True).stdout) for _ in range(3)]
    return Figure(
        name=f"load of {size:,} VMs from PostgreSQL",
        asked="under 30 s",
        limit=30.0,
        is_at_least=False,
        measured=min(seconds),
        unit="s",
        detail=f"the best of {', '.join(f'{each:.1f}' for each in seconds)} s",
    )
