"""Opens sessions, on a server that accepts writes and can be relied on."""

from collections.abc import Iterator
from contextlib import contextmanager

from forewarn.core.errors import BadInput
from forewarn.journal.postgres.address import DatabaseAddress
from forewarn.journal.postgres.connecting import connect_to_first
from forewarn.journal.postgres.connection import LIMIT, LimitedConnection
from forewarn.journal.postgres.errors import translate_errors
from forewarn.journal.postgres.host_order import HOSTS
from forewarn.journal.postgres.sql import query

LEAST_VERSION = 14
"""The oldest server that is used."""
_PROBES = 5
"""How often a pooler is asked which session it gives."""
_PROBE_LIMIT = 3.0
_pooled_by_session: set[str] = set()
"""The addresses where a pooler was found that keeps to one session of the server."""


def connect(
    address: DatabaseAddress, limit: float = LIMIT, *, least_version: int = LEAST_VERSION
) -> LimitedConnection:
    """Open a session on a server that accepts writes."""
    with translate_errors(address.place):
        connection = connect_to_first(HOSTS.arrange(address.conninfo))
        try:
            connection.limit = limit
            _check_version(connection, address.place, least_version)
            _check_pooler(connection, address)
            ((*_, started_at),) = connection.run("set_up_session")
            HOSTS.note(address.conninfo, connection, started_at)
        except BaseException:
            connection.close()
            raise
        return connection


def _check_version(connection: LimitedConnection, place: str, least: int) -> None:
    version = connection.info.server_version // 10_000
    if version < least:
        raise BadInput(f"{place} is PostgreSQL {version}, and Forewarn needs {least} or newer: upgrade the server")


def _check_pooler(connection: LimitedConnection, address: DatabaseAddress) -> None:
    """Refuse a pooler that gives each transaction another session: notifications, locks and settings would be lost.

    A pooler hides the process of the server. One that keeps to a session gives two clients two of them, always the
    same.
    """
    first = _process(connection)
    if first == connection.info.backend_pid or address.conninfo in _pooled_by_session:
        return
    with connect_to_first(HOSTS.arrange(address.conninfo)) as other:
        other.limit = _PROBE_LIMIT
        for _ in range(_PROBES):
            if _process(other) == first or _process(connection) != first:
                raise BadInput(
                    f"{address.place} is PgBouncer, or another pooler, in transaction mode, which loses notifications"
                    " and locks: connect to the server itself, or set pool_mode = session for this database"
                )
    _pooled_by_session.add(address.conninfo)


def _process(connection: LimitedConnection) -> object:
    """Return the process of the server that answers."""
    row = connection.execute(query("server_process")).fetchone()
    return row[0] if row else None


@contextmanager
def opened(address: DatabaseAddress, limit: float = LIMIT) -> Iterator[LimitedConnection]:
    """Yield a connection, and close it."""
    connection = connect(address, limit)
    try:
        yield connection
    finally:
        connection.close()
