"""A journal as a stream of lines: each has its checksum, and the last one tells that nothing is missing.

CHECKSUM {"forewarn_journal":1, ...}   what the stream holds
CHECKSUM {"hosts":[...], ...}          a chunk of the snapshot, where old entries were deleted
CHECKSUM {"revision":7, ...}           an entry
CHECKSUM {"entries":...,"sha256":...}  the end
"""

from collections.abc import Iterator
from hashlib import sha256
from itertools import islice
from typing import BinaryIO, TypeVar
from zlib import crc32

import msgspec

from forewarn.core.chunks import FleetChunk
from forewarn.core.errors import BadInput
from forewarn.core.fact import FORMAT
from forewarn.core.facts import Entry
from forewarn.core.fleet import Fleet
from forewarn.journal.port import DamagedJournal, NewerJournal
from forewarn.journal.transfer import JournalSource

_STREAM_FORMAT = 1
_CHECKSUM = 8
_Line = TypeVar("_Line")


class ExportHeader(msgspec.Struct, frozen=True, kw_only=True):
    """The first line."""

    forewarn_journal: int = _STREAM_FORMAT
    format: int = FORMAT
    """The format of the facts."""
    first_revision: int
    last_revision: int
    snapshot_revision: int = 0
    """0: there is no snapshot."""
    chunks: int = 0


class ExportEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The last line."""

    entries: int
    sha256: str
    """Of all lines before."""


def export_journal(source: JournalSource, file: BinaryIO) -> ExportHeader:
    """Write a journal; return what was written."""
    first, last = source.bounds()
    revision, fleet = source.base() if first > 1 else (0, Fleet())
    chunks = sum(1 for _ in fleet.parts()) if revision else 0
    header = ExportHeader(first_revision=first, last_revision=last, snapshot_revision=revision, chunks=chunks)
    digest, entries = sha256(), 0

    def write(line: msgspec.Struct) -> None:
        text = msgspec.json.encode(line)
        written = b"%08x %b\n" % (crc32(text), text)
        digest.update(written)
        file.write(written)

    write(header)
    if revision:
        for chunk in fleet.parts():
            write(chunk)
    for entry in source.entries():
        write(entry)
        entries += 1
    write(ExportEnd(entries=entries, sha256=digest.hexdigest()))
    return header


class ExportedJournal:
    """A stream that is read once, in order."""

    def __init__(self, file: BinaryIO, place: str) -> None:
        self.place = place
        self._lines = iter(file)
        self._digest = sha256()
        self._number = 0
        self._header = self._read_header()

    def bounds(self) -> tuple[int, int]:
        return self._header.first_revision, self._header.last_revision

    def base(self) -> tuple[int, Fleet]:
        chunks = (self._read(FleetChunk) for _ in range(self._header.chunks))
        return self._header.snapshot_revision, Fleet.restore(chunks)

    def entries(self) -> Iterator[Entry]:
        first, last = self.bounds()
        for revision in range(first, last + 1):
            entry = self._read(Entry)
            if entry.revision != revision:
                raise self._damaged()
            yield entry
        expected = self._digest.hexdigest()
        end = self._read(ExportEnd)
        if (end.entries, end.sha256) != (last - first + 1, expected) or list(islice(self._lines, 1)):
            raise self._damaged()

    def _read_header(self) -> ExportHeader:
        found = self._read(dict[str, object])
        number, format_ = found.get("forewarn_journal"), found.get("format")
        if not isinstance(number, int) or not isinstance(format_, int):
            raise BadInput(f"{self.place} is not a journal that 'forewarn journal export' wrote; name another file")
        if number > _STREAM_FORMAT or format_ > FORMAT:
            raise NewerJournal(f"{self.place} was written by a newer release; import it with that release")
        return msgspec.convert(found, ExportHeader)

    def _read(self, kind: type[_Line]) -> _Line:
        line = next(self._lines, b"")
        self._number += 1
        if not line.endswith(b"\n"):
            raise DamagedJournal(
                f"{self.place} ends in line {self._number}, before the journal does: export it again; an import of"
                " the whole file goes on where this one ended"
            )
        text = line[_CHECKSUM + 1 : -1]
        if line[: _CHECKSUM + 1] != b"%08x " % crc32(text):
            raise self._damaged()
        self._digest.update(line)
        try:
            return msgspec.json.decode(text, type=kind)
        except ValueError as error:
            raise self._damaged() from error

    def _damaged(self) -> DamagedJournal:
        return DamagedJournal(f"{self.place} is damaged in line {self._number}: export the journal again")
