r"""Reads recordings: the documents of an endpoint with their times, one JSON object per line.

{"forewarn_recording":1,"vm":"web-0","api_version":"2020-07-01"}
{"at":"2026-03-01T12:00:00Z","body":"{\"DocumentIncarnation\":1,\"Events\":[]}"}
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, TextIO, TypeVar

import msgspec

from forewarn.client.client import Client
from forewarn.core.errors import BadInput, ForewarnError, Refused, Unavailable
from forewarn.wire.bodies import BadBody
from forewarn.wire.document import Document, parse
from forewarn.wire.versions import BY_NAME

FORMAT = 1
_Line = TypeVar("_Line")


class RecordingHeader(msgspec.Struct, frozen=True):
    """First line of a recording."""

    forewarn_recording: int = FORMAT
    vm: str = ""
    """The VM on which it was recorded."""
    api_version: str = ""


class RecordedDocument(msgspec.Struct, frozen=True):
    """A document byte for byte, with its time."""

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
        """The VMs in its documents; first the one on which it was recorded."""
        named = (self.plain_name(name) for take in self.takes for e in take.document.events for name in e.resources)
        return tuple(dict.fromkeys(filter(None, (self.beginning.vm, *sorted(set(named))))))

    def plain_name(self, name: str) -> str:
        """Return a resource's name without the underscore that the oldest api-version puts before it."""
        version = BY_NAME.get(self.beginning.api_version)
        return name.removeprefix("_") if version and version.underscore_names else name


def is_recording(path: Path) -> bool:
    """Return whether a file is a recording, by its first line."""
    try:
        with path.open("rb") as file:
            return b"forewarn_recording" in file.readline(1000)
    except OSError:
        return False


def read(path: Path) -> Recording:
    """Read a recording; raise BadInput with the wrong line. An incomplete last line is ignored."""
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}") from None
    beginning = _read_line(path, 1, lines[0], RecordingHeader)
    if beginning.forewarn_recording > FORMAT:
        raise BadInput(f"{path}:1: the recording was made by a newer version of Forewarn; install that version")
    takes = tuple(_takes(path, lines))
    if not takes:
        raise BadInput(f"{path}: the recording contains no document; record for longer")
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


class RecordedEndpoint:
    """The endpoint that is recorded."""

    def __init__(self, url: str, api_version: str) -> None:
        self._url = url
        self.api_version = api_version

    def document(self) -> str:
        """Return the document; raise Unavailable if there is none."""
        with Client(self._url, api_version=self.api_version) as client:
            try:
                return client.ask().decode(errors="replace")
            except Refused as error:
                # The endpoint may accept later requests, and the recording continues.
                raise Unavailable(str(error)) from None

    def own_name(self) -> str:
        """Return the name of this VM; empty if it is unknown."""
        with Client(self._url, api_version=self.api_version) as client:
            try:
                return client.own_name()
            except ForewarnError:
                return ""


def open_recording(path: Path, endpoint: RecordedEndpoint) -> TextIO:
    """Create a recording; raise BadInput if the file exists."""
    try:
        file = path.open("x", encoding="utf-8")
    except FileExistsError:
        raise BadInput(f"{path} exists already; give another file name") from None
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror}") from None
    _write(file, RecordingHeader(vm=endpoint.own_name(), api_version=endpoint.api_version))
    return file


def record_documents(endpoint: RecordedEndpoint, file: TextIO) -> Iterator[RecordedDocument | None]:
    """Poll once per iteration; yield the document if it has changed, else None."""
    last = ""
    while True:
        body = endpoint.document()
        if body == last:
            yield None
            continue
        last = body
        take = RecordedDocument(datetime.now(UTC), body)
        _write(file, take)
        yield take


def _write(file: TextIO, record: msgspec.Struct) -> None:
    file.write(msgspec.json.encode(record).decode() + "\n")
    file.flush()
