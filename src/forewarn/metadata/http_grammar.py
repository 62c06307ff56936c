"""HTTP grammar of requests: parses heads and bodies strictly by RFC 9112.

Everything here is a function of bytes. Errors are raised as ``Refusal``; after one the start of the next request is
unknown, so the connection gets an error response and is closed.
"""

import re
from typing import Protocol

import msgspec

from forewarn.wire import error_responses
from forewarn.wire.error_responses import ErrorResponse

LINE_LIMIT = 8 * 1024
HEAD_LIMIT = 16 * 1024
FIELD_LIMIT = 100
BODY_LIMIT = 64 * 1024

NO_BODY = 0
CHUNKED = -1
_CHUNK_LINE_LIMIT = 1024
_CHUNK_LIMIT = 1024
"""More is not needed; a body of single-byte chunks would delay all other requests."""

_TCHAR = rb"!#$%&'*+\-.^_`|~0-9A-Za-z"
_TEXT = rb"\t -~\x80-\xff"
_REQUEST_LINE = re.compile(rb"([%b]++) ([!-~]++) HTTP/([0-9])\.([0-9])\r\n" % _TCHAR)
_FIELDS = re.compile(rb"(?:[%b]++:[%b]*+\r\n)*+" % (_TCHAR, _TEXT))
_EMPTY_LINES = re.compile(rb"(?:\r\n)++")
_BEGINNING = re.compile(rb"[%b]|\r\Z" % _TCHAR)
_CHUNK_LINE = re.compile(rb"([0-9A-Fa-f]{1,8})(?:[ \t]*;[%b]*+)?\r\n" % _TEXT)
_TRAILERS = re.compile(rb"(?:[%b]++:[%b]*+\r\n)*+\r\n" % (_TCHAR, _TEXT))
_BARE_LINE_FEED = re.compile(rb"(?<!\r)\n")
_HOST = re.compile(rb"(?:\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z\-._~%!$&'()*+,;=]*)(?::[0-9]*)?")
_MEANINGFUL_FIELDS = frozenset(
    (
        *(b"host", b"content-length", b"transfer-encoding", b"connection", b"expect"),
        *(b"metadata", b"x-forwarded-for", b"if-none-match", b"prefer"),
    )
)
"""The fields that this service uses; all others need only be well-formed."""


class Refusal(Exception):
    """Malformed request; the connection is closed after the error response."""

    def __init__(self, problem: ErrorResponse) -> None:
        super().__init__(problem.body.decode())
        self.problem = problem


class RequestHead(msgspec.Struct, frozen=True, gc=False):
    """The head of one well-formed request."""

    method: bytes
    target: bytes
    fields: dict[bytes, bytes]
    """The fields that this service uses, by name in lower case; repeated ones are joined."""
    length: int
    """The number of bytes of the body, or CHUNKED."""
    is_modern: bool
    """HTTP/1.1, not 1.0."""
    keeps_alive: bool
    expects_continue: bool


def skip_empty_lines(received: bytearray) -> None:
    """Remove the empty lines before a request; they have no meaning."""
    if lines := _EMPTY_LINES.match(received):
        del received[: lines.end()]


def find_end(received: bytes | bytearray, seen: int = 0) -> int:
    """Return where the head ends, or 0 while it is incomplete; refuse what is already known to be wrong.

    The result does not depend on how the bytes are split. The first ``seen`` bytes were searched before and are not
    searched again: else each byte could cost as much as all bytes before it.
    """
    end = received.find(b"\r\n\r\n", max(seen - 3, 0), HEAD_LIMIT)
    if end >= 0:
        return end + 4
    if received and not _BEGINNING.match(received):
        raise Refusal(error_responses.MALFORMED)
    _check_line(received, seen)
    if _BARE_LINE_FEED.search(received, seen, HEAD_LIMIT):
        raise Refusal(error_responses.MALFORMED)
    if len(received) >= HEAD_LIMIT:
        raise Refusal(error_responses.HEADERS_TOO_LARGE)
    return 0


def _check_line(received: bytes | bytearray, seen: int = 0) -> None:
    end = received.find(b"\r\n", 0, LINE_LIMIT)
    if end >= 0:
        if end + 2 > seen and not _REQUEST_LINE.match(received):
            raise Refusal(error_responses.MALFORMED)
    elif _BARE_LINE_FEED.search(received, seen, LINE_LIMIT):
        raise Refusal(error_responses.MALFORMED)
    elif len(received) >= LINE_LIMIT:
        raise Refusal(error_responses.URI_TOO_LONG)


def read_head(block: bytes) -> RequestHead:
    """Parse a complete head, its empty line included."""
    line = _REQUEST_LINE.match(block)
    if not line or line.end() > LINE_LIMIT:
        _check_line(block)
        raise Refusal(error_responses.MALFORMED)
    if not _FIELDS.fullmatch(block, line.end(), len(block) - 2):
        raise Refusal(error_responses.MALFORMED)
    if block.count(b"\r\n") > FIELD_LIMIT + 2:
        raise Refusal(error_responses.HEADERS_TOO_LARGE)
    method, target, major, minor = line.groups()
    if major != b"1":
        raise Refusal(error_responses.HTTP_VERSION_UNSUPPORTED)
    is_modern = minor != b"0"
    fields = _gather(block[line.end() : -4])
    _check_host(fields, is_modern=is_modern)
    length = _length(fields, is_modern=is_modern)
    expects_continue = _expects_continue(fields, is_modern=is_modern)
    return RequestHead(method, target, fields, length, is_modern, _keeps_alive(fields, is_modern), expects_continue)


