"""Reads large request bodies as streams: JSON lines, each a part of the same shape."""

import asyncio
from collections.abc import AsyncIterator, Callable
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
    request: Request[Any, Any, Any],
    decode: _Decode[_Body],
    take: Callable[[bytes], None] = lambda _: None,
    longest_line: int = _LONGEST_LINE,
) -> list[_Body]:
    """Read a body of one part, or one part per line; ``take`` receives its bytes as they arrive."""
    is_in_lines = request.headers.get("content-type", "").split(";")[0].strip().lower() in _LINES
    stream = _seen(request, take)
    if is_in_lines:
        return [part async for part in _lines(stream, decode, longest_line)]
    return [_read(await _whole(stream, longest_line), "body", decode)]


async def _seen(request: Request[Any, Any, Any], take: Callable[[bytes], None]) -> AsyncIterator[bytes]:
    async for chunk in request.stream():
        take(chunk)
        yield chunk


async def read_large_body(
    request: Request[Any, Any, Any],
    usual: _Body,
    decode: _Decode[_Body],
    take: Callable[[bytes], None] = lambda _: None,
) -> _Body:
    """Read a body and join its parts, in a thread where they are many; ``take`` receives its bytes as they arrive."""
    parts = await read_streamed_body(request, decode, take)
    return parts[0] if len(parts) == 1 else await asyncio.to_thread(join_parts, usual, parts)


def join_parts(usual: _Body, parts: list[_Body]) -> _Body:
    """Merge the parts: lists are joined; otherwise the first non-default value counts."""
    whole: dict[str, object] = {}
    for name in usual.__struct_fields__:
        default = getattr(usual, name)
        given = [getattr(part, name) for part in parts]
        if isinstance(default, tuple):
            joined: list[object] = []
            for values in given:  # not at once: other threads go on meanwhile
                joined.extend(values)
            whole[name] = tuple(joined)
        else:
            whole[name] = next((value for value in given if value != default), default)
    return msgspec.structs.replace(usual, **whole)


async def _whole(stream: AsyncIterator[bytes], longest: int) -> bytes:
    whole = bytearray()
    async for chunk in stream:
        whole += chunk
        if len(whole) > longest:
            raise InvalidRequest(FieldError("body", "is too large; send it as lines (application/jsonl)"))
    return bytes(whole)


async def _lines(stream: AsyncIterator[bytes], decode: _Decode[_Body], longest: int) -> AsyncIterator[_Body]:
    number, left = 0, b""
    async for chunk in stream:
        *lines, left = (left + chunk).split(b"\n")
        for line in lines:
            number += 1
            if line.strip():
                yield _read(line, f"line {number}", decode)
        if len(left) > longest:
            raise InvalidRequest(FieldError(f"line {number + 1}", "is too long; send less per line"))
    if left.strip():
        yield _read(left, f"line {number + 1}", decode)


def _read(text: bytes, place: str, decode: _Decode[_Body]) -> _Body:
    try:
        return decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidRequest.of(error, place) from None
