"""Sessions: passwords and certificates as with every client of PostgreSQL; what cannot be used is refused."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from time import monotonic

import psycopg
import pytest
from psycopg import OperationalError

from forewarn.core.errors import BadInput, ForewarnError
from forewarn.journal.port import JournalFailed
from forewarn.journal.postgres import leases, sessions
from forewarn.journal.postgres.address import DatabaseAddress
from forewarn.journal.postgres.connecting import HEAD_START
from forewarn.journal.postgres.journal import PostgresJournal
from forewarn.journal.postgres.schema import migrate
from forewarn.testing.journal_contract import hosts
from forewarn.testing.shared_journal_contract import lead, report
from tests.cleaning import closed_on_failure
from tests.journal.postgres.journals import execute, leading
from tests.ports import free_port
from tests.postgresql import GUARDED, PostgresServer

pytestmark = pytest.mark.end_to_end

PASSWORD = "s3cret-word"  # noqa: S105 - of a server that only this test knows


@pytest.fixture
def guarded(postgresql: PostgresServer, database: str) -> Iterator[str]:
    """Yield the location of a journal for a role with a password, which has all rights."""
    postgresql.execute(f"CREATE ROLE {GUARDED} LOGIN PASSWORD '{PASSWORD}'")
    execute(database, f"GRANT ALL ON SCHEMA forewarn TO {GUARDED}")
    execute(database, f"GRANT ALL ON ALL TABLES IN SCHEMA forewarn TO {GUARDED}")
    yield database.replace("postgres@", f"{GUARDED}@")
    execute(database, f"DROP OWNED BY {GUARDED}")
    postgresql.execute(f"DROP ROLE {GUARDED}")


def use(location: str) -> None:
    """Load, append and close."""
    journal = PostgresJournal(DatabaseAddress.parse(location))
    try:
        journal.load()
        lead(journal)
        journal.append(0, hosts(1, 1))
    finally:
        journal.close()


def refusal(location: str) -> str:
    """Return why a journal cannot be loaded."""
    journal = PostgresJournal(DatabaseAddress.parse(location))
    with pytest.raises(ForewarnError) as caught:
        journal.load()
    journal.close()
    return str(caught.value)


@pytest.fixture
def silent_port() -> Iterator[int]:
    """Yield a port of 127.0.0.1 that answers nothing: the kernel drops what comes to a full backlog."""
    with ExitStack() as opened:
        server = opened.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        port = server.getsockname()[1]
        for _ in range(3):
            client = opened.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(("127.0.0.1", port))
        yield port


def test_the_host_that_accepted_writes_is_tried_first(postgresql: PostgresServer, silent_port: int) -> None:
    """Only the first session waits for a host that does not answer, and not until it is given up."""
    address = DatabaseAddress.parse(
        f"//postgres@127.0.0.1:{silent_port},127.0.0.1:{postgresql.port}/postgres?connect_timeout=20"
    )
    took = []
    for _ in range(3):
        began = monotonic()
        sessions.connect(address).close()
        took.append(monotonic() - began)

    assert HEAD_START <= took[0] < 10
    assert min(took[1:]) < HEAD_START


def test_the_password_comes_from_the_environment(guarded: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """PGPASSWORD, as with every client."""
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    use(guarded)


def test_the_password_comes_from_a_file(guarded: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """PGPASSFILE or ~/.pgpass, for its owner alone."""
    file = tmp_path / "pgpass"
    file.write_text(f"*:*:*:{GUARDED}:{PASSWORD}\n")
    file.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(file))
    use(guarded)


def test_the_password_comes_from_a_service(
    guarded: str, postgresql: PostgresServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """So does the whole address."""
    file = tmp_path / "services"
    name = guarded.rpartition("/")[2]
    file.write_text(
        f"[journal]\nhost=127.0.0.1\nport={postgresql.port}\ndbname={name}\nuser={GUARDED}\npassword={PASSWORD}\n"
    )
    monkeypatch.setenv("PGSERVICEFILE", str(file))
    use("service=journal")


@pytest.mark.parametrize("password", ["", "wrong-word"])
def test_a_wrong_password_is_refused_and_not_repeated(
    guarded: str, monkeypatch: pytest.MonkeyPatch, password: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The message names the places where it is looked for."""
    caplog.set_level("DEBUG")
    if password:
        monkeypatch.setenv("PGPASSWORD", password)
    said = refusal(guarded)

    assert "does not accept the password: set PGPASSWORD, or mend .pgpass or the service file" in said
    assert not password or password not in said + caplog.text


