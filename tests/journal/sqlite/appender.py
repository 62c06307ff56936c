"""A server reduced to its journal, for crash tests: it appends until it is killed, and says what is durable.

Run as ``appender.py DIRECTORY HISTORY_SECONDS``. Snapshots are taken beside it and old entries deleted, all the time.
Every 40th entry is long, and is stored in parts before it is appended.
"""

import random
import sys
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from threading import Thread

from forewarn.core.facts import Entry, FleetChanged
from forewarn.core.model import Host
from forewarn.journal.port import JournalFailed
from forewarn.journal.sqlite.journal import SqliteJournal
from forewarn.testing.journal_contract import entry

_LONG = 3_000
"""How many hosts a long entry has."""


def nth(revision: int) -> Entry:
    """Return the entry that the appender writes under a revision."""
    many = _LONG if revision % 40 == 0 else 1
    return entry(revision, FleetChanged(hosts=tuple(Host(f"host-{(revision + n) % 5_000}") for n in range(many))))


def main(directory: Path, history: timedelta) -> None:
    journal = SqliteJournal(directory, history=history, snapshot_entries=300, part_size=10_000)
    revision = journal.load().revision

    def append(count: int) -> None:
        nonlocal revision
        entries = [nth(n) for n in range(revision + 1, revision + count + 1)]
        for each in entries:
            if each.revision % 40 == 0:
                journal.prepare(each.facts)
        journal.append(revision, entries)
        revision += count

    def take_snapshot() -> None:
        with suppress(JournalFailed):  # one that a killed appender started may still be at it
            journal.take_snapshot()

    append(200)
    take_snapshot()
    snapshot = Thread()
    while True:
        append(random.randint(1, 12))
        sys.stdout.write(f"{revision}\n")
        sys.stdout.flush()
        journal.compact(limit=20)
        if journal.snapshot_due and not snapshot.is_alive():
            snapshot = Thread(target=take_snapshot)
            snapshot.start()


if __name__ == "__main__":
    main(Path(sys.argv[1]), timedelta(seconds=float(sys.argv[2])))
