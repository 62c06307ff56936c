"""A long entry is stored in parts before it is appended: it counts whole or not at all, and reads as any other."""

import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from threading import Barrier

import pytest
from msgspec.structs import replace

from forewarn.core.fact import FORMAT
from forewarn.core.facts import AnyFact, FleetChanged, RecordedRequest
from forewarn.core.model import Host
from forewarn.journal.codec import pack
from forewarn.journal.port import DamagedJournal, NotWritten, RepeatedCommand
from forewarn.journal.sqlite import database, long_entries
from forewarn.journal.sqlite.journal import SqliteJournal
from forewarn.journal.sqlite.verification import verify
from forewarn.testing.journal_contract import assert_same, entry, folded, hosts

RACKS = tuple(Host(f"rack-{number}") for number in range(5_000))
FACTS: tuple[AnyFact, ...] = (FleetChanged(hosts=RACKS),)
LONG = entry(3, *FACTS)
ALL = [*hosts(1, 2), LONG, *hosts(4, 4)]


def opened(directory: Path, history: timedelta = timedelta(days=400)) -> SqliteJournal:
    journal = SqliteJournal(directory, history=history, part_size=10_000)
    journal.load()
    return journal


def write_all(journal: SqliteJournal) -> None:
    """Append two entries, the long one, and another; the first two while the long one is prepared already."""
    journal.prepare(LONG.facts)
    journal.append(0, ALL[:2])
    journal.append(2, [LONG])
    journal.append(3, ALL[3:])


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[SqliteJournal]:
    journal = opened(tmp_path)
    yield journal
    journal.close()


def ask(directory: Path, question: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(directory / database.NAME)) as connection:
        return connection.execute(question).fetchall()


def change(directory: Path, statement: str) -> None:
    with closing(sqlite3.connect(directory / database.NAME)) as connection, connection:
        connection.execute(statement)


def count_parts(directory: Path) -> object:
    return ask(directory, "SELECT count(*) FROM entry_parts")[0][0]


@pytest.mark.end_to_end
def test_it_reads_as_any_other_entry(journal: SqliteJournal, tmp_path: Path) -> None:
    """Entries, fold, history by cause and by subject, and verification; before and after a snapshot."""
    write_all(journal)

    for _ in range(2):
        assert list(journal.entries()) == ALL
        assert list(journal.entries(2, 1)) == [LONG]
        assert journal.history("host:rack-4999") == [LONG]
        assert journal.history("host:rack-5000") == []
        assert journal.history(f"command:{LONG.command}") == [LONG]
        assert journal.history("caller:ada") == ALL
        assert_same(journal.load().fleet, folded(ALL))
        assert verify(tmp_path).problems == ()
        journal.take_snapshot()


def test_history_looks_through_it_without_an_index(tmp_path: Path) -> None:
    """Where it is neither indexed nor remembered."""
    with closing(SqliteJournal(tmp_path, part_size=10_000, remembered=0)) as journal:
        journal.load()
        write_all(journal)

        assert journal.history("host:rack-7") == [LONG]
        assert journal.history("host:rack-5000") == []


def test_its_row_is_short_and_its_checksum_that_of_the_whole(journal: SqliteJournal, tmp_path: Path) -> None:
    """What it is compared by, a snapshot's header for one, does not depend on how it is stored."""
    write_all(journal)

    ((_, checksum, _),) = pack([LONG])
    assert ask(tmp_path, "SELECT checksum, length(body) < 300 FROM entries WHERE revision = 3") == [(checksum, True)]
    assert count_parts(tmp_path) == 6


def test_releases_that_do_not_know_parts_refuse_the_journal_from_then_on(
    journal: SqliteJournal, tmp_path: Path
) -> None:
    """A journal without such an entry has the format it always had."""
    journal.append(0, ALL[:2])
    assert ask(tmp_path, "PRAGMA user_version") == [(FORMAT,)]
    journal.prepare(LONG.facts)
    assert ask(tmp_path, "PRAGMA user_version") == [(FORMAT,)]

    journal.append(2, [LONG])

    assert ask(tmp_path, "PRAGMA user_version") == [(long_entries.FORMAT,)] == [(FORMAT + 1,)]


def test_a_short_entry_is_not_stored_in_parts(tmp_path: Path) -> None:
    """Below the size of a part it is one row as ever, in a journal of the usual format."""
    with closing(SqliteJournal(tmp_path)) as journal:
        journal.load()
        write_all(journal)

        assert list(journal.entries()) == ALL
        assert ask(tmp_path, "SELECT checksum, body FROM entries WHERE revision = 3") == [pack([LONG])[0][1:]]
        assert ask(tmp_path, "SELECT count(*) FROM sqlite_schema") == [(1,)]


@pytest.mark.parametrize("is_closed", [True, False])
def test_parts_that_no_entry_has_are_deleted_when_the_journal_is_opened(tmp_path: Path, *, is_closed: bool) -> None:
    """What was prepared and never appended shows nowhere and takes no room; what was appended stays."""
    journal = opened(tmp_path)
    write_all(journal)
    before = count_parts(tmp_path)
    journal.prepare((FleetChanged(hosts=RACKS[1:]),))
    assert count_parts(tmp_path) != before
    if is_closed:
        journal.close()

    assert journal.load().revision == 4

    assert count_parts(tmp_path) == before
    assert list(journal.entries()) == ALL
    assert verify(tmp_path).problems == ()
    journal.close()


