"""Parser of request bodies: with a length or in chunks, at most 64 KiB."""

import re
from typing import Protocol

from forewarn.metadata.request_head import BODY_LIMIT, CHUNKED, HEAD_LIMIT, Refusal
from forewarn.wire import error_responses

_LINE_LIMIT = 1024
_CHUNK_LIMIT = 1024
"""More is not needed; a body of single-byte chunks would delay all other requests."""
_CHUNK_LINE = re.compile(rb"([0-9A-Fa-f]{1,8})(?:[ \t]*;[\t -~\x80-\xff]*+)?\r\n")
_BARE_LINE_FEED = re.compile(rb"(?<!\r)\n")
_TRAILERS = re.compile(rb"(?:[!#$%&'*+\-.^_`|~0-9A-Za-z]++:[\t -~\x80-\xff]*+\r\n)*+\r\n")


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
        end = _line_end(received, _LINE_LIMIT)
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
