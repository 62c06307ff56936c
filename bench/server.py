"""A server under measurement: where it listens, what it answers, what it costs."""

import socket
from collections.abc import Callable, Mapping

import msgspec

from bench.processes import cpu_seconds
from bench.wrk import TARGET, Load


class Server(msgspec.Struct, frozen=True):
    """A running server, ours or nginx."""

    name: str
    port: int
    pid: int

    def cost(self, load: Callable[["Server"], Load]) -> float:
        """Return the microseconds of CPU that the server spends on each request of a load."""
        before = cpu_seconds(self.pid)
        done = load(self)
        return (cpu_seconds(self.pid) - before) / done.requests * 1e6

    def ask(self, source: str = "127.0.0.1", fields: Mapping[str, str] | None = None) -> bytes:
        """Ask once, as the caller at ``source``, and return the whole answer as it came."""
        extra = "".join(f"{name}: {value}\r\n" for name, value in (fields or {}).items())
        with socket.create_connection(("127.0.0.1", self.port), 30, (source, 0)) as connection:
            connection.sendall(f"GET {TARGET} HTTP/1.1\r\nHost: 127.0.0.1\r\nMetadata: true\r\n{extra}\r\n".encode())
            received = b""
            while not _is_whole(received):
                piece = connection.recv(65536)
                if not piece:
                    break
                received += piece
        return received


def _is_whole(received: bytes) -> bool:
    head, end, body = received.partition(b"\r\n\r\n")
    if not end:
        return False
    return head.startswith(b"HTTP/1.1 304") or len(body) >= int(field(received, "Content-Length") or 0)


def field(answer: bytes, name: str) -> str:
    """Return a field of an answer's head; empty when it is not there."""
    for line in answer.partition(b"\r\n\r\n")[0].split(b"\r\n")[1:]:
        key, _, value = line.decode().partition(":")
        if key.lower() == name.lower():
            return value.strip()
    return ""
