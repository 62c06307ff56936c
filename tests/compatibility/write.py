"""Writes down what the present version leaves on disk and shows to others: ``python -m tests.compatibility.write``.

Run it once for a version, before anything that it records is renamed or released, and commit the directory that it
makes. A directory that is there is never written again: later versions must open it as it is.
"""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

import forewarn
from forewarn.journal.sqlite import snapshot_files
from forewarn.journal.sqlite.journal import SqliteJournal
from forewarn.journal.sqlite.snapshot_process import take_snapshot
from tests.compatibility import driver_records, memories, names, story, views
from tests.harness import ApiHarness

RECORDED = Path(__file__).parent
"""Holds one directory for each version."""


def write(directory: Path) -> None:
    """Write everything that is kept of a version."""
    directory.mkdir(parents=True)
    journal = directory / "journal"
    _write_journal(journal)
    _write_views(directory)
    _store(directory / "memories.json", memories.write(directory / "agent"))
    _store(directory / "records.json", driver_records.write(directory / "drivers", journal))
    _store(directory / "names.json", names.names())


def _write_journal(directory: Path) -> None:
    with TemporaryDirectory() as place:
        journal = SqliteJournal(directory)
        harness = ApiHarness(Path(place), journal=journal)
        harness.start()
        try:
            harness.open()
            story.tell(harness, lambda: take_snapshot(directory, None))
        finally:
            harness.stop()
            journal.close()


def _write_views(directory: Path) -> None:
    journal = directory / "journal"
    ((_, taken),) = snapshot_files.list_snapshots(journal)
    with TemporaryDirectory() as place, views.opened(Path(place), journal) as harness:
        _store(directory / "fleet.json", views.parts(harness.node.replica.fleet))
        _store(directory / "snapshot.json", msgspec.to_builtins(list(snapshot_files.read_chunks(taken))))
        _store(directory / "answers.json", views.answers(harness))
        _store(directory / "changes.json", views.changes(harness))
        _store(directory / "notices.json", views.notices(harness))
        _store(directory / "metrics.json", views.metrics(harness))
        _store(directory / "documents.json", views.documents(harness.node.replica.fleet))
        _store(directory / "replayed.json", views.replayed(harness))
        _store(directory / "lines.json", views.lines(harness))
    for path in list(journal.iterdir()):
        if path.name not in ("journal.sqlite3", "history.sqlite3", taken.name):
            assert path.suffix != ".sqlite3-wal" or not path.stat().st_size
            path.unlink()


def _store(path: Path, value: Any) -> None:
    """Write a value as JSON, a line for each of its members or for each of theirs."""
    path.write_text(_shown(value, 2) + "\n", encoding="utf-8")


def _shown(value: Any, depth: int) -> str:
    value = msgspec.to_builtins(value)
    if depth and isinstance(value, dict) and value:
        members = (f"{_shown(key, 0)}: {_shown(each, depth - 1)}" for key, each in value.items())
        return "{\n" + ",\n".join(members) + "\n}"
    if depth and isinstance(value, list) and value:
        return "[\n" + ",\n".join(_shown(each, depth - 1) for each in value) + "\n]"
    return msgspec.json.encode(value).decode()


if __name__ == "__main__":
    write(RECORDED / forewarn.__version__)
