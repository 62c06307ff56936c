"""The client side of HTTP/1.1 without I/O: requests become bytes, and bytes become responses.

head ──▶ body: as long as it says | in chunks | until the connection ends | none ──▶ answer
 ▲ 100 Continue
 └────┘
"""

from collections.abc import Callable

import msgspec

LARGEST_BODY = 1 << 22
"""Default limit of a body in bytes."""
_HEAD = 1 << 14
"""Limit of a head in bytes."""
_BLANK = b" \t"
_HEXADECIMAL = frozenset(b"0123456789abcdefABCDEF")
_WITH_BODY = frozenset({"PATCH", "POST", "PUT"})
"""Methods with a Content-Length header even if the body is empty."""
_FRAMING = ("content-length", "transfer-encoding")
_CONTROL = frozenset(map(chr, (*range(9), *range(10, 32), 127)))


class HttpRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request; ``Host`` and ``Content-Length`` are added if they are missing."""

    method: str = "GET"
    target: str
    host: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None


class HttpResponse(msgspec.Struct, frozen=True):
    """A complete response; header names are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes = b""


def authority(host: str, port: int, default_port: int) -> str:
    """Return the value of ``Host``."""
    name = f"[{host}]" if ":" in host else host if host.isascii() else host.encode("idna").decode()
    return name if port == default_port else f"{name}:{port}"


class MalformedResponse(Exception):
    """The response is not HTTP, or too large; the message is a predicate: "does not speak HTTP"."""


