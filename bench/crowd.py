"""Approvals from as many VMs as there are events, offered as fast as they are taken."""

from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

from msgspec.structs import replace

from bench import fleets, service
from bench.approvals import announce_restarts, durable_approvals
from bench.figures import Figure
from bench.generator import Generator
from bench.machine import cores
from forewarn.core.facts import Entry
from forewarn.journal.sqlite.journal import SqliteJournal

_CROWD = 100_000
_QUICK_CROWD = 5_000
_TOGETHER = 64


def crowd(directory: Path, *, quick: bool) -> Iterator[Figure]:
    """Let a hundred thousand VMs approve their events."""
    core, load = cores()
    number = _QUICK_CROWD if quick else _CROWD
    data = fleets.make_journal(directory / "data", number)
    restarts = announce_restarts(data, number)
    with service.serving(data, core) as ours:
        rate = Generator(directory).approve(load, ours.port, restarts).rate
    approved = durable_approvals(data, number)
    own = _own_rate(directory / "own", approved)
    yield Figure(
        name=f"approvals of {number:,} VMs, each durable before its answer",
        asked="at least 0.5 of the journal's own rate",
        limit=0.5,
        measured=rate / own,
        detail=f"{rate:,.0f} per second over HTTP; the journal alone appends {own:,.0f} of these entries",
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