def test_a_database_that_does_not_exist_is_refused(postgresql: PostgresServer) -> None:
    """The message names the command that creates it."""
    said = refusal(postgresql.location("nowhere"))
    assert "/nowhere does not exist: create it with createdb, or name another database" in said


def test_a_server_that_does_not_run_is_named() -> None:
    """All of them, where there are several."""
    said = refusal("//127.0.0.1:1,127.0.0.1:2/journal")
    assert said.startswith("postgresql://127.0.0.1:1,127.0.0.1:2/journal cannot be reached (")
    assert said.endswith("check the address, and that the server runs")


def test_a_role_without_rights_is_refused(postgresql: PostgresServer, database: str, empty_database: str) -> None:
    """Using the journal, and creating it."""
    postgresql.execute("CREATE ROLE stranger LOGIN")
    try:
        assert "lacks rights for this role" in refusal(database.replace("postgres@", "stranger@"))
        address = DatabaseAddress.parse(postgresql.location(empty_database, "stranger"))
        with pytest.raises(JournalFailed, match="after GRANT CREATE ON DATABASE journal_"):
            migrate(address)
        execute(database, "GRANT USAGE ON SCHEMA forewarn TO stranger")
        execute(database, "GRANT SELECT ON ALL TABLES IN SCHEMA forewarn TO stranger")
        journal = PostgresJournal(DatabaseAddress.parse(database.replace("postgres@", "stranger@")))
        with pytest.raises(JournalFailed, match="lacks rights for this role"):
            lead(journal)
        with pytest.raises(
            JournalFailed, match=r"lacks rights for this role: .* \(tables bulk_parts, .*, subjects\)"
        ):
            journal.cluster_id()
        journal.close()
    finally:
        execute(database, "DROP OWNED BY stranger")
        postgresql.execute("DROP ROLE stranger")


def test_an_old_server_is_refused(database: str) -> None:
    """The message says what is needed."""
    with pytest.raises(BadInput, match=r"and Forewarn needs 99 or newer: upgrade the server$"):
        sessions.connect(DatabaseAddress.parse(database), least_version=99)


def test_a_service_does_not_start_with_an_old_server(database: str, tmp_path: Path) -> None:
    """One sentence, and the exit code of wrong input."""
    program = (
        "from forewarn.journal.postgres import sessions; sessions.connect.__kwdefaults__['least_version'] = 99;"
        "from forewarn.__main__ import main; main()"
    )
    arguments = ["serve", "--journal", f"postgresql:{database}", "--data", str(tmp_path)]
    arguments += ["--metadata", f"127.0.0.1:{free_port()}", "--control", "off"]
    ran = subprocess.run(
        [sys.executable, "-c", program, *arguments], check=False, capture_output=True, text=True, timeout=60
    )

    assert ran.returncode == 2
    assert ran.stderr.splitlines()[-1].endswith("and Forewarn needs 99 or newer: upgrade the server")
    assert "Traceback" not in ran.stderr


