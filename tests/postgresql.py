"""Debian's PostgreSQL, as child processes of the tests: one server per session, a fresh database per test.

A test module takes ``postgresql``, ``empty_database`` or ``database`` from here, in the ``conftest.py`` of its
directory.
"""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import psycopg
import pytest

from forewarn.journal.postgres.address import DatabaseAddress
from forewarn.journal.postgres.schema import migrate
from tests.cleaning import closed_on_failure
from tests.ports import free_port

_USER = "postgres"
_TEMPLATE = "journal_template"
GUARDED = "guarded"
"""A role that servers ask for a password."""
_BINARIES = Path("/usr/lib/postgresql")
_READY = 30.0
_numbers = count(1)


def binary(name: str) -> str:
    """Return the path of one of the newest installed server's programs."""
    versions = sorted(_BINARIES.glob(f"[0-9]*/bin/{name}"), key=lambda path: int(path.parts[-3]))
    assert versions, f"there is no {name} under {_BINARIES}: install postgresql"
    return str(versions[-1])


def as_postgres(*command: str) -> list[str]:
    """Return a command that runs as the user of PostgreSQL, which refuses root, and ends with the tests."""
    if os.geteuid():
        return [*command]
    return ["setpriv", "--reuid", _USER, "--regid", _USER, "--clear-groups", "--pdeathsig", "INT", "--", *command]


class PostgresServer:
    """One server on a port of 127.0.0.1, with its files in a directory of its own."""

    environment: tuple[str, ...] = ()
    """A command that sets the environment of the program that follows."""

    def __init__(self, **settings: str) -> None:
        self.port = free_port()
        self.directory = Path(tempfile.mkdtemp(prefix="forewarn-postgresql-"))
        self.data = self.directory / "data"
        self.log = self.directory / "log"
        self._settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": str(self.directory),
            "fsync": "off",
            "shared_buffers": "32MB",
            "dynamic_shared_memory_type": "mmap",  # in the data directory: a killed server leaves none in /dev/shm
            "max_connections": "200",
        } | settings
        self._process: subprocess.Popen[bytes] | None = None
        if not os.geteuid():
            user = pwd.getpwnam(_USER)
            os.chown(self.directory, user.pw_uid, user.pw_gid)

    def initialize(self) -> None:
        """Make the files of a new server."""
        command = as_postgres(
            binary("initdb"), "--pgdata", str(self.data), "--username", _USER, "--encoding", "UTF8", "--no-sync",
            "--locale", "C.UTF-8", "--auth", "trust",
        )  # fmt: skip
        subprocess.run(command, check=True, capture_output=True, cwd="/")
        rules = self.data / "pg_hba.conf"
        asked = f"host all {GUARDED} 127.0.0.1/32 scram-sha-256\n"
        rules.write_text(asked + rules.read_text("utf-8"), "utf-8")

    def copy_from(self, primary: "PostgresServer", name: str) -> None:
        """Make the files of a standby of another server, which knows it by ``name``."""
        command = as_postgres(
            binary("pg_basebackup"), "--pgdata", str(self.data), "--write-recovery-conf", "--no-sync",
            "--checkpoint", "fast", "--dbname", f"{primary.conninfo(_USER)} application_name={name}",
        )  # fmt: skip
        subprocess.run(command, check=True, capture_output=True, cwd="/")

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        settings = [part for key, value in self._settings.items() for part in ("-c", f"{key}={value}")]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                as_postgres(
                    *self.environment, binary("postgres"), "-D", str(self.data), "-p", str(self.port), *settings
                ),
                stdout=log,
                stderr=log,
                cwd="/",
            )
        until = time.monotonic() + _READY
        ready = [binary("pg_isready"), "--quiet", "--host", "127.0.0.1", "--port", str(self.port)]
        while subprocess.run(ready, check=False).returncode:
            assert self._process.poll() is None, f"PostgreSQL ended: {self.log.read_text('utf-8')[-2000:]}"
            assert time.monotonic() < until, f"PostgreSQL does not answer: {self.log.read_text('utf-8')[-2000:]}"
            time.sleep(0.02)

    def set(self, key: str, value: str) -> None:
        """Change a setting, and let the server read it."""
        self.execute(f"ALTER SYSTEM SET {key} = '{value}'")
        self.execute("SELECT pg_reload_conf()")

    def stop(self, number: int = signal.SIGINT) -> None:
        """End the server, and wait until it has ended: SIGINT in order, SIGKILL at once."""
        if self._process is not None:
            if number == signal.SIGKILL:
                self._kill_all()
            elif self._process.poll() is None:
                self._process.send_signal(number)
            self._process.wait(60)
            self._process = None

    def signal(self, number: int) -> None:
        """Send a signal to all processes of the server."""
        for pid in self.pids():
            os.kill(pid, number)

    def _kill_all(self) -> None:
        for pid in self.pids():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue

    def pids(self) -> list[int]:
        """Return all processes of the server."""
        assert self._process is not None
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text("ascii").split()
        return [self._process.pid, *map(int, children)]

    def close(self) -> None:
        self.stop(signal.SIGKILL)
        shutil.rmtree(self.directory, ignore_errors=True)

    def conninfo(self, database: str, user: str = _USER) -> str:
        """Return the address of a database, as PostgreSQL's library reads it."""
        return f"host=127.0.0.1 port={self.port} dbname={database} user={user}"

    def location(self, database: str, user: str = _USER) -> str:
        """Return what follows ``postgresql:`` in the setting ``journal``."""
        return f"//{user}@127.0.0.1:{self.port}/{database}"

    def execute(self, statement: str, database: str = _USER) -> list[tuple[object, ...]]:
        """Run a statement as the superuser."""
        with psycopg.connect(self.conninfo(database), autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def new_database(self, template: str = "template0") -> str:
        """Make a database, and return its name."""
        name = f"journal_{next(_numbers)}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        return name

    def drop_database(self, name: str) -> None:
        self.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgresServer]:
    """Yield a running server; one database of it, the template, has an empty journal."""
    server = PostgresServer()
    with closed_on_failure(server.close):
        server.initialize()
        server.start()
        server.execute(f"CREATE DATABASE {_TEMPLATE}")
        migrate(DatabaseAddress.parse(server.location(_TEMPLATE)))
    yield server
    server.close()


@pytest.fixture
def empty_database(postgresql: PostgresServer) -> Iterator[str]:
    """Yield the name of a database without anything in it."""
    name = postgresql.new_database()
    yield name
    postgresql.drop_database(name)


@pytest.fixture
def database(postgresql: PostgresServer) -> Iterator[str]:
    """Yield the location of a database with an empty journal."""
    name = postgresql.new_database(_TEMPLATE)
    yield postgresql.location(name)
    postgresql.drop_database(name)
