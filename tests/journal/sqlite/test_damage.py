"""Whatever happens to the bytes on disk: a loaded fleet is right, or the journal is refused and left as it is."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from forewarn.core.errors import ForewarnError
from forewarn.journal.snapshot_runner import DEFAULT_HISTORY
from forewarn.journal.sqlite import database, index
from forewarn.journal.sqlite.journal import SqliteJournal
from forewarn.journal.sqlite.snapshot_process import take_snapshot
from forewarn.journal.sqlite.verification import verify
from forewarn.testing.journal_contract import assert_same, entry, folded, hosts, rack

WAL = f"{database.NAME}-wal"
NAMES = (database.NAME, WAL, "snapshot-20", "snapshot-40", index.NAME)
EVERYTHING = [rack(1), *hosts(2, 60)]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield a directory as a kill -9 leaves it: entries in the file, in its WAL, in two snapshots and the index."""
    live, killed = tmp_path_factory.mktemp("live"), tmp_path_factory.mktemp("killed")
    journal = SqliteJournal(live)
    journal.load()
    for after in range(0, 40, 20):
        journal.append(after, EVERYTHING[after : after + 20])
        take_snapshot(live, DEFAULT_HISTORY)
    journal.load()  # closes and opens the file: what was in the WAL is in the file now
    for after in range(40, 60):
        journal.append(after, EVERYTHING[after : after + 1])
    for name in NAMES:
        shutil.copy(live / name, killed / name)
    yield killed
    journal.close()


@dataclass(frozen=True)
class Damage:
    """What happens to one file."""

    name: str
    kind: str
    where: float
    length: int
    byte: int

    def apply(self, directory: Path) -> None:
        path = directory / self.name
        content = bytearray(path.read_bytes())
        start = int(self.where * len(content))
        end = min(start + self.length, len(content))
        match self.kind:
            case "flip" if content:
                content[min(start, len(content) - 1)] ^= self.byte
            case "overwrite":
                content[start:end] = bytes([self.byte]) * (end - start)
            case "cut":
                del content[start:]
            case "cut out":
                del content[start:end]
            case "insert":
                content[start:start] = bytes([self.byte]) * self.length
            case "swap pages":
                page = start // 4096 * 4096
                content[page : page + 4096], content[:4096] = content[:4096], content[page : page + 4096]
            case "remove":
                path.unlink()
                return
        path.write_bytes(content)


KINDS = ["flip", "overwrite", "cut", "cut out", "insert", "swap pages", "remove"]
damages = st.lists(
    st.builds(
        Damage,
        name=st.sampled_from(NAMES),
        kind=st.sampled_from(KINDS),
        where=st.floats(0, 1),
        length=st.integers(1, 9000),
        byte=st.integers(1, 255),
    ),
    min_size=1,
    max_size=3,
)


def check_sentence(text: str) -> None:
    assert text
    assert "\n" not in text


def contents(directory: Path) -> dict[str, bytes]:
    return {name: (directory / name).read_bytes() for name in NAMES if (directory / name).exists()}


def check_untouched(before: dict[str, bytes], directory: Path) -> None:
    """Compare what was there; an empty WAL of SQLite's own making may have come."""
    after = contents(directory)
    assert {name: after[name] for name in before} == before


@pytest.mark.end_to_end
@given(damages)
@example([Damage(WAL, "remove", 0, 1, 1)])
@example([Damage("snapshot-40", "remove", 0, 1, 1), Damage("snapshot-20", "cut", 0.5, 1, 1)])
@example([Damage(database.NAME, "remove", 0, 1, 1)])
def test_a_damaged_directory_is_right_or_refused(whole: Path, done: list[Damage]) -> None:
    """Loading gives the fold of a prefix of what was appended, or one of our errors and untouched files."""
    with TemporaryDirectory() as name:
        directory = Path(name)
        shutil.copytree(whole, directory, dirs_exist_ok=True)
        for each in done:
            if (directory / each.name).exists():
                each.apply(directory)
        before = contents(directory)
        journal = SqliteJournal(directory)
        try:
            recovered = journal.load()
        except ForewarnError as error:
            check_sentence(str(error))
            check_untouched(before, directory)
        else:
            assert_same(recovered.fleet, folded(EVERYTHING[: recovered.revision]))
            if all(each.name != WAL for each in done):
                assert recovered.revision == 60, "only what is in the WAL may be lost"
            if len(done) == 1 and done[0].kind == "flip":
                assert recovered.revision >= 57, "and of that only the end, as in a power failure"
            read_on(journal, recovered.revision)
        finally:
            journal.close()


def read_on(journal: SqliteJournal, revision: int) -> None:
    """Read and append after a load: entries below the snapshot may be found damaged only now."""
    try:
        assert list(journal.entries()) == EVERYTHING[:revision]
        assert journal.history("caller:ada", limit=3) == EVERYTHING[revision - 3 : revision]
        journal.append(revision, [entry(revision + 1, command="another")])
        assert journal.load().revision == revision + 1
    except ForewarnError as error:
        check_sentence(str(error))


@given(damages)
def test_verification_reports_or_refuses(whole: Path, done: list[Damage]) -> None:
    """Verification never fails otherwise than with one of our errors, and changes nothing."""
    with TemporaryDirectory() as name:
        directory = Path(name)
        shutil.copytree(whole, directory, dirs_exist_ok=True)
        for each in done:
            if (directory / each.name).exists():
                each.apply(directory)
        before = contents(directory)
        try:
            report = verify(directory)
        except ForewarnError as error:
            check_sentence(str(error))
        else:
            assert report.ok == (not report.problems)
            for problem in report.problems:
                check_sentence(problem)
        check_untouched(before, directory)
