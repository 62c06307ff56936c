"""What was acknowledged is there after kill -9 at any instant: appending, folding, compacting."""

import os
import random
import select
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from forewarn.core.facts import FleetChanged
from forewarn.core.model import Host
from forewarn.files import FileLock, InUse
from forewarn.journal.sqlite import database, snapshot_files
from forewarn.journal.sqlite.journal import SqliteJournal
from forewarn.journal.sqlite.snapshot_process import LOCK
from forewarn.journal.sqlite.verification import verify
from forewarn.testing.journal_contract import assert_same, entry, folded, hosts
from tests.journal.sqlite import appender
from tests.journal.sqlite.appender import nth

pytestmark = pytest.mark.end_to_end


def append_until_killed(directory: Path, history: timedelta, seconds: float) -> int:
    """Kill an appender, with all that it started, after so many seconds of appending; return what it acknowledged."""
    command = [sys.executable, appender.__file__, str(directory), str(history.total_seconds())]
    with subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0, start_new_session=True) as process:
        assert process.stdout is not None
        said = process.stdout.read(64)
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and said:
            if select.select([process.stdout], [], [], left)[0]:
                said += process.stdout.read(65536)
        os.killpg(process.pid, signal.SIGKILL)
        said += process.stdout.read()
    wait_for_the_dead(directory)
    return int(said[: said.rindex(b"\n")].split()[-1])


def wait_for_the_dead(directory: Path) -> None:
    """A folding process is nice, also about dying: on a busy machine it takes its time, and holds its locks."""
    lock = FileLock(directory / LOCK)
    while True:
        try:
            lock.acquire()
        except InUse:
            time.sleep(0.01)
        else:
            lock.release()
            return


def assert_no_unused_parts(directory: Path) -> None:
    """Every part belongs to an entry that is kept."""
    with database.reading(directory / database.NAME) as connection:
        bodies = connection.execute("SELECT body FROM entries WHERE body >= x'7b227061' AND body < x'7b227062'")
        spans = [msgspec.json.decode(body.partition(b"\n")[0])["parts"] for (body,) in bodies]
        numbers = [number for (number,) in connection.execute("SELECT number FROM entry_parts ORDER BY number")]
    assert numbers == [number for first, last in spans for number in range(first, last + 1)]
    assert numbers, "the rounds had long entries"


@pytest.mark.parametrize("history", [timedelta(days=400), timedelta(seconds=100)], ids=["kept", "compacted"])
def test_what_was_acknowledged_survives_a_kill(tmp_path: Path, history: timedelta) -> None:
    """Round after round on one directory: nothing acknowledged is lost, and the journal is whole."""
    chance = random.Random(1)
    for _ in range(6):
        acknowledged = append_until_killed(tmp_path, history, chance.uniform(0, 1))

        journal = SqliteJournal(tmp_path)
        recovered = journal.load()
        kept = list(journal.entries())
        assert_no_unused_parts(tmp_path)
        journal.close()

        assert recovered.revision >= acknowledged
        assert recovered.warnings == ()
        assert_same(recovered.fleet, folded([nth(n) for n in range(1, recovered.revision + 1)]))
        assert kept == [nth(n) for n in range(kept[0].revision, recovered.revision + 1)]
        assert kept[0].revision == 1 or history < timedelta(days=1)
        assert verify(tmp_path).problems == ()
    assert snapshot_files.list_snapshots(tmp_path), "the rounds were long enough for snapshots"
    assert kept[0].revision > 1 or history > timedelta(days=1), "and for compaction"


def test_a_killed_fold_leaves_the_journal_as_it_was(tmp_path: Path) -> None:
    """Killed at any instant, the folding process leaves the old snapshots or the new one, never half of one."""
    journal = SqliteJournal(tmp_path)
    journal.load()
    many = tuple(Host(f"rack-{n}") for n in range(20_000))
    everything = [entry(1, FleetChanged(hosts=many)), *hosts(2, 1000)]
    journal.append(0, everything)
    command = [sys.executable, "-m", "forewarn.journal.sqlite.snapshot_process", str(tmp_path), "0"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    chance = random.Random(2)
    for _ in range(12):
        after = len(everything)
        everything += hosts(after + 1, after + 10)
        journal.append(after, everything[after:])
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
            time.sleep(chance.uniform(0, 0.5))
            process.kill()

        recovered = journal.load()

        assert (recovered.revision, recovered.warnings) == (len(everything), ())
        assert_same(recovered.fleet, folded(everything))
        assert journal.history("caller:ada", limit=3) == everything[-3:]
        assert verify(tmp_path).problems == ()
    journal.close()


def test_a_killed_beginning_can_be_begun_again(tmp_path: Path) -> None:
    """Killed while the very first file is made, the next start makes it."""
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from forewarn.journal.sqlite import database\n"
        "print(flush=True)\n"
        "while True:\n"
        "    database.create(Path(sys.argv[1]))\n"
    )
    chance = random.Random(3)
    for number in range(8):
        directory = tmp_path / str(number)
        directory.mkdir()
        command = [sys.executable, "-c", script, str(directory / database.NAME)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(chance.uniform(0, 0.02))
            process.kill()

        journal = SqliteJournal(directory)
        assert journal.load().revision == 0
        journal.append(0, hosts(1, 1))
        journal.close()
