"""A journal of ten million facts, and how long the history of one VM takes to be found in it.

It holds two million lives of events: announced, approved and started, attempted, completed. Each is an entry for the
journal and its rows for the index, written straight into the files, the index in its own order, because a service
would take days to come by them.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from time import perf_counter
from uuid import UUID
from zlib import crc32

from bench.figures import Figure, percentile, spread_of
from forewarn.audit.history import HistoryQuery, read_history_page
from forewarn.audit.history_lines import as_json_lines
from forewarn.core.access import Principal
from forewarn.core.facts import Announced, AnyFact, Approved, Attempted, Completed, Entry, Started
from forewarn.core.fleet import Fleet
from forewarn.core.model import NODE, Caller, CallerKind, Event, EventSource, EventStatus, EventType, Operation, Role
from forewarn.journal.codec import Row, pack
from forewarn.journal.sqlite import database, index
from forewarn.journal.sqlite.journal import SqliteJournal

_VMS = 100_000
_LIVES = 20
"""Events of each VM."""
_QUICK_VMS = 1_000
_PER_HOST = 20
_QUESTIONS = 200
_STRIDE = 7_919
"""From one VM that is asked for to the next; a prime, so that they lie everywhere."""
_ENTRIES, _FACTS = 4, 5
"""Of each life."""
_START = datetime(2026, 1, 1, tzinfo=UTC)
_OPERATOR = Caller(CallerKind.OPERATOR, "bench", "control.sock")


def history(directory: Path, *, quick: bool) -> Iterator[Figure]:
    """Find everything about one VM among ten million facts."""
    vms = _QUICK_VMS if quick else _VMS
    began = perf_counter()
    last = _write(directory, vms)
    built = perf_counter() - began
    first, later = [], []
    for number in range(_QUESTIONS):
        journal = SqliteJournal(directory)
        first.append(_ask(journal, last, number * _STRIDE % vms))
        later.append(_ask(journal, last, (number + 1) * _STRIDE % vms))
        journal.close()
    facts = vms * _LIVES * _FACTS
    size = sum(path.stat().st_size for path in directory.iterdir()) / 2**30
    for name, times, limit in (("", later, 50.0), (", the first question after a start", first, None)):
        yield Figure(
            name=f"history of one VM among {facts:,} facts{name}",
            asked="under 50 ms" if limit else "",
            limit=limit,
            is_at_least=False,
            measured=percentile(times, 0.95),
            unit="ms",
            spread=spread_of(times),
            detail=f"95th percentile of {_QUESTIONS} questions about different VMs (median"
            f" {spread_of(times).median:.1f} ms), {_LIVES * _FACTS} lines each,"
            f" written as JSON; {size:.1f} GiB on disk, made in {built:.0f} s",
        )


def _ask(journal: SqliteJournal, last: int, vm: int) -> float:
    """Return the milliseconds that a question takes."""
    began = perf_counter()
    found = read_history_page(
        journal, Fleet(), last, HistoryQuery(vm=_name(vm), limit=1_000), Principal(_OPERATOR, Role.OPERATOR)
    )
    as_json_lines(found.lines)
    took = (perf_counter() - began) * 1_000
    assert len(found.lines) == _LIVES * _FACTS
    return took


def _write(directory: Path, vms: int) -> int:
    """Write the journal and its index; return the last revision."""
    journal = SqliteJournal(directory)
    journal.load()
    journal.close()
    last = vms * _LIVES * _ENTRIES
    with closing(sqlite3.connect(directory / database.NAME, isolation_level=None)) as written:
        _fill(written, "entries VALUES (?, ?, ?)", _rows(vms))
        checksum = written.execute("SELECT checksum FROM entries WHERE revision = ?", (last,)).fetchone()[0]
        with closing(index.open_writer(directory, written)) as subjects:
            _fill(subjects, "subjects VALUES (?, ?)", _subjects(vms))
            subjects.execute("UPDATE reach SET revision = ?, checksum = ?", (last, checksum))
    return last


def _fill(connection: sqlite3.Connection, into: str, rows: Iterator[tuple[object, ...]]) -> None:
    # Straight into the file: what is half written when the bench is interrupted is thrown away with its directory.
    connection.execute("PRAGMA journal_mode = OFF")
    connection.execute("BEGIN")
    connection.executemany(f"INSERT INTO {into}", rows)
    connection.execute("COMMIT")
    connection.execute("PRAGMA journal_mode = WAL")


def _rows(vms: int) -> Iterator[Row]:
    patterns = _patterns()
    for life in range(vms * _LIVES):
        vm = life % vms
        at = (_START + timedelta(seconds=life)).isoformat().replace("+00:00", "Z").encode()
        names = {
            b"vm": _name(vm).encode(),
            b"host": _host(vm // _PER_HOST).encode(),
            b"event": _event(life).encode(),
            b"at": at,
        }
        for revision, pattern in enumerate(patterns, life * _ENTRIES + 1):
            body = pattern % {**names, b"revision": revision, b"command": _command(revision).encode()}
            yield revision, crc32(body, revision), body


def _patterns() -> list[bytes]:
    """Return the entries of a life as the journal writes them, with places for what differs."""
    event = Event(
        id="<event>",
        type=EventType.FREEZE,
        source=EventSource.PLATFORM,
        group="<vm>",
        resources=("<vm>",),
        status=EventStatus.SCHEDULED,
        not_before=_START,
        announced_at=_START,
        operation=Operation.VM_FREEZE,
        description="Host server is undergoing maintenance.",
        duration=5,
        host="<host>",
        since=1,
    )
    by = Caller(CallerKind.VM, "<vm>", "10.0.0.1")
    lives: tuple[tuple[Caller, tuple[AnyFact, ...]], ...] = (
        (_OPERATOR, (Announced(event),)),
        (by, (Approved(event.id, _START, by), Started(event.id, _START, "approved by <vm>"))),
        (NODE, (Attempted(event.id, _START),)),
        (NODE, (Completed(event.id, _START),)),
    )
    found = []
    for caller, facts in lives:
        ((_, _, body),) = pack([Entry(0, _START, "<command>", caller, facts)])
        body = body.replace(b"%", b"%%").replace(b'"revision":0', b'"revision":%(revision)d')
        for word in ("vm", "host", "event", "command"):
            body = body.replace(f"<{word}>".encode(), f"%({word})b".encode())
        found.append(body.replace(_START.isoformat().replace("+00:00", "Z").encode(), b"%(at)b"))
    return found


def _subjects(vms: int) -> Iterator[tuple[str, int]]:
    """Yield what the index holds of all lives, in the order in which it keeps it."""
    lives = vms * _LIVES
    announced = range(1, lives * _ENTRIES, _ENTRIES)
    yield from (("caller:bench", revision) for revision in announced)
    yield from _by_name("caller", vms, _ENTRIES, 1)
    yield from ((f"command:{_command(revision)}", revision) for revision in range(1, lives * _ENTRIES + 1))
    for life in range(lives):
        subject = f"event:{_event(life)}"
        yield from ((subject, revision) for revision in range(life * _ENTRIES + 1, (life + 1) * _ENTRIES + 1))
    yield from (("finished", revision + _ENTRIES - 1) for revision in announced)
    yield from _by_name("group", vms, _ENTRIES, 0)
    for host in range(vms // _PER_HOST):
        members = range(host * _PER_HOST, (host + 1) * _PER_HOST)
        subject = f"host:{_host(host)}"
        yield from ((subject, (vm + vms * life) * _ENTRIES + 1) for life in range(_LIVES) for vm in members)
    yield from _by_name("vm", vms, _ENTRIES, 0)


def _by_name(kind: str, vms: int, entries: int, place: int) -> Iterator[tuple[str, int]]:
    return chain.from_iterable(
        ((f"{kind}:{_name(vm)}", (vm + vms * life) * entries + place + 1) for life in range(_LIVES))
        for vm in range(vms)
    )


def _name(vm: int) -> str:
    return f"vm-{vm:06}"


def _host(host: int) -> str:
    return f"host-{host:06}"


def _event(life: int) -> str:
    return str(UUID(int=life))


def _command(revision: int) -> str:
    return f"{revision:032x}"
