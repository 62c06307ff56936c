"""Connections for reading, shared by all threads of a process."""

from collections.abc import Callable
from threading import Lock as Mutex
from typing import TypeVar

from psycopg.errors import OperationalError

from forewarn.journal.postgres.address import DatabaseAddress
from forewarn.journal.postgres.connection import READ_LIMIT, LimitedConnection
from forewarn.journal.postgres.errors import translate_errors
from forewarn.journal.postgres.sessions import connect

_Value = TypeVar("_Value")
_IDLE = 4
"""Connections that are kept open."""


class ReaderPool:
    """Keeps some of them open."""

    def __init__(self, address: DatabaseAddress, limit: float = READ_LIMIT) -> None:
        """``limit``: seconds that a question may take."""
        self._address = address
        self._limit = limit
        self._idle: list[LimitedConnection] = []
        self._mutex = Mutex()

    def read(self, question: Callable[[LimitedConnection], _Value]) -> _Value:
        """Return what a question, which only reads, finds; where an old connection is lost, ask on a new one."""
        with translate_errors(self._address.place):
            with self._mutex:
                connection = self._idle.pop() if self._idle else None
            if connection is not None:
                try:
                    return self._ask(connection, question)
                except OperationalError:
                    if not connection.closed:
                        raise
                    self.close()  # the others went the same way
            return self._ask(connect(self._address, self._limit), question)

    def _ask(self, connection: LimitedConnection, question: Callable[[LimitedConnection], _Value]) -> _Value:
        try:
            found = question(connection)
        except BaseException:
            connection.close()
            raise
        with self._mutex:
            if len(self._idle) < _IDLE:
                self._idle.append(connection)
                return found
        connection.close()
        return found

    def close(self) -> None:
        with self._mutex:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
