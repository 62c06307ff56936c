"""A snapshot file holds the fleet it was written from, or is refused."""

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from forewarn.core.fact import FORMAT
from forewarn.core.facts import FleetChanged
from forewarn.core.fleet import Fleet
from forewarn.core.model import Host
from forewarn.journal.port import DamagedJournal, NewerJournal
from forewarn.journal.sqlite import snapshot_files
from forewarn.testing.journal_contract import assert_same, entry, folded, hosts, rack

HEADER = snapshot_files.SnapshotHeader(FORMAT, 5, 77)
FLEET = folded([rack(1), *hosts(2, 5)])


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """Return the path of a published snapshot."""
    return snapshot_files.publish(snapshot_files.write(tmp_path, HEADER, FLEET.parts()))


def test_the_fleet_comes_back(written: Path) -> None:
    """Header and fleet are as they were."""
    assert written.name == "snapshot-5"
    assert snapshot_files.read_header(written) == snapshot_files.check(written) == HEADER
    assert_same(Fleet.restore(snapshot_files.read_chunks(written)), FLEET)
    assert snapshot_files.holds(written, FLEET)


def test_another_fleet_is_told_apart(written: Path) -> None:
    """A snapshot is compared with the whole fleet, not with a part of it."""
    other = folded([rack(1), *hosts(2, 5)])
    other.enter(entry(6, FleetChanged(hosts=(Host("other"),))))

    assert not snapshot_files.holds(written, other)
    assert not snapshot_files.holds(written, Fleet())


def test_every_cut_is_noticed(written: Path) -> None:
    """A snapshot that ends too early is damaged, wherever it ends."""
    content = written.read_bytes()
    for length in range(len(content)):
        written.write_bytes(content[:length])
        with pytest.raises(DamagedJournal):
            snapshot_files.check(written)


def test_every_changed_byte_is_noticed(written: Path) -> None:
    """No byte can change unseen, and nothing can follow the end."""
    content = written.read_bytes()
    for place in range(len(content)):
        written.write_bytes(content[:place] + bytes([content[place] ^ 0x10]) + content[place + 1 :])
        with pytest.raises(DamagedJournal):
            snapshot_files.check(written)
    written.write_bytes(content + b"\0")
    with pytest.raises(DamagedJournal):
        snapshot_files.check(written)


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    """What a later release wrote is not guessed at."""
    newer = snapshot_files.write(tmp_path, replace(HEADER, format=FORMAT + 1), FLEET.parts())

    with pytest.raises(NewerJournal):
        list(snapshot_files.read_chunks(newer))


def test_snapshots_are_listed_newest_first_and_nothing_else_is(tmp_path: Path) -> None:
    """Revisions count as numbers; unfinished files and other names do not count at all."""
    for name in ("snapshot-5", "snapshot-10", "snapshot-9", "snapshot-11.partial", "snapshot-", "snapshot-x", "lock"):
        (tmp_path / name).touch()

    assert [revision for revision, _ in snapshot_files.list_snapshots(tmp_path)] == [10, 9, 5]


def test_an_unpublished_snapshot_is_removed_later(written: Path, tmp_path: Path) -> None:
    """What a crash left unfinished goes; what is published stays."""
    snapshot_files.write(tmp_path, replace(HEADER, revision=6), FLEET.parts())

    snapshot_files.remove_partial(tmp_path)

    assert list(tmp_path.iterdir()) == [written]


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    """When the fleet cannot be written to its end, the file goes."""

    def parts() -> object:
        yield from FLEET.parts()
        raise OSError(os.EX_IOERR, "the disk is gone")

    with pytest.raises(OSError, match="gone"):
        snapshot_files.write(tmp_path, HEADER, parts())  # type: ignore[arg-type]

    assert list(tmp_path.iterdir()) == []