def test_a_database_that_is_not_in_unicode_is_refused(postgresql: PostgresServer) -> None:
    """The journal holds names of every script."""
    postgresql.execute("CREATE DATABASE plain TEMPLATE template0 ENCODING 'SQL_ASCII' LOCALE 'C'")
    try:
        with pytest.raises(BadInput, match="createdb --template template0 --encoding UTF8 plain"):
            migrate(DatabaseAddress.parse(postgresql.location("plain")))
    finally:
        postgresql.drop_database("plain")


@pytest.mark.parametrize("level", ["off", "local"])
def test_commits_are_durable_whatever_the_role_has_set(postgresql: PostgresServer, database: str, level: str) -> None:
    """A session of ours waits for the disk and the standby although ``synchronous_commit`` says less for others."""
    name = database.rpartition("/")[2]
    postgresql.execute(f"ALTER DATABASE {name} SET synchronous_commit = {level}")
    with leading(database) as journal:
        journal.append(0, hosts(1, 1))
        connection = journal._writer._connection
        assert connection is not None
        assert connection.execute("SHOW synchronous_commit").fetchone() == ("on",)


WAITING = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


def until_none_waits(database: str) -> None:
    until = monotonic() + 10
    while execute(database, WAITING):
        assert monotonic() < until, "a statement that was given up waits for a lock"


def test_heartbeats_that_were_given_up_end_in_the_server(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it does not look for clients: they neither pile up nor take the lease when what they wait for ends.

    That may be a commit which waits for a standby that is gone.
    """
    monkeypatch.setattr(leases, "_LIMIT", 0.3)
    name = database.rpartition("/")[2]
    execute(database, f"ALTER DATABASE {name} SET client_connection_check_interval = '1h'")
    with closing(PostgresJournal(DatabaseAddress.parse(database))) as journal, locked_head(database):
        for _ in range(3):
            with pytest.raises(JournalFailed):
                journal.heartbeat(report(), 0.1)
        until_none_waits(database)


def test_a_statement_that_was_given_up_ends_in_the_server(database: str) -> None:
    """Whatever the server has as its default: its client is gone, and nobody waits for it."""
    with locked_head(database), sessions.connect(DatabaseAddress.parse(database)) as connection:
        connection.limit = 0.1
        with pytest.raises(OperationalError):
            connection.run("fence", term=0)
        assert execute(database, WAITING)
        until_none_waits(database)


@contextmanager
def locked_head(database: str) -> Iterator[None]:
    """Let others wait for the head."""
    with psycopg.connect(DatabaseAddress.parse(database).conninfo) as connection:
        connection.execute("SELECT FROM forewarn.head FOR UPDATE")
        yield


@pytest.fixture
def encrypted(tmp_path: Path) -> Iterator[PostgresServer]:
    """Yield a server with TLS; its certificate is for localhost, and signed by itself."""
    server = PostgresServer(ssl="on")
    with closed_on_failure(server.close):
        server.initialize()
        key, certificate = server.data / "server.key", server.data / "server.crt"
        make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
        make += ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)]
        subprocess.run(make, check=True, capture_output=True)
        owner = server.directory.stat()
        for file in (key, certificate):
            os.chown(file, owner.st_uid, owner.st_gid)
        key.chmod(0o600)
        (tmp_path / "authority.pem").write_bytes(certificate.read_bytes())
        server.start()
        server.execute("CREATE DATABASE journal")
        migrate(DatabaseAddress.parse(server.location("journal")))
    yield server
    server.close()


def test_tls_is_as_in_every_client(encrypted: PostgresServer, tmp_path: Path) -> None:
    """The certificate is verified where that is asked for, and another one is refused."""
    place = f"//postgres@localhost:{encrypted.port}/journal?sslmode=verify-full&sslrootcert="
    use(f"{place}{tmp_path}/authority.pem")

    wrong = refusal(
        f"//postgres@127.0.0.1:{encrypted.port}/journal?sslmode=verify-full&sslrootcert={tmp_path}/authority.pem"
    )
    assert "certificate" in wrong
    assert "certificate" in refusal(f"{place}/nowhere.pem")
