"""HTTP/1.1 as bytes, over any connection: what to send for a request, and when its answer is whole.

head ──▶ body: as long as it says | in chunks | until the connection ends | none ──▶ answer
 ▲ 100 Continue
 └────┘
"""

from collections.abc import Callable

from forewarn.client.steps import HttpResponse, SendRequest

_BODY = 1 << 22
_HEAD = 1 << 14
"""Bytes that a body and a head may have; more is no document."""
_BLANK = b" \t"
_HEXADECIMAL = frozenset(b"0123456789abcdefABCDEF")


class MalformedResponse(Exception):
    """What was heard is no HTTP, or too much of it."""


class HttpCodec:
    """One connection's side of the talk: one request, one answer, and the next if the service keeps the line."""

    def __init__(self) -> None:
        self.is_open = True
        """Whether another request may follow."""
        self._heard = 0
        self._received = bytearray()
        self._lines: list[bytes] = []
        """Of the head, as far as it has come."""
        self._body = bytearray()
        self._status = 0
        self._headers: dict[str, str] = {}
        self._is_kept = False
        self._left = 0
        """Bytes of the body, or of the present chunk, that are still to come."""
        self._step: Callable[[], bool] = self._read_head
        """Reads on; tells whether more can be read from what has come."""
        self._is_whole = False

    @property
    def has_heard(self) -> bool:
        """Tell whether any byte of the present answer has come."""
        return self._heard > 0

    def say(self, request: SendRequest) -> bytes:
        """Return the bytes of a request."""
        headers = [("Host", request.endpoint.authority), ("Metadata", "true"), ("User-Agent", "forewarn")]
        headers += request.headers
        if request.method == "POST":
            headers += [("Content-Type", "application/json"), ("Content-Length", str(len(request.body)))]
        self.is_open, self._heard, self._is_whole, self._step = False, 0, False, self._read_head
        self._lines.clear()
        self._body.clear()
        lines = (f"{request.method} {request.target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers))
        return "\r\n".join((*lines, "", "")).encode("latin-1") + request.body

    def hear(self, data: bytes) -> HttpResponse | None:
        """Take bytes, none when the connection ended; return the answer once it is whole, and None until then."""
        self._heard += len(data)
        if self._heard > _BODY + _HEAD:
            raise _too_much()
        self._received += data
        while not self._is_whole and self._step():
            pass
        if not data and self._step == self._read_on:
            self._is_whole, self._is_kept = True, False
        if not self._is_whole:
            return None
        # What nobody asked for makes everything that follows doubtful.
        self.is_open = self._is_kept and not self._received
        return HttpResponse(self._status, self._headers, bytes(self._body))

    def _read_head(self) -> bool:
        if not self._lines and not self._received.startswith(b"HTTP/"[: len(self._received)]):
            raise _no_http("it begins otherwise")
        line = self._line()
        if line is None:
            return False
        if line:
            self._lines.append(line)
            if sum(map(len, self._lines)) > _HEAD:
                raise _no_http("its head has no end")
            return True
        version, self._status = _read_status(self._lines[0])
        fields = [_read_field(each) for each in self._lines[1:]]
        self._lines.clear()
        self._headers = dict(fields)
        if not 100 <= self._status < 200:  # else the answer itself is still to come
            self._is_kept = version == b"HTTP/1.1" and "close" not in self._headers.get("connection", "").lower()
            self._step = self._choose_body(fields)
        return True

    def _choose_body(self, fields: list[tuple[str, str]]) -> Callable[[], bool]:
        codings = [value.lower() for name, value in fields if name == "transfer-encoding"]
        lengths = {value for name, value in fields if name == "content-length"}
        if self._status in (204, 304):
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
        if self._left > _BODY:
            raise _too_much()
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
        """Take a line, if it has come whole; some end it with less than they should."""
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


def _read_status(line: bytes) -> tuple[bytes, int]:
    version, _, rest = line.partition(b" ")
    status = rest[:3]
    if version not in (b"HTTP/1.1", b"HTTP/1.0") or not (len(status) == 3 and status.isdigit()) or rest[3:4].strip():
        raise _no_http("its first line has no status")
    return version, int(status)


def _read_field(line: bytes) -> tuple[str, str]:
    name, colon, value = line.partition(b":")
    if not colon or not name or not all(33 <= letter < 127 for letter in name):
        raise _no_http("a header has no name")
    value = value.strip(_BLANK)
    # What is sent back, as a tag is, must not become a line of its own.
    if any((letter < 32 and letter not in _BLANK) or letter == 127 for letter in value):
        raise _no_http("a header has signs that are not to be seen")
    return name.decode("ascii").lower(), value.decode("latin-1")


def _no_http(why: str) -> MalformedResponse:
    return MalformedResponse(f"does not speak HTTP ({why})")


def _too_much() -> MalformedResponse:
    return MalformedResponse(f"sends more than {_BODY >> 20} MiB")
