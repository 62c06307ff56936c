"""Parses a response of the service so that faults can change its parts, and encodes it again."""

from collections.abc import Callable

import msgspec


class ServiceResponse(msgspec.Struct, frozen=True):
    """One HTTP response."""

    line: bytes
    """The status line."""
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes

    @classmethod
    def read(cls, answer: bytes) -> "ServiceResponse":
        head, _, body = answer.partition(b"\r\n\r\n")
        line, *lines = head.split(b"\r\n")
        headers = tuple((name, value) for name, _, value in (each.partition(b": ") for each in lines))
        return cls(line, headers, body)

    @property
    def status(self) -> int:
        return int(self.line.split(b" ")[1])

    @property
    def head(self) -> bytes:
        return b"\r\n".join((self.line, *(b"%b: %b" % header for header in self.headers), b"", b""))

    def encode(self) -> bytes:
        return self.head + self.body

    def with_header(self, name: bytes, change: Callable[[bytes], bytes]) -> "ServiceResponse":
        """Change a header if it is present."""
        headers = tuple((key, change(value) if key == name else value) for key, value in self.headers)
        return msgspec.structs.replace(self, headers=headers)

    def with_body(self, body: bytes) -> "ServiceResponse":
        changed = self.with_header(b"Content-Length", lambda _: b"%d" % len(body))
        return msgspec.structs.replace(changed, body=body)
