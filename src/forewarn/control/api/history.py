"""History: journal entries of a VM, a group, a host, a rollout, an event, a caller or a period."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Literal

from litestar import Router
from litestar.params import FromQuery, QueryParameter
from litestar.response import Stream
from msgspec.structs import replace

from forewarn.audit.history import HistoryPage, HistoryQuery, read_history_page
from forewarn.audit.history_lines import HistoryLine, as_csv, as_json_lines
from forewarn.control.api.context import ApiContext, ContextDependency, PrincipalDependency
from forewarn.control.api.paging import Cursor, Limit, invalid_cursor, read_cursor, write_cursor
from forewarn.control.api.problems import InvalidRequest
from forewarn.control.api.routing import reads
from forewarn.control.bodies import FieldError, Instant, ResultPage
from forewarn.core.access import Action, Principal
from forewarn.core.fleet import Fleet

_MEDIA_TYPES = {"csv": "text/csv; charset=utf-8; header=present", "jsonl": "application/jsonl"}
_EXPORTED_AT_A_TIME = 1_000
_Order = Annotated[Literal["newest", "oldest"], QueryParameter(description="Which lines come first.")]
_Since = Annotated[Instant | None, QueryParameter(description="Lines recorded at this time or later.")]
_Until = Annotated[Instant | None, QueryParameter(description="Lines recorded before this time.")]
_Format = Annotated[Literal["csv", "jsonl"], QueryParameter(description="How the lines are written.")]
_Most = Annotated[int, QueryParameter(ge=1, le=10_000_000, description="How many lines are written at most.")]


@reads("/", Action.READ_HISTORY, summary="Read the history")
async def read_history(
    context: ContextDependency,
    principal: PrincipalDependency,
    limit: Limit = 100,
    cursor: Cursor = None,
    vm: FromQuery[str] = "",
    group: FromQuery[str] = "",
    host: FromQuery[str] = "",
    rollout: FromQuery[str] = "",
    event: FromQuery[str] = "",
    caller: FromQuery[str] = "",
    since: _Since = None,
    until: _Until = None,
    order: _Order = "newest",
) -> ResultPage[HistoryLine]:
    """Return the history, line by line; all filters must match."""
    query = await _query(context, principal, vm, group, host, rollout, event, caller, since, until, order)
    return _page(await _answer(context, principal, replace(query, limit=limit, behind=_read_place(cursor))))


@reads("/export", Action.READ_HISTORY, summary="Export the history", media_type="text/csv")
async def export_history(
    context: ContextDependency,
    principal: PrincipalDependency,
    format: _Format = "csv",
    limit: _Most = 1_000_000,
    vm: FromQuery[str] = "",
    group: FromQuery[str] = "",
    host: FromQuery[str] = "",
    rollout: FromQuery[str] = "",
    event: FromQuery[str] = "",
    caller: FromQuery[str] = "",
    since: _Since = None,
    until: _Until = None,
    order: _Order = "oldest",
) -> Stream:
    """Export the history as CSV or JSON lines, streamed."""
    query = await _query(context, principal, vm, group, host, rollout, event, caller, since, until, order)
    first = await _answer(context, principal, replace(query, limit=min(limit, _EXPORTED_AT_A_TIME)))
    lines = _written(context, principal, query, first, format, limit)
    return Stream(lines, headers={"Content-Type": _MEDIA_TYPES[format]})


async def _written(
    context: ApiContext, principal: Principal, query: HistoryQuery, found: HistoryPage, format_: str, left: int
) -> AsyncIterator[str]:
    yield as_csv(found.lines) if format_ == "csv" else as_json_lines(found.lines)
    left -= len(found.lines)
    while left > 0 and not found.is_all:
        behind = found.lines[-1].place
        found = await _answer(context, principal, replace(query, limit=min(left, _EXPORTED_AT_A_TIME), behind=behind))
        left -= len(found.lines)
        yield as_csv(found.lines, with_head=False) if format_ == "csv" else as_json_lines(found.lines)


async def _query(
    context: ApiContext,
    principal: Principal,
    vm: str,
    group: str,
    host: str,
    rollout: str,
    event: str,
    caller: str,
    since: _Since,
    until: _Until,
    order: str,
) -> HistoryQuery:
    if host or rollout:
        principal.require(Action.READ_HOSTS)
    for name, when in (("since", since), ("until", until)):
        if when is not None and when.tzinfo is None:
            raise InvalidRequest(FieldError(f"query.{name}", "lacks its zone; write it like 2026-01-31T14:32:00Z"))
    return HistoryQuery(
        vm=vm,
        group=group,
        host=host,
        rollout=rollout,
        event=await context.record.resolve_id(principal, event) if event else "",
        caller=caller,
        since=since,
        until=until,
        oldest_first=order == "oldest",
    )


async def _answer(context: ApiContext, principal: Principal, query: HistoryQuery) -> HistoryPage:
    # In a thread: other readers of the journal do not wait for a long history.
    found = await asyncio.to_thread(
        read_history_page, context.journal, context.fleet, context.node.replica.revision, query, principal
    )
    if not found.lines and query.behind is None:
        _check_names(context.fleet, query, principal)
    return found


def _check_names(fleet: Fleet, query: HistoryQuery, principal: Principal) -> None:
    """Raise Unknown for names that are neither in the history nor in the fleet."""
    if query.vm:
        principal.vm(fleet, query.vm)
    if query.group:
        principal.group(fleet, query.group)
    if query.host:
        principal.host(fleet, query.host)


def _page(found: HistoryPage) -> ResultPage[HistoryLine]:
    if found.is_all:
        return ResultPage(found.lines)
    revision, number = found.lines[-1].place
    return ResultPage(found.lines, write_cursor(f"{revision}.{number}"))


def _read_place(cursor: str | None) -> tuple[int, int] | None:
    if not cursor:
        return None
    revision, dot, number = read_cursor(cursor).partition(".")
    if not (dot and all(part.isascii() and part.isdigit() and len(part) < 19 for part in (revision, number))):
        raise invalid_cursor()
    return int(revision), int(number)


history = Router("/history", tags=["History"], route_handlers=[read_history, export_history])
