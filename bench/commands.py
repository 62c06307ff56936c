"""Commands from 64 callers at once, each durable before its answer, beside bare SQLite on the same disk.

Bare SQLite is a loop that commits 64 rows at a time, of the very sizes that the commands leave in the journal, with
the same pragmas and nothing else to do. A command is decided, encoded, committed together with those that wait, and
answered; a caller gives the next one when it has its answer.
"""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from time import perf_counter
from uuid import uuid4

import uvloop

from bench import fleets
from bench.figures import Figure, ratios, spread_of
from bench.rounds import alternate
from forewarn.clocks import SystemClock
from forewarn.core.commands import CancelEvent, OperateVm, VmOperation
from forewarn.core.facts import Announced
from forewarn.core.model import Caller, CallerKind
from forewarn.core.notice import Rules
from forewarn.journal.sqlite import database
from forewarn.journal.sqlite.journal import SqliteJournal
from forewarn.node.node import Node
from forewarn.runtime import exempt_fleet_from_collection

CALLERS = 64
_FLEET = 1_000
_FASTEST = 400_000
"""More commands per second than any machine will take."""
_OPERATOR = Caller(CallerKind.OPERATOR, "bench")


def commands(directory: Path, *, quick: bool) -> Iterator[Figure]:
    """Measure commands given to the node."""
    rounds, seconds = (3, 0.5) if quick else (12, 1.0)
    data = fleets.make_journal(directory / "data", _FLEET)
    journal = SqliteJournal(data)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        node = Node(journal, SystemClock(), Rules())
        runner.run(node.start())
        exempt_fleet_from_collection()  # as the service does
        runner.run(submit(node, seconds / 4))
        bodies = _bodies(data)
        rates = alternate(
            {
                "ours": lambda: runner.run(submit(node, seconds)),
                "bare": partial(_commit_rows, directory / "bare.sqlite3", bodies, seconds),
            },
            rounds,
        )
        runner.run(node.stop())
    journal.close()
    yield _beside_bare(rates, bodies)


async def submit(node: Node, seconds: float) -> float:
    """Let every caller restart a VM of its own and take that back, again and again; return commands per second."""
    ids = iter([str(uuid4()) for _ in range(int(seconds * _FASTEST))])  # drawn by callers, so not counted here

    async def call(caller: int) -> int:
        vm, _ = fleets.mixed(caller)
        done = 0
        while perf_counter() < until:
            restart = OperateVm(id=next(ids), by=_OPERATOR, operation=VmOperation.RESTART, vm=vm.name)
            (announced,) = await node.submit(restart)
            assert isinstance(announced, Announced)
            await node.submit(CancelEvent(id=next(ids), by=_OPERATOR, event=announced.event.id))
            done += 2
        return done

    began = perf_counter()
    until = began + seconds
    done = sum(await asyncio.gather(*(call(caller) for caller in range(CALLERS))))
    return done / (perf_counter() - began)


def _bodies(data: Path) -> list[bytes]:
    """Return the newest rows of a journal."""
    with database.reading(data / database.NAME) as connection:
        _, last = database.bounds(connection)
        return [body for _, _, body in database.rows(connection, max(0, last - 2_000))]


def _commit_rows(path: Path, bodies: list[bytes], seconds: float) -> float:
    """Commit rows with these bodies, 64 at a time, to a journal's table; return rows per second."""
    if not path.exists():
        database.create(path)
    with closing(database.open_writer(path)) as connection:
        return _commit_all(connection, bodies, seconds)


def _commit_all(connection: sqlite3.Connection, bodies: list[bytes], seconds: float) -> float:
    _, revision = database.bounds(connection)
    rest = cycle(bodies)
    done = 0
    began = perf_counter()
    while perf_counter() - began < seconds:
        rows = [(revision + done + number, 0, body) for number, body in enumerate(islice(rest, CALLERS), start=1)]
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany("INSERT INTO entries VALUES (?, ?, ?)", rows)
        connection.execute("COMMIT")
        done += len(rows)
    return done / (perf_counter() - began)


def _beside_bare(rates: dict[str, list[float]], bodies: list[bytes]) -> Figure:
    ratio = spread_of(ratios(rates["ours"], rates["bare"]))
    ours, bare = spread_of(rates["ours"]), spread_of(rates["bare"])
    return Figure(
        name=f"commands from {CALLERS} callers, given to the node",
        asked="at least 0.33 of bare SQLite (goal 0.45)",
        limit=0.33,
        measured=ratio.median,
        spread=ratio,
        noise=spread_of([rate / bare.median for rate in rates["bare"]]),
        detail=f"{ours.median:,.0f} commands per second, bare SQLite {bare.median:,.0f} rows,"
        f" {sum(map(len, bodies)) / len(bodies):.0f} bytes each",
    )
