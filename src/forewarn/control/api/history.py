"""History: what the record holds of a VM, a group, a host, an event, a caller or a time."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Literal

from litestar import Router
from litestar.params import FromQuery, QueryParameter
from litestar.response import Stream
from msgspec.structs import replace

from forewarn.control.access import Action, Bearer
from forewarn.control.api.paging import Cursor, Limit, no_cursor, read_cursor, write_cursor
from forewarn.control.api.plane import Asking, Behind, Plane
from forewarn.control.api.problems import Misshapen
from forewarn.control.api.routing import reads
from forewarn.control.bodies import Instant, Misfit, Page
from forewarn.control.history import Answer, Question, answer
from forewarn.control.lines import Line, as_csv, as_json_lines
from forewarn.core.fleet import Fleet

_TAGS = ("History",)
_MEDIA_TYPES = {"csv": "text/csv; charset=utf-8; header=present", "jsonl": "application/jsonl"}
_EXPORTED_AT_A_TIME = 1_000
_Order = Annotated[Literal["newest", "oldest"], QueryParameter(description="Which lines come first.")]
_Since = Annotated[Instant | None, QueryParameter(description="Lines recorded at this time or later.")]
_Until = Annotated[Instant | None, QueryParameter(description="Lines recorded before this time.")]
_Format = Annotated[Literal["csv", "jsonl"], QueryParameter(description="How the lines are written.")]
_Most = Annotated[int, QueryParameter(ge=1, le=10_000_000, description="How many lines are written at most.")]


@reads("/", Action.READ_HISTORY, summary="Read the record", tags=_TAGS)
async def read_history(
    plane: Behind,
    bearer: Asking,
    limit: Limit = 100,
    cursor: Cursor = None,
    vm: FromQuery[str] = "",
    group: FromQuery[str] = "",
    host: FromQuery[str] = "",
    event: FromQuery[str] = "",
    caller: FromQuery[str] = "",
    since: _Since = None,
    until: _Until = None,
    order: _Order = "newest",
) -> Page[Line]:
    """Tell what happened, line by line; all that is given must fit."""
    question = await _question(plane, bearer, vm, group, host, event, caller, since, until, order)
    return _page(await _answer(plane, bearer, replace(question, limit=limit, behind=_read_place(cursor))))


@reads("/export", Action.READ_HISTORY, summary="Export the record", tags=_TAGS, media_type="text/csv")
async def export_history(
    plane: Behind,
    bearer: Asking,
    format: _Format = "csv",
    limit: _Most = 1_000_000,
    vm: FromQuery[str] = "",
    group: FromQuery[str] = "",
    host: FromQuery[str] = "",
    event: FromQuery[str] = "",
    caller: FromQuery[str] = "",
    since: _Since = None,
    until: _Until = None,
    order: _Order = "oldest",
) -> Stream:
    """Write what happened as CSV or as JSON lines, whole, as it is read."""
    question = await _question(plane, bearer, vm, group, host, event, caller, since, until, order)
    first = await _answer(plane, bearer, replace(question, limit=min(limit, _EXPORTED_AT_A_TIME)))
    lines = _written(plane, bearer, question, first, format, limit)
    return Stream(lines, headers={"Content-Type": _MEDIA_TYPES[format]})


async def _written(
    plane: Plane, bearer: Bearer, question: Question, found: Answer, format_: str, left: int
) -> AsyncIterator[str]:
    yield as_csv(found.lines) if format_ == "csv" else as_json_lines(found.lines)
    left -= len(found.lines)
    while left > 0 and not found.is_all:
        behind = found.lines[-1].place
        found = await _answer(plane, bearer, replace(question, limit=min(left, _EXPORTED_AT_A_TIME), behind=behind))
        left -= len(found.lines)
        yield as_csv(found.lines, with_head=False) if format_ == "csv" else as_json_lines(found.lines)


async def _question(
    plane: Plane,
    bearer: Bearer,
    vm: str,
    group: str,
    host: str,
    event: str,
    caller: str,
    since: _Since,
    until: _Until,
    order: str,
) -> Question:
    if host:
        bearer.require(Action.READ_HOSTS)
    for name, when in (("since", since), ("until", until)):
        if when is not None and when.tzinfo is None:
            raise Misshapen(Misfit(f"query.{name}", "lacks its zone; write it like 2026-01-31T14:32:00Z"))
    return Question(
        vm=vm,
        group=group,
        host=host,
        event=await plane.record.whole_id(bearer, event) if event else "",
        caller=caller,
        since=since,
        until=until,
        oldest_first=order == "oldest",
    )


async def _answer(plane: Plane, bearer: Bearer, question: Question) -> Answer:
    # In a thread of its own: others who read the journal do not wait behind a long history.
    found = await asyncio.to_thread(answer, plane.journal, plane.node.fleet, plane.node.revision, question, bearer)
    if not found.lines and question.behind is None:
        await plane.node.look(lambda fleet: _check_names(fleet, question, bearer))
    return found


def _check_names(fleet: Fleet, question: Question, bearer: Bearer) -> None:
    """Refuse names that are neither on record nor in the fleet; of those that left it, the record tells."""
    if question.vm:
        bearer.vm(fleet, question.vm)
    if question.group:
        bearer.group(fleet, question.group)
    if question.host:
        bearer.host(fleet, question.host)


def _page(found: Answer) -> Page[Line]:
    if found.is_all:
        return Page(found.lines)
    revision, number = found.lines[-1].place
    return Page(found.lines, write_cursor(f"{revision}.{number}"))


def _read_place(cursor: str | None) -> tuple[int, int] | None:
    if not cursor:
        return None
    revision, dot, number = read_cursor(cursor).partition(".")
    if not (dot and all(part.isascii() and part.isdigit() and len(part) < 19 for part in (revision, number))):
        raise no_cursor()
    return int(revision), int(number)


history = Router("/history", route_handlers=[read_history, export_history])
