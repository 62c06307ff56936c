"""Connections: each statement is a transaction of its own, and none waits longer than its limit."""

import socket
from contextlib import suppress
from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.errors import OperationalError

from forewarn.journal.postgres.sql import query

_Value = TypeVar("_Value")
LIMIT = 10.0
"""Seconds that a statement may take."""
READ_LIMIT = 30.0
"""Seconds that a page of entries may take."""

Record = tuple[Any, ...]


class LimitedConnection(psycopg.Connection[Record]):
    """A connection that is closed when a statement takes longer than ``limit`` seconds."""

    limit: float = LIMIT

    def wait(self, gen: PQGen[_Value], interval: float = 0.1, timeout: float | None = None) -> _Value:
        try:
            return super().wait(gen, interval, self.limit if timeout is None else timeout)
        except psycopg.errors._WaitTimeout as error:  # noqa: SLF001 - it has no other name
            if timeout is not None:
                raise
            self.pgconn.finish()  # what became of the statement is unknown
            raise OperationalError(f"no answer within {self.limit:g} s") from error

    def run(self, name: str, /, **values: object) -> list[Record]:
        """Run a query by its name, and return its rows."""
        cursor = self.execute(query(name), values, prepare=True, binary=True)
        return cursor.fetchall() if cursor.description else []

    def interrupt(self) -> None:
        """Let the thread that waits for the server fail at once."""
        with suppress(OSError, psycopg.Error), socket.socket(fileno=socket.dup(self.pgconn.socket)) as duplicate:
            duplicate.shutdown(socket.SHUT_RDWR)
