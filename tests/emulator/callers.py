"""Callers of the emulator for the tests of this folder: plain HTTP, and bare sockets."""

import http.client
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import msgspec

from forewarn.wire import approval

DOCUMENT = "/metadata/scheduledevents?api-version={}"
NEWEST = "2020-07-01"
PATIENCE = 60.0


class CallerResponse(msgspec.Struct, frozen=True):
    """What a caller was told."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@contextmanager
def connected(url: str) -> Iterator[http.client.HTTPConnection]:
    """Keep one connection open for several requests."""
    where = urlsplit(url)
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=PATIENCE)
    try:
        yield connection
    finally:
        connection.close()


def ask_on(
    connection: http.client.HTTPConnection, method: str = "GET", body: bytes | None = None, version: str = NEWEST
) -> CallerResponse:
    connection.request(method, DOCUMENT.format(version), body, {"Metadata": "true"})
    response = connection.getresponse()
    return CallerResponse(
        response.status, {key.lower(): value for key, value in response.getheaders()}, response.read()
    )


def ask(url: str, version: str = NEWEST) -> CallerResponse:
    """Ask for the document once."""
    with connected(url) as connection:
        return ask_on(connection, version=version)


def approve(url: str, *events: str) -> CallerResponse:
    """Approve events once."""
    with connected(url) as connection:
        return ask_on(connection, "POST", approval.encode(events))


def send(url: str, *parts: bytes) -> bytes:
    """Send bytes as they are, part by part, and return all that comes back until the other side closes."""
    where = urlsplit(url)
    with socket.create_connection((where.hostname, where.port), PATIENCE) as opened:
        received = b""
        for part in parts:
            opened.sendall(part)
            if part is not parts[-1]:
                received += opened.recv(65_536)
        while block := opened.recv(65_536):
            received += block
    return received
