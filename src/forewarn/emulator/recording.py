r"""Recordings: every document an endpoint showed, with its time, one JSON object on each line.

{"forewarn_recording":1,"vm":"web-0","api_version":"2020-07-01"}
{"at":"2026-03-01T12:00:00Z","body":"{\"DocumentIncarnation\":1,\"Events\":[]}"}
"""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec

from forewarn.core.errors import BadInput
from forewarn.wire.bodies import BadBody
from forewarn.wire.document import Document, parse
from forewarn.wire.versions import BY_NAME

FORMAT = 1
_Line = TypeVar("_Line")


class RecordingHeader(msgspec.Struct, frozen=True):
    """What was recorded, and how."""

    forewarn_recording: int = FORMAT
    vm: str = ""
    """The VM on which it was recorded."""
    api_version: str = ""


class RecordedDocument(msgspec.Struct, frozen=True):
    """A document as it came, word for word."""

    at: Annotated[datetime, msgspec.Meta(tz=True)]
    body: str

    @property
    def document(self) -> Document:
        return parse(self.body.encode())


class Recording(msgspec.Struct, frozen=True):
    """All documents of one endpoint, in order."""

    beginning: RecordingHeader
    takes: tuple[RecordedDocument, ...]

    @property
    def vms(self) -> tuple[str, ...]:
        """The VMs it speaks of, the one it was recorded on first."""
        named = (self.plain_name(name) for take in self.takes for e in take.document.events for name in e.resources)
        return tuple(dict.fromkeys(filter(None, (self.beginning.vm, *sorted(set(named))))))

    def plain_name(self, name: str) -> str:
        """Return a resource's name without the underscore that the oldest api-version puts before it."""
        version = BY_NAME.get(self.beginning.api_version)
        return name.removeprefix("_") if version and version.underscore_names else name


def is_recording(path: Path) -> bool:
    """Tell a recording from other files by how it begins."""
    try:
        with path.open("rb") as file:
            return b"forewarn_recording" in file.readline(1000)
    except OSError:
        return False


def read(path: Path) -> Recording:
    """Read a recording; raise BadInput that names the line which is wrong. A last line cut off is left out."""
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}") from None
    beginning = _read_line(path, 1, lines[0], RecordingHeader)
    if beginning.forewarn_recording > FORMAT:
        raise BadInput(f"{path}:1: it was recorded by a newer Forewarn; install that one")
    takes = tuple(_takes(path, lines))
    if not takes:
        raise BadInput(f"{path}: it holds no document; record for longer")
    return Recording(beginning, takes)


def _takes(path: Path, lines: list[bytes]) -> Iterator[RecordedDocument]:
    last: RecordedDocument | None = None
    for number, line in enumerate(lines[1:-1], start=2):
        take = _read_line(path, number, line, RecordedDocument)
        try:
            parse(take.body.encode())
        except BadBody as error:
            raise BadInput(f"{path}:{number}: {error}") from None
        if last and take.at < last.at:
            raise BadInput(f"{path}:{number}: its time is before that of the line above; lines must be in order")
        last = take
        yield take


def _read_line(path: Path, number: int, line: bytes, kind: type[_Line]) -> _Line:
    try:
        return msgspec.json.decode(line, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}:{number}: {error}; is it a recording of 'forewarn record'?") from None
