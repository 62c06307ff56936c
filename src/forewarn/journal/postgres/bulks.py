"""Long entries: parts and subjects are stored beforehand, so that the append itself is short.

entries       revision | bulk | the beginning of the body
bulk_parts    bulk, part      | what follows
subjects      subject         | minus the number of the bulk
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from hashlib import sha256
from itertools import islice

from forewarn.core.facts import AnyFact, Entry
from forewarn.core.model import NODE
from forewarn.core.subjects import subjects_of
from forewarn.journal.codec import EncodedFacts
from forewarn.journal.postgres.connection import LimitedConnection
from forewarn.journal.postgres.sql import query

_SUBJECTS_AT_ONCE = 20_000
_NO_TIME = datetime.min.replace(tzinfo=UTC)
COMMAND = "command:"
"""The subjects of commands, which have a table of their own."""


class Bulk:
    """The facts of one entry to come, encoded; those of a long one are in the database."""

    def __init__(self, connection: LimitedConnection, facts: tuple[AnyFact, ...], part_size: int) -> None:
        self.number = 0
        """0: it is short, and nothing was stored."""
        self._connection = connection
        self._part_hashes: list[bytes] = []
        self.encoded = EncodedFacts(facts, self._store, part_size)
        if self.number:
            self._index(facts)

    @property
    def facts(self) -> tuple[AnyFact, ...]:
        return self.encoded.facts

    def complete(self, connection: LimitedConnection, entry: Entry) -> tuple[int, bytes, list[bytes]]:
        """Store the last part of the entry; return its checksum, the beginning of its body, and its parts' hashes."""
        beginning, end = self.encoded.split(entry)
        part = len(self._part_hashes) + 1
        connection.run("add_part", bulk=self.number, part=part, content=end)
        checksum = self.encoded.checksum(entry.revision, beginning, end)
        return checksum, beginning, [*self._part_hashes, sha256(end).digest()]

    def _store(self, part: bytes) -> None:
        if not self.number:
            ((self.number,),) = self._connection.run("begin_bulk")
        self._part_hashes.append(sha256(part).digest())
        self._connection.run("add_part", bulk=self.number, part=len(self._part_hashes), content=part)

    def _index(self, facts: tuple[AnyFact, ...]) -> None:
        subjects = iter(sorted(subjects_of_facts(facts)))
        while some := list(islice(subjects, _SUBJECTS_AT_ONCE)):
            with self._connection.cursor() as cursor, cursor.copy(query("add_subjects")) as copy:
                copy.set_types(["text", "int8"])
                for subject in some:
                    copy.write_row((subject, -self.number))


def subjects_of_facts(facts: tuple[AnyFact, ...]) -> Iterable[str]:
    """Return the subjects of facts, without the caller and the command of their entry."""
    return (each for each in subjects_of(Entry(0, _NO_TIME, "", NODE, facts)) if not each.startswith(COMMAND))