class HttpCodec:
    """One connection: one request, its response, and the next request if the server keeps the connection open."""

    def __init__(self, largest: int | None = LARGEST_BODY) -> None:
        self.is_open = True
        """Whether another request may follow."""
        self.status = 0
        """The status of the response; 0 until the head is complete."""
        self.reason = ""
        self.fields: tuple[tuple[str, str], ...] = ()
        """Its headers, unchanged."""
        self._largest = largest
        """Limit of a body in bytes; None if it is unlimited, for users that read it in pieces."""
        self._byte_count = 0
        self._received = bytearray()
        self._lines: list[bytes] = []
        """The part of the head received so far."""
        self._head_size = 0
        self._body = bytearray()
        self._headers: dict[str, str] = {}
        self._has_no_body = False
        self._is_kept = False
        self._left = 0
        """Missing bytes of the body, or of the current chunk."""
        self._step: Callable[[], bool] = self._read_head
        """The parser of the current state; returns whether it can parse more of the received bytes."""
        self._is_whole = False

    @property
    def has_received(self) -> bool:
        """Return whether any byte of the current response was received."""
        return self._byte_count > 0

    def encode(self, request: HttpRequest) -> bytes:
        """Return the bytes of a request; raise ValueError for characters that a header cannot contain."""
        given = {name.lower() for name, _ in request.headers}
        headers = [*(() if "host" in given else (("Host", request.host),)), *request.headers]
        if (request.body is not None or request.method in _WITH_BODY) and given.isdisjoint(_FRAMING):
            headers.append(("Content-Length", str(len(request.body or b""))))
        for name, value in (("method", request.method), ("target", request.target), *headers):
            if not _CONTROL.isdisjoint(name + value) or (name == "target" and " " in value):
                raise ValueError(f"the request's {name} holds characters that cannot be sent")
        self.is_open, self._byte_count, self._is_whole, self._step = False, 0, False, self._read_head
        self.status, self._has_no_body = 0, request.method == "HEAD"
        self._lines.clear()
        self._head_size = 0
        self._body.clear()
        lines = (f"{request.method} {request.target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers))
        return "\r\n".join((*lines, "", "")).encode("latin-1") + (request.body or b"")

    def feed(self, data: bytes) -> HttpResponse | None:
        """Parse received bytes (none at the end of the connection); return the response once it is complete."""
        self._byte_count += len(data)
        if self._largest is not None and self._byte_count > self._largest + _HEAD:
            raise self._too_much()
        self._received += data
        while not self._is_whole and self._step():
            pass
        if not data and self._step == self._read_on:
            self._is_whole, self._is_kept = True, False
        if not self._is_whole:
            return None
        # Bytes without a request make all that follows unreliable.
        self.is_open = self._is_kept and not self._received
        return HttpResponse(self.status, self._headers, bytes(self._body))

    def take_body(self) -> bytes:
        """Return the part of the body received since the last call; it is not part of the complete response."""
        taken = bytes(self._body)
        self._body.clear()
        return taken

    def _read_head(self) -> bool:
        if not self._lines and not self._received.startswith(b"HTTP/"[: len(self._received)]):
            raise _no_http("it begins otherwise")
        line = self._line()
        if line is None:
            return False
        if line:
            self._lines.append(line)
            self._head_size += len(line)
            if self._head_size > _HEAD:
                raise _no_http("its head has no end")
            return True
        version, status, reason = _read_status(self._lines[0])
        fields = tuple(_read_field(each) for each in self._lines[1:])
        self._lines.clear()
        self._head_size = 0
        if not 100 <= status < 200:  # else the final response follows
            self.status, self.reason, self.fields = status, reason, fields
            self._headers = {name.lower(): value for name, value in fields}
            self._is_kept = version == b"HTTP/1.1" and "close" not in self._headers.get("connection", "").lower()
            self._step = self._choose_body()
        return True

    def _choose_body(self) -> Callable[[], bool]:
        codings = [value.lower() for name, value in self.fields if name.lower() == "transfer-encoding"]
        lengths = {value for name, value in self.fields if name.lower() == "content-length"}
        if self._has_no_body or self.status in (204, 304):
            self._left = 0
            return self._read_rest
        if codings:
            if codings != ["chunked"]:
                raise _no_http("it sends in an unknown coding")
            return self._read_size
        if not lengths:
            return self._read_on
        length = lengths.pop()
        if lengths or not (length.isascii() and length.isdigit() and len(length) < 20):
            raise _no_http("its length is not one number")
        self._left = int(length)
        if self._largest is not None and self._left > self._largest:
            raise self._too_much()
        return self._read_rest

    def _read_on(self) -> bool:
        self._body += self._take(len(self._received))
        return False

    def _read_rest(self) -> bool:
        part = self._take(min(self._left, len(self._received)))
        self._body += part
        self._left -= len(part)
        self._is_whole = self._left == 0
        return False

    def _read_size(self) -> bool:
        line = self._line()
        if line is None:
            return False
        size = line.partition(b";")[0].strip(_BLANK)
        if not 0 < len(size) < 16 or not _HEXADECIMAL.issuperset(size):
            raise _no_http("a chunk has no size")
        self._left = int(size, 16)
        self._step = self._read_chunk if self._left else self._read_trailer
        return True

    def _read_chunk(self) -> bool:
        part = self._take(min(self._left, len(self._received)))
        self._body += part
        self._left -= len(part)
        if self._left or len(self._received) < 2:
            return False
        if self._take(2) != b"\r\n":
            raise _no_http("a chunk is longer than it says")
        self._step = self._read_size
        return True

    def _read_trailer(self) -> bool:
        line = self._line()
        self._is_whole = line == b""
        return line is not None

    def _line(self) -> bytes | None:
        """Take a complete line; some servers end it with LF only."""
        end = self._received.find(b"\n", 0, _HEAD)
        if end < 0:
            if len(self._received) >= _HEAD:
                raise _no_http("a line has no end")
            return None
        return bytes(self._take(end + 1)[:-1].removesuffix(b"\r"))

    def _take(self, count: int) -> bytearray:
        taken = self._received[:count]
        del self._received[:count]
        return taken

    def _too_much(self) -> MalformedResponse:
        return MalformedResponse(f"sends more than {(self._largest or 0) >> 20} MiB")


def _read_status(line: bytes) -> tuple[bytes, int, str]:
    version, _, rest = line.partition(b" ")
    status = rest[:3]
    if version not in (b"HTTP/1.1", b"HTTP/1.0") or not (len(status) == 3 and status.isdigit()) or rest[3:4].strip():
        raise _no_http("its first line has no status")
    reason = "".join(letter for letter in rest[4:].decode("latin-1") if letter.isprintable())
    return version, int(status), reason.strip()


def _read_field(line: bytes) -> tuple[str, str]:
    name, colon, value = line.partition(b":")
    if not colon or not name or not all(33 <= letter < 127 for letter in name):
        raise _no_http("a header has no name")
    value = value.strip(_BLANK)
    # Values that are sent back, such as a tag, must not contain line ends.
    if any((letter < 32 and letter not in _BLANK) or letter == 127 for letter in value):
        raise _no_http("a header has control characters")
    return name.decode("ascii"), value.decode("latin-1")


def _no_http(why: str) -> MalformedResponse:
    return MalformedResponse(f"does not speak HTTP ({why})")
