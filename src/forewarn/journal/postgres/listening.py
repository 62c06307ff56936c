"""Knows the last revision: a session of its own is told of each append, and looks again now and then."""

import logging
from contextlib import suppress
from threading import Condition, Thread
from time import monotonic

import psycopg

from forewarn.core.errors import ForewarnError
from forewarn.journal.port import JournalFailed
from forewarn.journal.postgres.address import DatabaseAddress
from forewarn.journal.postgres.connection import LimitedConnection
from forewarn.journal.postgres.errors import translate_errors
from forewarn.journal.postgres.sessions import connect

log = logging.getLogger(__name__)

_POLL_INTERVAL = 2.0
"""Seconds after which the last revision is read although nothing was told."""
_RETRY_INTERVAL = 0.25


class AppendListener:
    """Lets threads wait for appends of any node, and for a lease that is released.

    The thread that listens runs from the first call of ``wait`` to ``close``. It connects again by itself.
    """

    def __init__(self, address: DatabaseAddress, poll_interval: float = _POLL_INTERVAL) -> None:
        self._address = address
        self._poll_interval = poll_interval
        self._changed = Condition()
        self._thread: Thread | None = None
        self._connection: LimitedConnection | None = None
        self._revision = -1
        self._has_fallen = False
        self._failure = ""
        self._closings = 0
        self._releases = 0

    def note(self, revision: int) -> None:
        """Take a revision that is known to be durable."""
        with self._changed:
            self._revision = max(self._revision, revision)
            self._changed.notify_all()

    def begin(self, revision: int) -> None:
        """Begin anew with the last revision, which may be lower than before."""
        with self._changed:
            self._revision, self._has_fallen = revision, False

    @property
    def revision(self) -> int:
        """The last revision that was heard of; -1 before the first."""
        return self._revision

    @property
    def has_fallen(self) -> bool:
        """Whether the last revision was found below one that was known before, as after a failover that lost some."""
        return self._has_fallen

    def wait(self, after: int, timeout: float) -> bool:
        """Return True once there is an entry above ``after``, or the journal has fallen.

        False after ``timeout`` seconds, or at once when a lease is released or this listener is closed.
        ``JournalFailed``: the time has passed, and there is no session.
        """
        until = monotonic() + timeout
        with self._changed:
            self._start()
            closings, releases = self._closings, self._releases
            while True:
                if self._revision > after or self._has_fallen:
                    return True
                left = until - monotonic()
                if self._closings != closings or self._releases != releases:
                    return False
                if left <= 0:
                    if self._failure:
                        raise JournalFailed(self._failure)
                    return False
                self._changed.wait(left)

    def close(self) -> None:
        """Let waiting threads go, and end the session."""
        with self._changed:
            self._closings += 1
            thread, self._thread = self._thread, None
            if self._connection is not None:
                self._connection.interrupt()
            self._changed.notify_all()
        if thread is not None:
            thread.join()

    def _start(self) -> None:
        if self._thread is None:
            self._failure = ""
            self._thread = Thread(target=self._listen, args=(self._closings,), name="journal-listener", daemon=True)
            self._thread.start()

    def _listen(self, closings: int) -> None:
        while self._closings == closings:
            connection = None
            try:
                connection = connect(self._address)
                with translate_errors(self._address.place):
                    self._hear(connection, closings)
            except (ForewarnError, psycopg.Error) as error:
                self._fail(str(error), closings)
            finally:
                if connection is not None:
                    with suppress(psycopg.Error):
                        connection.close()

    def _hear(self, connection: LimitedConnection, closings: int) -> None:
        connection.run("listen")
        with self._changed:
            if self._closings != closings:
                return
            self._connection = connection
        while self._closings == closings:
            known = self._revision
            ((revision,),) = connection.run("last_revision")
            with self._changed:
                self._has_fallen = self._has_fallen or revision < known
                self._failure = ""
            self.note(revision)
            until = monotonic() + self._poll_interval
            while self._closings == closings and (left := until - monotonic()) > 0:
                for notification in connection.notifies(timeout=left, stop_after=1):
                    self._take_word(notification.payload)

    def _take_word(self, payload: str) -> None:
        if payload.isdecimal():
            self.note(int(payload))
        else:
            with self._changed:
                self._releases += 1
                self._changed.notify_all()

    def _fail(self, failure: str, closings: int) -> None:
        with self._changed:
            self._connection = None
            if self._closings == closings:
                if failure != self._failure:
                    log.warning("the journal cannot be followed", extra={"fields": {"failure": failure}})
                self._failure = failure
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._closings != closings, _RETRY_INTERVAL)
