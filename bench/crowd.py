"""Approvals from as many VMs as there are events, offered as fast as they are taken."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from time import perf_counter

from msgspec.structs import replace

from bench import fleets, service
from bench.approvals import announce_restarts, post_approvals
from bench.figures import Figure
from bench.machine import cores
from forewarn.core.facts import Approved, Entry
from forewarn.journal.sqlite.journal import SqliteJournal

_CROWD = 100_000
_AT_ONCE = 5_000
"""Connections that the approving process makes beforehand; a process may not open a hundred thousand."""
_TOGETHER = 64


def crowd(directory: Path, *, quick: bool) -> Iterator[Figure]:
    """Let a hundred thousand VMs approve their events."""
    core, load = cores()
    number = _AT_ONCE if quick else _CROWD
    data = fleets.make_journal(directory / "data", number)
    restarts = iter(announce_restarts(data, number))
    seconds = 0.0
    with service.serving(data, core) as ours:
        while some := list(islice(restarts, _AT_ONCE)):
            seconds += len(some) / post_approvals(load, ours.port, some)
    journal = SqliteJournal(data)
    journal.load()
    approved = [entry for entry in journal.entries() if any(isinstance(fact, Approved) for fact in entry.facts)]
    journal.close()
    if len(approved) != number:
        raise SystemExit(f"{number - len(approved)} approvals were acknowledged and are not in the journal")
    own = _own_rate(directory / "own", approved)
    yield Figure(
        name=f"approvals of {number:,} VMs, each durable before its answer",
        asked="at least 0.5 of the journal's own rate",
        limit=0.5,
        measured=number / seconds / own,
        detail=f"{number / seconds:,.0f} per second over HTTP; the journal alone appends {own:,.0f} of these entries",
    )


def _own_rate(directory: Path, entries: list[Entry]) -> float:
    """Append the same entries to an empty journal, 64 at a time; return entries per second."""
    renumbered = [replace(entry, revision=number) for number, entry in enumerate(entries, start=1)]
    journal = SqliteJournal(directory)
    journal.load()
    began = perf_counter()
    for first in range(0, len(renumbered), _TOGETHER):
        journal.append(first, renumbered[first : first + _TOGETHER])
    rate = len(renumbered) / (perf_counter() - began)
    journal.close()
    return rate