def _gather(lines: bytes) -> dict[bytes, bytes]:
    fields: dict[bytes, bytes] = {}
    for line in lines.split(b"\r\n"):
        name, _, value = line.partition(b":")
        key = name.lower()
        if key not in _MEANINGFUL_FIELDS:
            continue
        if key not in fields:
            fields[key] = value.strip(b" \t")
        elif key in (b"host", b"content-length"):
            # Two of these, even two equal ones, are a means of request smuggling.
            raise Refusal(error_responses.MALFORMED)
        else:
            fields[key] += b", " + value.strip(b" \t")
    return fields


def _check_host(fields: dict[bytes, bytes], *, is_modern: bool) -> None:
    host = fields.get(b"host")
    if host is None:
        if is_modern:
            raise Refusal(error_responses.MALFORMED)
    elif not _HOST.fullmatch(host):
        raise Refusal(error_responses.MALFORMED)


def _length(fields: dict[bytes, bytes], *, is_modern: bool) -> int:
    length = fields.get(b"content-length")
    coding = fields.get(b"transfer-encoding")
    if coding is not None:
        if length is not None or not is_modern:
            raise Refusal(error_responses.MALFORMED)
        codings = _tokens(coding)
        if codings != [b"chunked"]:
            is_nonsense = not codings or codings.count(b"chunked") > 1
            raise Refusal(error_responses.MALFORMED if is_nonsense else error_responses.NOT_IMPLEMENTED)
        return CHUNKED
    if length is None:
        return NO_BODY
    # ``bytes.isdigit`` accepts ASCII digits only: no sign, blank or list.
    if not length.isdigit():
        raise Refusal(error_responses.MALFORMED)
    digits = length.lstrip(b"0") or b"0"
    if len(digits) > len(str(BODY_LIMIT)) or int(digits) > BODY_LIMIT:
        raise Refusal(error_responses.BODY_TOO_LARGE)
    return int(digits)


def _expects_continue(fields: dict[bytes, bytes], *, is_modern: bool) -> bool:
    expected = fields.get(b"expect")
    if expected is None or not is_modern:
        return False
    if expected.lower() != b"100-continue":
        raise Refusal(error_responses.EXPECTATION_FAILED)
    return True


def _keeps_alive(fields: dict[bytes, bytes], is_modern: bool) -> bool:  # noqa: FBT001 - see the call
    connection = fields.get(b"connection")
    if connection is None:
        return is_modern
    tokens = _tokens(connection)
    return b"close" not in tokens and (is_modern or b"keep-alive" in tokens)


def _tokens(value: bytes) -> list[bytes]:
    return [token for part in value.lower().split(b",") if (token := part.strip(b" \t"))]


class RequestBody(Protocol):
    """A body that is being received."""

    def take(self, received: bytearray) -> bytes | None:
        """Remove the body's bytes from the front; return the whole body once complete, else None."""


def body_of(length: int) -> RequestBody:
    """Return the parser for a body of this length, or in chunks."""
    return ChunkedBody() if length == CHUNKED else LengthBody(length)


class LengthBody:
    """A body with a known length."""

    def __init__(self, length: int) -> None:
        self._length = length

    def take(self, received: bytearray) -> bytes | None:
        if len(received) < self._length:
            return None
        body = bytes(received[: self._length])
        del received[: self._length]
        return body


class ChunkedBody:
    """A body in chunks. Extensions and trailers must be well-formed and are ignored."""

    def __init__(self) -> None:
        self._body = bytearray()
        self._missing: int | None = None
        """Bytes missing of the current chunk, its line end included; None between chunks."""
        self._chunks = 0
        self._is_over = False

    def take(self, received: bytearray) -> bytes | None:
        while not self._is_over:
            if self._missing is None and not self._begin_chunk(received):
                return None
            if self._missing is not None and not self._take_chunk(received):
                return None
        return bytes(self._body) if self._take_trailers(received) else None

    def _begin_chunk(self, received: bytearray) -> bool:
        end = _line_end(received, _CHUNK_LINE_LIMIT)
        if not end:
            return False
        line = _CHUNK_LINE.fullmatch(received, 0, end)
        if not line:
            raise Refusal(error_responses.MALFORMED)
        size = int(line[1], 16)
        self._chunks += 1
        if len(self._body) + size > BODY_LIMIT or self._chunks > _CHUNK_LIMIT:
            raise Refusal(error_responses.BODY_TOO_LARGE)
        del received[:end]
        if size:
            self._missing = size + 2
        else:
            self._is_over = True
        return True

    def _take_chunk(self, received: bytearray) -> bool:
        if self._missing is None or len(received) < self._missing:
            return False
        size = self._missing - 2
        if received[size : size + 2] != b"\r\n":
            raise Refusal(error_responses.MALFORMED)
        self._body += received[:size]
        del received[: size + 2]
        self._missing = None
        return True

    def _take_trailers(self, received: bytearray) -> bool:
        end = 2 if received.startswith(b"\r\n") else received.find(b"\r\n\r\n", 0, HEAD_LIMIT) + 4
        if end == 3:  # not found
            if _BARE_LINE_FEED.search(received, 0, HEAD_LIMIT):
                raise Refusal(error_responses.MALFORMED)
            if len(received) >= HEAD_LIMIT:
                raise Refusal(error_responses.HEADERS_TOO_LARGE)
            return False
        if not _TRAILERS.fullmatch(received, 0, end):
            raise Refusal(error_responses.MALFORMED)
        del received[:end]
        return True


def _line_end(received: bytearray, limit: int) -> int:
    """Return the end of the first line, or 0 if it is incomplete; refuse a line that is too long or malformed."""
    end = received.find(b"\n", 0, limit) + 1
    if not end and len(received) >= limit:
        raise Refusal(error_responses.MALFORMED)
    if end and received[end - 2 : end] != b"\r\n":
        raise Refusal(error_responses.MALFORMED)
    return end
