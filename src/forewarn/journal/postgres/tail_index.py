"""The subjects of the newest entries, which the table of subjects does not have yet.

    first kept ......... indexed ......... last
         the table                memory

The process that takes snapshots fills the table, so that an append writes the entry alone. The entries after that are
read when a history is asked for, and remembered by their subjects.
"""

from threading import Lock as Mutex

from forewarn.journal.postgres.chain import BEGINNING
from forewarn.journal.postgres.reader_pool import ReaderPool
from forewarn.journal.postgres.reading import EntryReader
from forewarn.journal.shared import JournalDiverged


class TailIndex:
    """Remembers the subjects of the newest entries; one question at a time, from any thread."""

    def __init__(self, reader: EntryReader, pool: ReaderPool) -> None:
        self._reader = reader
        self._pool = pool
        self._mutex = Mutex()
        self.forget()

    def forget(self) -> None:
        """Begin anew: the entries may be other ones."""
        self._begin(0)

    def _begin(self, indexed: int) -> None:
        self._indexed = self._read_to = indexed
        self._revisions: dict[str, list[int]] = {}
        self._reader.begin(0, BEGINNING)

    def revisions(self, subject: str) -> list[int]:
        """Return the newest entries that concern a subject, oldest first."""
        with self._mutex:
            try:
                self._read_on()
            except JournalDiverged:
                self.forget()
                self._read_on()
            return list(self._revisions.get(subject, ()))

    def _read_on(self) -> None:
        ((indexed,),) = self._pool.read(lambda connection: connection.run("read_indexed"))
        if indexed != self._indexed:
            self._begin(indexed)
        for stored in self._reader.stored_entries(self._read_to):
            for subject in self._reader.subjects(stored):
                self._revisions.setdefault(subject, []).append(stored.revision)
            self._read_to = stored.revision
