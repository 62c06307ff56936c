"""A pooler that gives each transaction another session is refused; one that keeps to a session is used."""

import os
import pwd
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from forewarn.core.errors import BadInput
from forewarn.journal.postgres.address import DatabaseAddress
from forewarn.journal.postgres.journal import PostgresJournal
from forewarn.testing.calls import begin, in_time
from forewarn.testing.journal_contract import hosts
from tests.journal.postgres.journals import leading
from tests.ports import free_port
from tests.postgresql import PostgresServer, as_postgres

pytestmark = pytest.mark.end_to_end


@contextmanager
def pgbouncer(server: PostgresServer, database: str, mode: str, *settings: str) -> Iterator[str]:
    """Run Debian's PgBouncer before a server; yield the location of the database behind it."""
    port, place = free_port(), server.directory / f"pgbouncer-{mode}.ini"
    name = database.rpartition("/")[2]
    lines = [
        "[databases]",
        f"{name} = host=127.0.0.1 port={server.port} dbname={name} user=postgres",
        "[pgbouncer]",
        "listen_addr = 127.0.0.1",
        f"listen_port = {port}",
        "unix_socket_dir =",
        "auth_type = any",
        f"pool_mode = {mode}",
        *settings,
    ]
    place.write_text("\n".join(lines) + "\n")
    if not os.geteuid():
        os.chown(place, pwd.getpwnam("postgres").pw_uid, -1)
    log = Path(f"{place}.log")
    with log.open("wb") as out:
        process = subprocess.Popen(as_postgres("/usr/sbin/pgbouncer", str(place)), stdout=out, stderr=out, cwd="/")
    try:
        until = time.monotonic() + 30
        while True:
            try:
                psycopg.connect(f"host=127.0.0.1 port={port} dbname={name} user=postgres").close()
                break
            except psycopg.OperationalError:
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < until, log.read_text()
                time.sleep(0.05)
        yield f"//postgres@127.0.0.1:{port}/{name}"
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("settings", [(), ("server_round_robin = 1", "min_pool_size = 5")])
def test_transaction_mode_is_refused(postgresql: PostgresServer, database: str, settings: tuple[str, ...]) -> None:
    """The message names both remedies, and nothing is changed."""
    with pgbouncer(postgresql, database, "transaction", *settings) as location:
        journal = PostgresJournal(DatabaseAddress.parse(location))
        with pytest.raises(BadInput, match="connect to the server itself, or set pool_mode = session"):
            journal.load()
        journal.close()


def test_session_mode_is_used(postgresql: PostgresServer, database: str) -> None:
    """Followers are woken through it as well."""
    with pgbouncer(postgresql, database, "session") as location, leading(location) as journal:
        follower = PostgresJournal(DatabaseAddress.parse(location))
        follower.load()
        following = begin(lambda: follower.follow(0, timeout=60) and list(follower.entries()))
        journal.append(0, hosts(1, 1))

        assert in_time("follower", 30, following) == hosts(1, 1)
        follower.close()
