"""Connecting to the first host that accepts writes: a silent host keeps nobody waiting."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from forewarn.journal.postgres import connecting
from forewarn.journal.postgres.address import DatabaseAddress
from forewarn.journal.postgres.connecting import connect_to_first
from forewarn.journal.postgres.connection import LimitedConnection
from forewarn.journal.postgres.sessions import connect
from tests.postgresql import PostgresServer

pytestmark = pytest.mark.end_to_end

_NOBODY = "host=127.0.0.1 port=1 dbname=postgres"


@pytest.fixture
def silent() -> Iterator[str]:
    """Yield the address of a server that takes connections and says nothing, as one does that was stopped."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        yield f"host=127.0.0.1 port={port} dbname=postgres user=postgres connect_timeout=20"


@pytest.fixture
def standby(postgresql: PostgresServer) -> Iterator[str]:
    """Yield the address of a database that takes no writes."""
    name = postgresql.new_database()
    postgresql.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    yield f"{postgresql.conninfo(name)} target_session_attrs=read-write"
    postgresql.drop_database(name)


def test_a_silent_host_keeps_nobody_waiting(postgresql: PostgresServer, silent: str) -> None:
    """The next one is tried meanwhile, long before the limit of a connection."""
    began = monotonic()
    with connect_to_first([silent, silent, postgresql.conninfo("postgres")]) as connection:
        assert connection.info.port == postgresql.port
    assert monotonic() - began < 10


def test_the_first_host_is_used_while_it_answers(postgresql: PostgresServer) -> None:
    """The others are not even asked."""
    one, other = postgresql.new_database(), postgresql.new_database()
    try:
        for _ in range(10):
            with connect_to_first([postgresql.conninfo(one), postgresql.conninfo(other)]) as connection:
                assert connection.info.dbname == one
    finally:
        postgresql.drop_database(one)
        postgresql.drop_database(other)


def test_a_host_that_refuses_gives_way_to_the_next(postgresql: PostgresServer, standby: str) -> None:
    """One where nothing runs, and one that takes no writes."""
    with connect_to_first([_NOBODY, standby, postgresql.conninfo("postgres")]) as connection:
        assert connection.info.dbname == "postgres"


def test_a_standby_is_asked_again_while_another_host_is_silent(
    postgresql: PostgresServer, silent: str, standby: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be promoted meanwhile: nobody waits for the silent one then."""
    connect_once = LimitedConnection.connect
    name = str(conninfo_to_dict(standby)["dbname"])

    def connect_and_promote(conninfo: str, *, autocommit: bool) -> LimitedConnection:
        try:
            return connect_once(conninfo, autocommit=autocommit)
        except psycopg.OperationalError:
            postgresql.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")
            raise

    monkeypatch.setattr(LimitedConnection, "connect", staticmethod(connect_and_promote))
    began = monotonic()
    with connect_to_first([silent, standby]) as connection:
        assert connection.info.dbname == name
    assert monotonic() - began < 15


def join_attempts() -> None:
    for thread in threading.enumerate():
        if thread.name == "journal-connect":
            thread.join(30)


@pytest.mark.parametrize("is_late", [True, False], ids=["after the end", "before the end"])
def test_a_connection_that_is_not_needed_is_closed(
    postgresql: PostgresServer, monkeypatch: pytest.MonkeyPatch, *, is_late: bool
) -> None:
    """A slow host is connected to after another one was chosen, or just before."""
    connect_once, end = LimitedConnection.connect, connecting._Race._end
    is_other_there = threading.Event()
    made: list[LimitedConnection] = []

    def connect_slowly(conninfo: str, *, autocommit: bool) -> LimitedConnection:
        connection = connect_once(conninfo, autocommit=autocommit)
        made.append(connection)
        if connection.info.dbname == "template1":
            assert is_other_there.wait(30)
        elif not is_late:
            is_other_there.set()
        return connection

    def end_after_all(race: connecting._Race) -> None:
        if not is_late:
            join_attempts()
        end(race)

    monkeypatch.setattr(LimitedConnection, "connect", staticmethod(connect_slowly))
    monkeypatch.setattr(connecting._Race, "_end", end_after_all)
    with connect_to_first([postgresql.conninfo("template1"), postgresql.conninfo("postgres")]) as connection:
        is_other_there.set()
        join_attempts()
        assert len(made) == 2
        assert {each.closed for each in made if each is not connection} == {True}
        assert not connection.closed


def test_silent_hosts_of_a_service_file_keep_nobody_waiting(
    postgresql: PostgresServer, silent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are tried beside each other, as those of an address are."""
    port = conninfo_to_dict(silent)["port"]
    file = tmp_path / "pg_service.conf"
    file.write_text(
        f"[journal]\nhost=127.0.0.1,127.0.0.1\nport={port},{postgresql.port}\ndbname=postgres\nuser=postgres\n"
    )
    monkeypatch.setenv("PGSERVICEFILE", str(file))
    address = DatabaseAddress.parse("service=journal connect_timeout=20")
    began = monotonic()
    with connect(address) as connection:
        assert connection.info.port == postgresql.port
    assert monotonic() - began < 10


def test_what_the_last_host_says_is_raised(standby: str) -> None:
    """Where none accepts writes: the last one is usually the standby, which can be promoted."""
    with pytest.raises(psycopg.OperationalError, match="session is read-only"):
        connect_to_first([_NOBODY, standby])
