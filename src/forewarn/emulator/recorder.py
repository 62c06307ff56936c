"""Records an endpoint: polls it and writes every changed document to a recording."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

import msgspec

from forewarn.client.client import Client
from forewarn.core.errors import BadInput, ForewarnError, Refused, Unavailable
from forewarn.emulator.recording import RecordedDocument, RecordingHeader


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
