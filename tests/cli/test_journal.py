"""``forewarn journal``: databases are made ready, and journals copied, exported and imported."""

import json
from pathlib import Path

import pytest

from forewarn.journal.sqlite.journal import SqliteJournal
from forewarn.testing.journal_contract import hosts
from tests.cli.conftest import Forewarn, Ran
from tests.postgresql import PostgresServer, database, empty_database, postgresql

__all__ = ["database", "empty_database", "postgresql"]
pytestmark = pytest.mark.end_to_end


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Return a directory with a journal of nine entries."""
    journal = SqliteJournal(tmp_path / "site")
    journal.load()
    journal.append(0, hosts(1, 9))
    journal.close()
    return tmp_path / "site"


def outcome(ran: Ran) -> tuple[int, str, str]:
    return ran.code, ran.out, ran.err


def test_a_database_is_made_ready(forewarn: Forewarn, postgresql: PostgresServer, empty_database: str) -> None:
    """Once; again it changes nothing."""
    place = f"postgresql:{postgresql.location(empty_database)}"
    code, out, _ = outcome(forewarn("journal", "migrate", "--journal", place))
    assert code == 0
    assert out.endswith(f"/{empty_database} has a new journal, format 1\n")

    code, out, _ = outcome(forewarn("journal", "migrate", "--journal", place))
    assert (code, out.endswith("has format 1 already\n")) == (0, True)


def test_files_need_no_tables(forewarn: Forewarn) -> None:
    """The command is for PostgreSQL."""
    code, _, error = outcome(forewarn("journal", "migrate", "--journal", "sqlite:"))
    assert code == 2
    assert "needs no tables" in error


def test_a_journal_is_copied(forewarn: Forewarn, directory: Path, database: str) -> None:
    """Both ways; what was copied is told."""
    code, out, _ = outcome(forewarn("journal", "copy", f"sqlite:{directory}", f"postgresql:{database}"))
    assert code == 0
    assert "holds revision 1 to 9 of sqlite:" in out
    assert out.endswith("9 entries were copied, and all were compared\n")

    code, out, _ = outcome(forewarn("journal", "copy", f"postgresql:{database}", f"sqlite:{directory}2", "--json"))
    assert (code, json.loads(out)["copied"]) == (0, 9)


def test_a_journal_is_exported_and_imported(
    forewarn: Forewarn, directory: Path, database: str, tmp_path: Path
) -> None:
    """Through a file, from files into a database."""
    file = str(tmp_path / "journal.lines")
    code, _, result = outcome(forewarn("journal", "export", file, "--journal", f"sqlite:{directory}"))
    assert Path(file).stat().st_mode & 0o077 == 0
    assert (code, "exported revision 1 to 9" in result) == (0, True)

    code, out, _ = outcome(forewarn("journal", "import", file, "--journal", f"postgresql:{database}"))
    assert code == 0
    assert f"holds revision 1 to 9 of {file}; 9 entries were copied" in out


def test_an_export_says_as_json_what_it_holds(forewarn: Forewarn, directory: Path, tmp_path: Path) -> None:
    """On the error output: the output may be the export itself."""
    place = f"sqlite:{directory}"
    _, out, result = outcome(forewarn("journal", "export", str(tmp_path / "lines"), "--journal", place, "--json"))

    assert out == ""
    assert json.loads(result) == {"source": place, "first_revision": 1, "last_revision": 9}


@pytest.mark.parametrize("command", [("backup", "file"), ("journal", "verify")])
def test_commands_for_files_name_the_tools_of_a_database(
    forewarn: Forewarn, database: str, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL has its own."""
    monkeypatch.setenv("FOREWARN_JOURNAL", f"postgresql:{database}")
    code, _, error = outcome(forewarn(*command))
    assert code == 2
    assert "pg_dump" in error


def test_doctor_looks_at_the_database(
    forewarn: Forewarn, database: str, postgresql: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It warns of what a failover or a power failure would lose, and of rights."""
    monkeypatch.setenv("FOREWARN_JOURNAL", f"postgresql:{database}")
    _, out, _ = outcome(forewarn("doctor", "--json"))
    said = [each["said"] for each in json.loads(out)["findings"] if each["what"] == "journal"]
    assert any("has no synchronous standby" in each for each in said)
    assert any("fsync is off" in each for each in said)
    postgresql.execute("CREATE ROLE reader LOGIN")
    try:
        name = database.rpartition("/")[2]
        for statement in ("USAGE ON SCHEMA forewarn", "SELECT ON ALL TABLES IN SCHEMA forewarn"):
            postgresql.execute(f"GRANT {statement} TO reader", name)
        monkeypatch.setenv("FOREWARN_JOURNAL", f"postgresql:{database}".replace("postgres@", "reader@"))
        _, out, _ = outcome(forewarn("doctor", "--json"))
        assert "role reader lacks rights in" in out
        assert "role reader does not own the tables" in out
    finally:
        postgresql.execute("DROP OWNED BY reader", name)
        postgresql.execute("DROP ROLE reader")
