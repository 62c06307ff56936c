"""Journals are copied whole, between kinds, and a copy that was cut off goes on."""

import io
from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path
from zlib import crc32

import pytest

from forewarn.core.errors import BadInput, Refused
from forewarn.files import InUse
from forewarn.journal.export_file import ExportedJournal, export_journal
from forewarn.journal.port import DamagedJournal, NewerJournal
from forewarn.journal.sqlite.journal import SqliteJournal
from forewarn.journal.sqlite.transfer import SqliteTarget, opened_source, opened_target
from forewarn.journal.transfer import transfer
from forewarn.testing.journal_contract import NOON, assert_same, folded, hosts, rack, request

ENTRIES = [rack(1), *hosts(2, 30), request(31, "key"), *hosts(32, 40)]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Return a directory with a journal of forty entries."""
    journal = SqliteJournal(tmp_path / "source")
    journal.load()
    journal.append(0, ENTRIES)
    journal.close()
    return tmp_path / "source"


@pytest.fixture
def compacted(source: Path) -> Path:
    """Return a directory with a journal, the first entries of which were deleted."""
    journal = SqliteJournal(source, history=timedelta(0))
    journal.load()
    journal.take_snapshot(now=NOON + timedelta(days=1))
    journal.append(40, hosts(41, 42))
    journal.take_snapshot(now=NOON + timedelta(days=1))
    while journal.compact():
        pass
    journal.close()
    return source


def open_target(tmp_path: Path) -> AbstractContextManager[SqliteTarget]:
    return opened_target(tmp_path / "target")


def loaded(tmp_path: Path) -> SqliteJournal:
    journal = SqliteJournal(tmp_path / "target")
    journal.load()
    return journal


def test_a_copy_holds_every_entry(source: Path, tmp_path: Path) -> None:
    """It can be used like the one that it was made from."""
    with opened_source(source) as from_, open_target(tmp_path) as to:
        report = transfer(from_, to)

    assert (report.first_revision, report.last_revision, report.copied) == (1, 40, 40)
    journal = loaded(tmp_path)
    assert list(journal.entries()) == ENTRIES
    assert_same(journal.load().fleet, folded(ENTRIES))
    journal.append(40, hosts(41, 41))
    journal.close()


def test_a_copy_goes_on_where_it_ended(source: Path, tmp_path: Path) -> None:
    """After a crash, and after more was appended to the source."""
    with opened_source(source) as from_, open_target(tmp_path) as to:
        to.append(ENTRIES[:7])
    with opened_source(source) as from_, open_target(tmp_path) as to:
        assert transfer(from_, to).copied == 33
    with opened_source(source) as from_, open_target(tmp_path) as to:
        assert transfer(from_, to).copied == 0
    journal = SqliteJournal(source)
    journal.load()
    journal.append(40, hosts(41, 41))
    journal.close()
    with opened_source(source) as from_, open_target(tmp_path) as to:
        assert transfer(from_, to).copied == 1
    again = loaded(tmp_path)
    assert list(again.entries()) == [*ENTRIES, *hosts(41, 41)]
    again.close()


def test_a_journal_that_holds_something_else_is_refused(source: Path, tmp_path: Path) -> None:
    """Nothing of it is changed."""
    with open_target(tmp_path) as to:
        to.append(hosts(1, 3))
    with opened_source(source) as from_, open_target(tmp_path) as to, pytest.raises(Refused, match="holds another"):
        transfer(from_, to)
    with opened_source(tmp_path / "target") as from_, opened_target(source) as to, pytest.raises(Refused):
        transfer(from_, to)  # which holds more than the source

    journal = loaded(tmp_path)
    assert list(journal.entries()) == hosts(1, 3)
    journal.close()


@pytest.mark.end_to_end
def test_a_journal_without_its_first_entries_is_copied_with_a_snapshot(compacted: Path, tmp_path: Path) -> None:
    """The fleet is the same, and so is what is kept."""
    with opened_source(compacted) as from_, open_target(tmp_path) as to:
        report = transfer(from_, to)
        assert transfer(from_, to).copied == 0

    assert report.first_revision > 1
    original = SqliteJournal(compacted)
    journal = loaded(tmp_path)
    assert_same(journal.load().fleet, original.load().fleet)
    assert list(journal.entries()) == list(original.entries())
    journal.close()
    original.close()


def test_a_directory_in_use_is_no_target(source: Path) -> None:
    """A service would not notice what is written there."""
    journal = SqliteJournal(source)
    journal.load()
    with pytest.raises(InUse), opened_target(source):
        pass
    journal.close()


def exported(directory: Path) -> bytes:
    file = io.BytesIO()
    with opened_source(directory) as source:
        export_journal(source, file)
    return file.getvalue()


def import_into(tmp_path: Path, text: bytes) -> None:
    with open_target(tmp_path) as to:
        transfer(ExportedJournal(io.BytesIO(text), "file"), to)


@pytest.mark.end_to_end
def test_an_export_is_imported_whole(compacted: Path, tmp_path: Path) -> None:
    """With the snapshot from which its entries go on."""
    import_into(tmp_path, exported(compacted))

    original, journal = SqliteJournal(compacted), loaded(tmp_path)
    assert_same(journal.load().fleet, original.load().fleet)
    journal.close()
    original.close()


def test_a_line_of_an_export_is_its_checksum_and_json(source: Path) -> None:
    """Other programs can read it."""
    lines = exported(source).splitlines()

    assert lines[0].split(b" ", 1)[1].startswith(b'{"forewarn_journal":1,"format":1,"first_revision":1,')
    assert lines[2].split(b" ", 1)[1].startswith(b'{"revision":2,')
    assert len(lines) == 42


def test_an_export_that_ends_early_is_noticed_and_continued(source: Path, tmp_path: Path) -> None:
    """What came is kept; the whole file adds the rest."""
    text = exported(source)
    for size in (len(text) // 2, len(text) - 1, text.rindex(b"\n", 0, -1) + 1):
        with pytest.raises(DamagedJournal, match="before the journal does"):
            import_into(tmp_path, text[:size])
    import_into(tmp_path, text)
    journal = loaded(tmp_path)
    assert list(journal.entries()) == ENTRIES
    journal.close()


def test_a_changed_line_is_refused(source: Path, tmp_path: Path) -> None:
    """Nothing of it and nothing behind it is imported."""
    text = exported(source)
    lines = text.splitlines(keepends=True)
    for wrong in (
        text.replace(b"host-20", b"host-99"),
        b"".join([*lines[:9], *lines[10:]]),
        text + lines[3],
        b"".join([lines[0], lines[2], lines[1], *lines[3:]]),
    ):
        with pytest.raises(DamagedJournal, match="is damaged in line"):
            import_into(tmp_path, wrong)


def test_what_is_no_export_is_refused() -> None:
    """So is one of a newer release."""
    with pytest.raises(BadInput):
        ExportedJournal(io.BytesIO(b"something else\n"), "file")
    with pytest.raises(BadInput, match="not a journal that"):
        ExportedJournal(io.BytesIO(b"%08x {}\n" % crc32(b"{}")), "file")
    text = b'{"forewarn_journal":99,"format":1}'
    with pytest.raises(NewerJournal):
        ExportedJournal(io.BytesIO(b"%08x %b\n" % (crc32(text), text)), "file")
