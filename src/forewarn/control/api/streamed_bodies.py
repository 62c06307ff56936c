"""Reads large request bodies as streams: JSON lines, each a part of the same shape."""

from collections.abc import AsyncIterator, Callable
from itertools import chain
from typing import Any, TypeVar

import msgspec
from litestar import Request

from forewarn.control.api.problems import InvalidRequest
from forewarn.control.bodies import ApiBody, FieldError

LARGEST_CHANGE = 2 * 1024 * 1024 * 1024
_LONGEST_LINE = 8 * 1024 * 1024
_LINES = ("application/jsonl", "application/x-ndjson")
_Body = TypeVar("_Body", bound=ApiBody)
_Decode = Callable[[bytes], _Body]


async def read_streamed_body(
    request: Request[Any, Any, Any], decode: _Decode[_Body], take: Callable[[bytes], None] = lambda _: None
) -> list[_Body]:
    """Read a body of one part, or one part per line; ``take`` receives its bytes as they arrive."""
    is_in_lines = request.headers.get("content-type", "").split(";")[0].strip().lower() in _LINES
    stream = _seen(request, take)
    if is_in_lines:
        return [part async for part in _lines(stream, decode)]
    return [_read(await _whole(stream), "body", decode)]


async def _seen(request: Request[Any, Any, Any], take: Callable[[bytes], None]) -> AsyncIterator[bytes]:
    async for chunk in request.stream():
        take(chunk)
        yield chunk


def join_parts(usual: _Body, parts: list[_Body]) -> _Body:
    """Merge the parts: lists are joined; otherwise the first non-default value counts."""
    if len(parts) == 1:
        return parts[0]
    whole: dict[str, object] = {}
    for name in usual.__struct_fields__:
        default = getattr(usual, name)
        given = [getattr(part, name) for part in parts]
        if isinstance(default, tuple):
            whole[name] = tuple(chain.from_iterable(given))
        else:
            whole[name] = next((value for value in given if value != default), default)
    return msgspec.structs.replace(usual, **whole)


async def _whole(stream: AsyncIterator[bytes]) -> bytes:
    whole = bytearray()
    async for chunk in stream:
        whole += chunk
        if len(whole) > _LONGEST_LINE:
            raise InvalidRequest(FieldError("body", "is too large; send it as lines (application/jsonl)"))
    return bytes(whole)


async def _lines(stream: AsyncIterator[bytes], decode: _Decode[_Body]) -> AsyncIterator[_Body]:
    number, left = 0, b""
    async for chunk in stream:
        *lines, left = (left + chunk).split(b"\n")
        for line in lines:
            number += 1
            if line.strip():
                yield _read(line, f"line {number}", decode)
        if len(left) > _LONGEST_LINE:
            raise InvalidRequest(FieldError(f"line {number + 1}", "is too long; send less per line"))
    if left.strip():
        yield _read(left, f"line {number + 1}", decode)


def _read(text: bytes, place: str, decode: _Decode[_Body]) -> _Body:
    try:
        return decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidRequest.of(error, place) from None
