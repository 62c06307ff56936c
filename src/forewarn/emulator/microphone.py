"""Records an endpoint: asks it again and again, and keeps every document that differs from the one before."""

import http.client
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO
from urllib.parse import urlsplit

import msgspec

from forewarn.core.errors import BadInput, Unavailable
from forewarn.emulator.recording import Beginning, Take
from forewarn.wire.bodies import BadBody
from forewarn.wire.document import parse
from forewarn.wire.problems import read_problem

_PATIENCE = 125.0
"""Azure: the first call may take two minutes."""


class Endpoint:
    """A server that speaks Scheduled Events; it is asked directly, past any proxy."""

    def __init__(self, url: str, api_version: str) -> None:
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname:
            raise BadInput(f"{url!r} is no address of an endpoint; write it like http://169.254.169.254")
        self._host, self._port = parts.hostname, parts.port or 80
        self._path = parts.path.rstrip("/") or "/metadata/scheduledevents"
        self.api_version = api_version

    def document(self) -> str:
        """Return the document; raise Unavailable when there is none to be had."""
        body = self._get(f"{self._path}?api-version={self.api_version}")
        try:
            parse(body)
        except BadBody as error:
            raise Unavailable(f"{self._host} answers something else: {error}") from None
        return body.decode(errors="replace")

    def own_name(self) -> str:
        """Return the name of the VM that asks; empty where the endpoint does not tell."""
        try:
            return self._get("/metadata/instance/compute/name?api-version=2019-08-01&format=text").decode().strip()
        except (Unavailable, UnicodeDecodeError):
            return ""

    def _get(self, target: str) -> bytes:
        connection = http.client.HTTPConnection(self._host, self._port, timeout=_PATIENCE)
        try:
            connection.request("GET", target, headers={"Metadata": "true"})
            answer = connection.getresponse()
            body = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise Unavailable(f"{self._host}:{self._port} does not answer: {error}") from None
        finally:
            connection.close()
        if answer.status != http.client.OK:
            raise Unavailable(f"{self._host}:{self._port} answers {answer.status}: {read_problem(body)}")
        return body


def open_recording(path: Path, endpoint: Endpoint) -> TextIO:
    """Begin a recording in a new file; what is there already is not written over."""
    try:
        file = path.open("x", encoding="utf-8")
    except FileExistsError:
        raise BadInput(f"{path} exists already; name another file") from None
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror}") from None
    _write(file, Beginning(vm=endpoint.own_name(), api_version=endpoint.api_version))
    return file


def takes(endpoint: Endpoint, file: TextIO) -> Iterator[Take | None]:
    """Ask once for each turn; yield the document where it is another one, and None where it is not."""
    last = ""
    while True:
        body = endpoint.document()
        if body == last:
            yield None
            continue
        last = body
        take = Take(datetime.now(UTC), body)
        _write(file, take)
        yield take


def _write(file: TextIO, record: msgspec.Struct) -> None:
    file.write(msgspec.json.encode(record).decode() + "\n")
    file.flush()
