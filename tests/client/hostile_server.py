"""A server that answers whatever a test likes, byte by byte."""

import socket
import threading
from collections import deque
from contextlib import suppress
from typing import Self

import msgspec

from forewarn.client.endpoint_url import EndpointUrl
from forewarn.client.steps import SendRequest

DOCUMENT = b'{"DocumentIncarnation":1,"Events":[]}'


class CannedResponse(msgspec.Struct, frozen=True):
    """What is sent when a request has come."""

    data: bytes = b""
    then: str = "close"
    """``close``, ``keep`` for the next request, ``drip`` on byte by byte, ``hang`` in silence, or ``reset``."""


def whole(body: bytes = DOCUMENT, *headers: str, status: str = "200 OK", then: str = "keep") -> CannedResponse:
    """Return a whole answer."""
    lines = (f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body)}", "", "")
    return CannedResponse("\r\n".join(lines).encode() + body, then)


class HostileServer:
    """Answers the requests of all connections in turn; the last answer is given again and again."""

    def __init__(self, *said: CannedResponse) -> None:
        self._said = deque(said)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self._open: set[socket.socket] = set()
        self.requests: list[bytes] = []
        self._heard = threading.Condition()
        self.connections = 0
        self.endpoint = EndpointUrl("127.0.0.1", self._listener.getsockname()[1])

    @property
    def url(self) -> str:
        return f"http://{self.endpoint.authority}"

    def get(self, seconds: float = 30.0) -> SendRequest:
        return SendRequest(endpoint=self.endpoint, target=self.endpoint.path, seconds=seconds)

    def wait_for_requests(self, count: int) -> None:
        """Return once so many have come."""
        with self._heard:
            assert self._heard.wait_for(lambda: len(self.requests) >= count, 60)

    def __enter__(self) -> Self:
        self._begin(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in tuple(self._open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()

    def _begin(self, *call: object) -> None:
        thread = threading.Thread(target=call[0], args=call[1:])  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._open.add(connection)
            self._begin(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):  # a client may have had enough
            while self._answer(connection):
                pass
        self._open.discard(connection)

    def _answer(self, connection: socket.socket) -> bool:
        heard = b""
        while b"\r\n\r\n" not in heard:
            data = connection.recv(65_536)
            if not data:
                return False
            heard += data
        with self._heard:
            self.requests.append(heard)
            self._heard.notify_all()
        said = self._said.popleft() if len(self._said) > 1 else self._said[0]
        if said.then == "reset":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            return False
        connection.sendall(said.data)
        if said.then == "hang":
            connection.recv(1)  # until the client hangs up
        while said.then == "drip" and not self._stopping.wait(0.02):
            connection.sendall(b"x")
        return said.then == "keep"