def test_parts_that_no_entry_has_are_deleted_before_others_are_stored(journal: SqliteJournal, tmp_path: Path) -> None:
    """A change that was refused leaves room for the next."""
    journal.prepare(LONG.facts)
    before = count_parts(tmp_path)

    journal.prepare((FleetChanged(hosts=RACKS),))

    assert count_parts(tmp_path) == before


def test_parts_do_not_outlast_another_opening(journal: SqliteJournal, tmp_path: Path) -> None:
    """An entry that was prepared before is appended all the same, as a row of its own."""
    journal.prepare(LONG.facts)
    journal.reopen()

    journal.append(0, ALL[:2])
    journal.append(2, [LONG])

    assert list(journal.entries()) == ALL[:3]
    assert count_parts(tmp_path) == 0


def test_an_opening_meanwhile_ends_the_preparation(journal: SqliteJournal, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would go on behind parts that the opening deleted."""
    store, stored = journal._store, []

    def reopen_after_two(writer: sqlite3.Connection | None, part: bytes) -> None:
        store(writer, part)
        stored.append(part)
        if len(stored) == 2:
            journal.reopen()

    monkeypatch.setattr(journal, "_store", reopen_after_two)

    with pytest.raises(NotWritten, match="opened anew"):
        journal.prepare(LONG.facts)

    assert len(stored) == 2


def test_appends_of_others_come_between_two_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that waits while a part is stored is next, however soon the next part is there."""
    journal = opened(tmp_path)
    store, stored = long_entries.store, Barrier(2)
    revisions: list[int] = []

    def store_while_another_waits(connection: sqlite3.Connection, content: bytes) -> int:
        if not revisions:
            stored.wait(20)
            while not journal._mutex._next.locked():
                pass
        revisions.append(journal._last_revision())
        return store(connection, content)

    monkeypatch.setattr(long_entries, "store", store_while_another_waits)
    with ThreadPoolExecutor(1) as thread:
        preparing = thread.submit(journal.prepare, LONG.facts)
        stored.wait(20)
        journal.append(0, ALL[:2])
        preparing.result(20)
    journal.append(2, [LONG])

    assert revisions == [0, 2, 2, 2, 2]
    assert list(journal.entries()) == ALL[:3]
    journal.close()


def test_a_part_that_cannot_be_stored_is_told(journal: SqliteJournal, tmp_path: Path) -> None:
    """Nothing of the entry turns up later, and after another load it is written like any other."""
    journal.append(0, ALL[:2])
    assert journal._writer
    journal._writer.execute("PRAGMA max_page_count = 15")
    with pytest.raises(NotWritten, match="disk is full"):
        journal.prepare(LONG.facts)
    with pytest.raises(NotWritten, match="load it again"):
        journal.append(2, [LONG])

    assert journal.reopen() == 2
    journal.prepare(LONG.facts)
    journal.append(2, [LONG])

    assert list(journal.entries()) == ALL[:3]
    assert verify(tmp_path).problems == ()


@pytest.mark.end_to_end
def test_compaction_deletes_its_parts(tmp_path: Path) -> None:
    """They go with their entry; those of an entry that is kept stay."""
    kept = entry(24, *FACTS)
    journal = opened(tmp_path, timedelta(0))
    write_all(journal)
    journal.append(4, hosts(5, 20))
    journal.take_snapshot()
    journal.append(20, hosts(21, 23))
    before = count_parts(tmp_path)
    journal.prepare(kept.facts)
    journal.append(23, [kept])
    journal.take_snapshot()

    while journal.compact():
        pass

    assert count_parts(tmp_path) == before
    assert list(journal.entries()) == [*hosts(20, 23), kept]
    assert verify(tmp_path).problems == ()
    journal.close()


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM entry_parts WHERE number = 2",
        "UPDATE entry_parts SET content = x'00' WHERE number = 2",
        "UPDATE entries SET body = CAST(replace(body, ',', ';') AS BLOB) WHERE revision = 3",
        "DROP TABLE entry_parts",
    ],
)
def test_damage_is_found(journal: SqliteJournal, tmp_path: Path, damage: str) -> None:
    """A part that is missing or changed is damage of its entry."""
    write_all(journal)
    journal.close()
    change(tmp_path, damage)

    with pytest.raises(DamagedJournal, match="damaged"):
        journal.load()
    assert not verify(tmp_path).ok


def test_its_parts_count_for_the_next_snapshot(tmp_path: Path) -> None:
    """When they are appended, and after a restart."""
    journal = SqliteJournal(tmp_path, part_size=10_000, snapshot_bytes=60_000)
    journal.load()
    write_all(journal)
    assert journal.snapshot_due

    journal.load()

    assert journal.snapshot_due
    journal.close()


def test_a_request_is_kept_with_it(journal: SqliteJournal) -> None:
    """It stands behind the facts, in the last part."""
    whole = replace(LONG, revision=1, request=RecordedRequest("fingerprint"))
    journal.prepare(LONG.facts)
    journal.append(0, [whole])

    assert list(journal.entries()) == [whole]
    with pytest.raises(RepeatedCommand):
        journal.append(1, [replace(whole, revision=2, facts=())])
