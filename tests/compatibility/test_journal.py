"""Journals and snapshots that earlier versions wrote: read as they were meant, and byte for byte the same again."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from forewarn.core.errors import Refused
from forewarn.core.facts import Announced, Entry, StartedAtOnce
from forewarn.core.fleet import Fleet
from forewarn.journal.codec import pack, unpack
from forewarn.journal.sqlite import snapshot_files
from forewarn.journal.sqlite.journal import SqliteJournal
from forewarn.journal.sqlite.snapshot_process import take_snapshot
from forewarn.journal.sqlite.verification import verify
from tests.compatibility import views
from tests.compatibility.comparing import differences, stored
from tests.compatibility.story import CAUSES, OPERATIONS, Story

_CAUSES = {
    "started": "because",
    "canceled": "because",
    "failed": "reason",
    "completed": "detail",
    "vm-removed": "because",
    "vm-deallocated": "because",
}
"""The field in which each fact says why it happened."""


def rows(data: Path) -> list[tuple[int, int, bytes]]:
    with closing(sqlite3.connect(f"file:{data}/journal.sqlite3?mode=ro&immutable=1", uri=True)) as connection:
        return connection.execute("SELECT revision, checksum, body FROM entries ORDER BY revision").fetchall()


def entries(data: Path) -> Iterator[Entry]:
    return unpack(rows(data), data, 0)


def written_facts(data: Path) -> list[dict[str, Any]]:
    """Return the facts as they stand in the file, whatever is made of them today."""
    return [fact for _, _, body in rows(data) for fact in msgspec.json.decode(body)["facts"]]


def taken(data: Path) -> Path:
    """Return the snapshot."""
    ((_, path),) = snapshot_files.list_snapshots(data)
    return path


def test_every_entry_is_written_again_as_it_was(data: Path) -> None:
    """An entry that is decoded and encoded has the same bytes and the same checksum."""
    assert pack(entries(data)) == rows(data)


def test_a_journal_is_loaded_with_its_snapshot(data: Path, recorded: Path) -> None:
    """The snapshot and the entries after it make the fleet that they made then, and nothing is warned of."""
    with closing(SqliteJournal(data)) as journal:
        found = journal.load()

    assert found.warnings == ()
    assert found.revision == len(rows(data)) > int(taken(data).name.removeprefix("snapshot-"))
    assert differences(stored(recorded / "fleet.json"), views.parts(found.fleet)) == []


def test_a_journal_is_loaded_without_its_snapshot(data: Path, recorded: Path) -> None:
    """The fold of all entries is the same fleet."""
    taken(data).unlink()
    with closing(SqliteJournal(data)) as journal:
        fleet = journal.load().fleet

    assert differences(stored(recorded / "fleet.json"), views.parts(fleet)) == []


def test_a_snapshot_is_the_fold_of_the_entries_before_it(data: Path, recorded: Path) -> None:
    """Its parts are those that the version recorded beside it, and those of the fleet at that revision."""
    fleet, path = Fleet(), taken(data)
    for entry in entries(data):
        if entry.revision <= snapshot_files.read_header(path).revision:
            fleet.enter(entry)

    assert snapshot_files.holds(path, fleet)
    assert differences(stored(recorded / "snapshot.json"), views.parts(fleet)) == []


def test_a_snapshot_is_written_again_as_it_was(data: Path, tmp_path: Path) -> None:
    """Header and parts that are decoded and encoded give the same file."""
    path = taken(data)
    again = snapshot_files.write(tmp_path, snapshot_files.read_header(path), snapshot_files.read_chunks(path))

    assert again.read_bytes() == path.read_bytes()


def test_a_snapshot_that_is_taken_of_the_same_entries_is_the_same(data: Path) -> None:
    """A fold of the recorded entries up to there writes the same file, byte for byte."""
    path = taken(data)
    content = path.read_bytes()
    path.unlink()
    with closing(sqlite3.connect(data / "journal.sqlite3")) as connection, connection:
        connection.execute("DELETE FROM entries WHERE revision > ?", (path.name.removeprefix("snapshot-"),))
    take_snapshot(data, None)

    assert path.read_bytes() == content


def test_a_journal_is_verified(data: Path) -> None:
    """Entries, snapshot and index are found whole."""
    report = verify(data)

    assert report.problems == ()
    assert (report.entries, report.snapshots) == (len(rows(data)), 1)


def test_a_journal_is_verified_after_more_was_written(data: Path, tmp_path: Path) -> None:
    """An append, a snapshot and the index go on where the version stopped."""
    with views.opened(tmp_path, data) as harness:
        before = harness.node.replica.revision
        harness.enrol("batch", "batch_0")
    take_snapshot(data, None)

    report = verify(data)
    assert report.problems == ()
    assert (report.last_revision, report.indexed, report.snapshots) == (before + 1, before + 1, 2)


@pytest.mark.parametrize(
    ("sentence", "refusal"),
    [
        ("ada moves lone to h5 by driver", "has an unfinished move"),
        ("ada records lone on h5", r"is under event \S+ \(vm move\)"),
        ("ada restarts queue-0", "has an unfinished restart"),
        ("ada deletes pool_9", "has an unfinished delete"),
        ("ada freezes host h5", "has an unfinished freeze"),
        ("ada drains host h1", "has an unfinished drain"),
        ("ada scales pool in by 2", "VMs that are not being deleted already"),
    ],
)
def test_an_unfinished_event_is_known_by_its_operation(
    data: Path, tmp_path: Path, sentence: str, refusal: str
) -> None:
    """The rules take an event that the version announced for what it was."""
    with views.opened(tmp_path, data) as harness, pytest.raises(Refused, match=refusal):
        Story(harness).say(sentence)


def test_the_end_of_a_cordon_cancels_the_drain(data: Path, tmp_path: Path) -> None:
    """Events that a drain had announced in the version end with it."""
    with views.opened(tmp_path, data) as harness:
        story = Story(harness)
        assert len(story.unfinished("host drain", "db-0")) == 1
        story.say("ada uncordons host h1")

        assert story.unfinished("host drain", "db-0") == []


def test_every_fact_is_recorded_with_every_field(data: Path, recorded: Path) -> None:
    """What the other tests here compare leaves out no kind of fact of that version, and no field of any."""
    found: dict[str, set[str]] = {}
    for fact in written_facts(data):
        found.setdefault(fact.pop("fact"), set()).update(_paths(fact, ""))
    known = stored(recorded / "names.json")["records"]["fact"]

    assert found.keys() == known.keys()
    missing = {tag: {*filter(str.isidentifier, result["fields"])} - found[tag] for tag, result in known.items()}
    assert {tag: fields for tag, fields in missing.items() if fields} == {}


def test_every_field_of_a_snapshot_is_recorded(recorded: Path) -> None:
    """The snapshot holds every kind of record, and events that stand in every way in which one can stand."""
    found = {path for part in stored(recorded / "snapshot.json") for path in _paths(part, "")}
    known = stored(recorded / "names.json")["records"]["snapshot part"][""]["fields"]

    assert {path for path in known if path not in found and not path.startswith("declared_")} == set()


def _paths(value: Any, path: str) -> Iterator[str]:
    """Yield the paths of all fields, spelled as in names.py."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield f"{path}.{key}".lstrip(".")
            yield from _paths(each, f"{path}.{key}".lstrip("."))
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield f"{path}.{number}"  # a record that is written as an array
            yield from _paths(each, f"{path}[]")


