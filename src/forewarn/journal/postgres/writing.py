"""Appends entries, on a session of its own."""

from collections.abc import Sequence
from contextlib import suppress

import msgspec
import psycopg
from psycopg.errors import Diagnostic, UniqueViolation

from forewarn.core.errors import ForewarnError
from forewarn.core.facts import AnyFact, Entry
from forewarn.journal.codec import PART_SIZE
from forewarn.journal.port import AppendUnknown, NotWritten, RepeatedCommand, StaleWriter
from forewarn.journal.postgres.address import DatabaseAddress
from forewarn.journal.postgres.batches import AppendBatch
from forewarn.journal.postgres.bulks import Bulk
from forewarn.journal.postgres.connection import LimitedConnection
from forewarn.journal.postgres.errors import describe, translate_errors
from forewarn.journal.postgres.sessions import connect, opened
from forewarn.journal.shared import LeaseLost


class EntryWriter:
    """Appends to one database, in a term that was begun; one thread at a time."""

    def __init__(self, address: DatabaseAddress, part_size: int = PART_SIZE) -> None:
        self._address = address
        self._place = address.place
        self._connection: LimitedConnection | None = None
        """Opened anew for each term: one from before may have ended unnoticed."""
        self._is_open = False
        self.keeps_times = False
        """Whether entries are stored by their own time, as a copy is, and not by the database's clock."""
        self._part_size = part_size
        self._bulk: Bulk | None = None
        """What was prepared for an entry to come."""
        self._generation = 0
        """How often it was opened: what was prepared before does not count."""
        self._warnings: list[str] = []
        """What the server warned of during the last statement."""
        self._term = 0
        self._session: int | None = None
        """The session of the term; None until it is read."""
        self._doubtful_term = 0
        """The term of an append of unknown outcome, which may still be on its way; 0: there is none."""

    @property
    def is_open(self) -> bool:
        return self._is_open

    def begin_term(self, term: int) -> None:
        if term != self._term:
            self._term, self._session = term, None

    def open(self) -> None:
        """Take appends from now on; one of unknown outcome does not take effect any more."""
        self.close()
        self._generation += 1
        self._bulk = None
        if self._doubtful_term:
            connection = self._connect()
            with translate_errors(self._place):
                fenced = connection.run("fence", term=self._doubtful_term)
            self._check_warnings()
            if fenced and self._doubtful_term == self._term:
                ((self._session,),) = fenced
            self._doubtful_term = 0
        if self._term:
            self._begin(self._term)  # so that the first command does not wait for it
        self._is_open = True

    def close(self) -> None:
        self._is_open = False
        self._disconnect()

    def _connect(self) -> LimitedConnection:
        self._disconnect()
        self._warnings.clear()
        self._connection = connect(self._address)
        self._connection.add_notice_handler(self._note_warning)
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            with suppress(psycopg.Error):
                self._connection.close()
        self._connection = None

    def prepare(self, facts: tuple[AnyFact, ...]) -> None:
        """Encode facts that a later append may have, and store them if they are long; in any thread."""
        generation = self._generation
        self._bulk = None
        try:
            with opened(self._address) as connection, translate_errors(self._place):
                bulk = Bulk(connection, facts, self._part_size)
        except ForewarnError as error:
            raise NotWritten(str(error)) from error
        if self._generation == generation:
            self._bulk = bulk

    def append(self, last: tuple[int, bytes], entries: Sequence[Entry]) -> tuple[int, bytes, int]:
        """Add entries behind the last one, which is given as revision and hash; return those, and how many bytes."""
        if not self._is_open:
            raise NotWritten(f"{self._place} is not open for writing: load it again")
        if not entries:
            return (*last, 0)
        term = self._term
        if not term:
            raise LeaseLost(f"this node does not lead, and {self._place} takes entries from the leader alone")
        connection, session = self._begin(term)
        batch, size = self._pack(connection, last, entries)
        self._warnings.clear()
        self._doubtful_term = term
        try:
            added = connection.run("append", **msgspec.structs.asdict(batch), term=term, session=session)
            self._check_warnings()
        except UniqueViolation as error:
            self._doubtful_term = 0
            raise RepeatedCommand(
                f"the request of a command is recorded already ({error.diag.message_detail}); ask what it did"
            ) from error
        except psycopg.Error as error:
            if connection.closed:
                self.close()
                raise AppendUnknown(f"{self._place} {describe(error)}") from error
            self._doubtful_term = 0
            raise NotWritten(f"{self._place} {describe(error)}") from error
        except BaseException:
            self.close()
            raise
        self._doubtful_term = 0
        if not added:
            raise self._refusal(connection, last, term, session)
        if self._bulk and any(entry.facts is self._bulk.facts for entry in entries):
            self._bulk = None
        return batch.last_revision, batch.last_hash, size

    def _pack(
        self, connection: LimitedConnection, last: tuple[int, bytes], entries: Sequence[Entry]
    ) -> tuple[AppendBatch, int]:
        batch, bulk = AppendBatch(*last, *last), self._bulk
        if self.keeps_times:
            batch.times = [entry.at.timestamp() for entry in entries]
        try:
            with translate_errors(self._place):
                return batch, sum(batch.add(entry, connection, bulk, self._part_size) for entry in entries)
        except ForewarnError as error:
            self.close()
            raise NotWritten(str(error)) from error

    def _begin(self, term: int) -> tuple[LimitedConnection, int]:
        """Return the connection and the session of a term; open and read them where that is not done yet."""
        if self._connection is not None and self._session is not None:
            return self._connection, self._session
        try:
            connection = self._connect()
            with translate_errors(self._place):
                ((_, _, _, session, _),) = connection.run("read_head")
        except ForewarnError as error:
            self.close()
            raise NotWritten(str(error)) from error
        if self._term == term:
            self._session = session
        return connection, int(session)

    def _refusal(self, connection: LimitedConnection, last: tuple[int, bytes], term: int, session: int) -> NotWritten:
        """Say why nothing was added."""
        try:
            with translate_errors(self._place):
                ((revision, hash_, found_term, found_session, is_held),) = connection.run("read_head")
        except ForewarnError as error:
            self.close()
            return NotWritten(str(error))
        if (found_term, found_session) != (term, session) or not is_held:
            return LeaseLost(f"the lease of term {term} has ended, and {self._place} is in term {found_term}")
        if (revision, hash_) != last:
            return StaleWriter(
                f"{self._place} is at revision {revision}, not {last[0]}: load it again before appending"
            )
        return LeaseLost(f"the lease of term {term} had ended, and {self._place} took nothing")

    def _note_warning(self, diagnostic: Diagnostic) -> None:
        if diagnostic.severity_nonlocalized == "WARNING":
            self._warnings.append(diagnostic.message_primary or "")

    def _check_warnings(self) -> None:
        """Take a commit that was not replicated for one of unknown outcome; the server only warns of that."""
        if self._warnings:
            self.close()
            raise AppendUnknown(
                f"{self._place} has not replicated a commit ({self._warnings[0]}): check its standbys"
            )
