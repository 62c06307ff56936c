"""Faults of what is kept: journals, the drivers' records."""

from planted.fault import Fault

_FOLD = "The fleet is the fold of the journal, also after any crash."
_WRITER = "One writer: an append names the revision it expects, so an outdated writer cannot append."
_ONCE = "No impact is knowingly carried out twice."
_BEFORE = "Each step of a driver is durable before it is carried out."
_JOURNAL = "tests/journal/sqlite/test_journal.py"

FAULTS = (
    Fault(
        name="An outdated writer appends to the SQLite journal",
        promise=_WRITER,
        file="src/forewarn/journal/sqlite/journal.py",
        old="            if (last or 0) != expected_revision:\n",
        new="            if (last or 0) < expected_revision:\n",
        found_by=(_JOURNAL,),
    ),
    Fault(
        name="An outdated writer appends to the journal in memory",
        promise=_WRITER,
        file="src/forewarn/journal/memory.py",
        old="        if expected_revision != len(self._entries):\n",
        new="        if expected_revision > len(self._entries):\n",
        found_by=("tests/journal/test_memory.py",),
    ),
    Fault(
        name="A commit is acknowledged before it is on the disk",
        promise=_FOLD,
        file="src/forewarn/journal/sqlite/database.py",
        old='connection.execute("PRAGMA synchronous = FULL")',
        new='connection.execute("PRAGMA synchronous = NORMAL")',
        found_by=(_JOURNAL,),
    ),
    Fault(
        name="The journal's log is not synced before its commits are shown",
        promise="After a crash, a load syncs the journal's log before it shows the commits in it.",
        file="src/forewarn/journal/sqlite/journal.py",
        old="                database.sync_log(self._path)\n",
        new="",
        found_by=(_JOURNAL,),
    ),
    Fault(
        name="A damaged entry is read",
        promise=_FOLD,
        file="src/forewarn/journal/codec.py",
        old="if crc32(body, revision & 0xFFFFFFFF) == checksum and (decoded := decode(body)).revision == revision:",
        new="if (decoded := decode(body)).revision == revision:",
        found_by=("tests/journal/test_codec.py",),
    ),
    Fault(
        name="A missing entry is passed over",
        promise=_FOLD,
        file="src/forewarn/journal/codec.py",
        old="        if revision != after:\n",
        new="        if revision < after:\n",
        found_by=("tests/journal/test_codec.py", "tests/journal/sqlite/test_damage.py"),
    ),
    Fault(
        name="A snapshot of another journal is loaded",
        promise=_FOLD,
        file="src/forewarn/journal/sqlite/recovery.py",
        old="if header.revision != revision or entry != (header.checksum,):",
        new="if header.revision != revision:",
        found_by=("tests/journal/sqlite/test_recovery.py", "tests/journal/sqlite/test_damage.py"),
    ),
    Fault(
        name="A journal that was replaced under the service is written",
        promise="A journal that is removed or replaced under a running service is not written any more.",
        file="src/forewarn/journal/sqlite/journal.py",
        old="        if self._files != database.identity(self._path):\n",
        new="        if not self._path.exists():\n",
        found_by=(_JOURNAL, "tests/journal/sqlite/test_damage.py", "tests/journal/sqlite/test_errors.py"),
    ),
    Fault(
        name="Entries are deleted that no snapshot holds",
        promise=_FOLD,
        file="src/forewarn/journal/sqlite/journal.py",
        old="(SELECT revision FROM entries WHERE revision <= ? ORDER BY",
        new="(SELECT revision FROM entries WHERE revision <= ? + 1 ORDER BY",
        found_by=(_JOURNAL, "tests/journal/sqlite/test_snapshot_process.py"),
    ),
    Fault(
        name="A driver's step is carried out before it is on the disk",
        promise=_BEFORE,
        file="src/forewarn/drivers/progress_store.py",
        old="        os.fsync(self._descriptor)\n",
        new="",
        found_by=("tests/drivers/test_progress_store.py",),
    ),
    Fault(
        name="Work that has ended is done again",
        promise=_ONCE,
        file="src/forewarn/drivers/executor.py",
        old="                if progress_file.ending:\n                    return progress_file.ending\n",
        new="",
        found_by=("tests/drivers/test_executor.py",),
    ),
    Fault(
        name="Work that a crash cut off is begun anew",
        promise=_ONCE,
        file="src/forewarn/drivers/executor.py",
        old="is_resumed = progress_file.begun is not None",
        new="is_resumed = False",
        found_by=("tests/drivers/test_executor.py",),
    ),
    Fault(
        name="A program that was cut off counts as not begun",
        promise=_ONCE,
        file="src/forewarn/drivers/run_record.py",
        old="        return RunLost()\n",
        new="        return None\n",
        found_by=("tests/drivers/test_run_record.py",),
    ),
    Fault(
        name="The record of an unfinished event is deleted",
        promise="Drivers keep their records of unfinished and recent events.",
        file="src/forewarn/drivers/run_record.py",
        old="or self._has_ended(content)):",
        new="or content):",
        found_by=("tests/drivers/test_run_record.py", "tests/drivers/test_progress_store.py"),
    ),
    Fault(
        name="Two processes work on one event at the same time",
        promise=_ONCE,
        file="src/forewarn/drivers/run_record.py",
        old="fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)",
        new="fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)",
        found_by=("tests/drivers/test_run_record.py", "tests/drivers/test_progress_store.py"),
    ),
)