def test_every_operation_is_recorded(data: Path) -> None:
    """Each way to announce an event that there was is in the journal."""
    events = [
        fact.event for entry in entries(data) for fact in entry.facts if isinstance(fact, Announced | StartedAtOnce)
    ]

    assert {str(event.operation) for event in events} >= OPERATIONS


@pytest.mark.parametrize("tag", _CAUSES)
def test_every_cause_is_recorded(data: Path, tag: str) -> None:
    """Each sentence in which a fact says why it happened is in the journal, and none that is not known."""
    causes = {fact.get(_CAUSES[tag], "") for fact in written_facts(data) if fact["fact"] == tag}

    assert [each for each in CAUSES[tag] if not any(re.fullmatch(each, cause) for cause in causes)] == []
    assert [cause for cause in causes if not any(re.fullmatch(each, cause) for each in CAUSES[tag])] == []


def test_every_reason_of_an_announcement_is_recorded(data: Path) -> None:
    """Why a VM was chosen, and why no notice was owed."""
    events = {
        tag: [f["event"] for f in written_facts(data) if f["fact"] == tag] for tag in ("announced", "started-at-once")
    }
    reasons = {event.get("reason", "") for each in events.values() for event in each}
    unannounced = {event["without_notice"] for event in events["started-at-once"]}

    assert [each for each in CAUSES["announced"] if not any(re.fullmatch(each, reason) for reason in reasons)] == []
    assert [each for each in CAUSES["started-at-once"] if each not in unannounced] == []
