"""Pagination of lists by cursors.

    GET /v1/vms?limit=100                      {"items": [...], "next": "6QrX_XdlYi05OQ"}
    GET /v1/vms?limit=100&cursor=6QrX_XdlYi05OQ

A cursor holds the key of the last item, and a checksum to reject invented ones. It stays valid whatever is added or
removed meanwhile: every item present all the time is returned once.
"""

import asyncio
from base64 import urlsafe_b64decode, urlsafe_b64encode
from bisect import bisect_right
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from heapq import merge
from itertools import islice
from typing import Annotated, Literal, TypeVar, get_args
from zlib import crc32

from litestar.params import QueryParameter

from forewarn.control.api.problems import InvalidRequest
from forewarn.control.bodies import FieldError, ResultPage
from forewarn.core.facts import RecordSetChanged
from forewarn.core.fleet import Fleet
from forewarn.node.feed import Commit
from forewarn.node.replica import Replica

_Record = TypeVar("_Record")
_View = TypeVar("_View")
FleetCollection = Literal["hosts", "groups", "vms"]
_CHUNK = 20_000
"""Names sorted in one step, within a few milliseconds."""
_CHECKED = 20_000
"""Records that are checked for a page before it ends, if a filter matches few."""

Limit = Annotated[int, QueryParameter(ge=1, le=1_000, description="How many items a page holds at most.")]
RecordLimit = Annotated[int, QueryParameter(ge=1, le=10_000, description="How many records a page holds at most.")]
Cursor = Annotated[str | None, QueryParameter(description="`next` of the previous page.", max_length=1_000)]


def write_cursor(key: str) -> str:
    written = key.encode()
    return urlsafe_b64encode(crc32(written).to_bytes(4, "big") + written).decode().rstrip("=")


def read_cursor(cursor: str | None) -> str:
    """Return the key in a cursor; empty if there is none."""
    if not cursor:
        return ""
    try:
        key = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))[4:].decode()
    except ValueError:
        raise invalid_cursor() from None
    if write_cursor(key) != cursor:
        raise invalid_cursor()
    return key


def invalid_cursor() -> InvalidRequest:
    return InvalidRequest(FieldError("query.cursor", "is not a cursor; use `next` of the previous page"))


class NameIndex:
    """Sorted names of all hosts, groups and VMs; sorted again after additions and removals.

    A million names are sorted in chunks, yielding to the event loop in between, and merged as far as a page reaches.
    """

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._chunks: dict[str, list[list[str]]] = {}

    def load(self, fleet: Fleet) -> None:
        self._chunks = {}

    def publish(self, commit: Commit) -> None:
        if commit.holds(get_args(RecordSetChanged)):
            self._chunks = {}

    async def after(self, kind: FleetCollection, key: str) -> Iterator[str]:
        """Return the names after ``key``, in order."""
        chunks = self._chunks.get(kind)
        if chunks is None:
            # A change during sorting replaces the dictionary, so the result is stored in the old one.
            known = self._chunks
            names = list(getattr(self._replica.fleet, kind))
            chunks = [chunk async for chunk in _sorted_chunks(names)]
            known[kind] = chunks
        return merge(*(islice(chunk, bisect_right(chunk, key), None) for chunk in chunks))


async def _sorted_chunks(names: list[str]) -> AsyncIterator[list[str]]:
    for begin in range(0, len(names), _CHUNK):
        yield sorted(names[begin : begin + _CHUNK])
        await asyncio.sleep(0)  # VMs are answered in between


def names_after(names: Iterable[str], key: str) -> Iterator[str]:
    """Return the names after ``key`` of a small collection, in order."""
    return (name for name in sorted(names) if name > key)


def make_page(
    found: Iterable[tuple[str, _Record | None]],
    limit: int,
    view: Callable[[_Record], _View],
    most_checked: int = _CHECKED,
) -> ResultPage[_View]:
    """Return a page of the records under sorted keys; missing ones are skipped."""
    items: list[_View] = []
    last = ""
    for checked, (key, record) in enumerate(found):
        if len(items) >= limit or checked >= most_checked:
            return ResultPage(tuple(items), write_cursor(last))
        if record is not None:
            items.append(view(record))
        last = key
    return ResultPage(tuple(items))
