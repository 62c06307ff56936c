"""History: who did what, filtered, in pages, and as CSV or JSON lines."""

from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from litestar import Request, Response, Router

from forewarn.audit.history import HistoryQuery
from forewarn.audit.history_lines import HistoryLine
from forewarn.control.api.context import ContextDependency, PrincipalDependency
from forewarn.control.dashboard.recent_history import read_lines
from forewarn.control.dashboard.routing import html, page
from forewarn.core.access import Action
from forewarn.core.errors import BadInput, ForewarnError

_FILTERS = ("vm", "group", "host", "event", "caller")
_TIMES = ("since", "until")
_MOST = 200
"""Lines of one page."""
_LONGEST_NUMBER = 19


@page("/history", Action.READ_HISTORY)
async def show_history(
    request: Request[Any, Any, Any], context: ContextDependency, principal: PrincipalDependency
) -> Response[bytes]:
    """Show the newest lines of the history that match the filters."""
    filters = {name: request.query_params.get(name, "").strip() for name in (*_FILTERS, *_TIMES)}
    if filters["host"]:
        principal.require(Action.READ_HOSTS)
    given = {name: value for name, value in filters.items() if value}
    lines: tuple[HistoryLine, ...] = ()
    problem, export, before = "", {**given}, request.query_params.get("before", "")
    try:
        times = {name: _read_time(name, given.pop(name)) for name in _TIMES if name in given}
        export |= {name: at.isoformat().replace("+00:00", "Z") for name, at in times.items()}
        if "event" in given:
            given["event"] = await context.record.resolve_id(principal, given["event"])
        query = HistoryQuery(**given, **times, limit=_MOST + 1, behind=_read_place(before))  # type: ignore[arg-type]
        lines = await read_lines(context, principal, query)
    except ForewarnError as error:
        problem = str(error)
    older = {**{name: value for name, value in filters.items() if value}, "before": _place(lines)}
    return html(
        request,
        "history.html",
        section="history",
        lines=lines[:_MOST],
        filters=filters,
        times=_TIMES,
        problem=problem,
        before=before,
        newest=urlencode({name: value for name, value in filters.items() if value}),
        older=urlencode(older) if len(lines) > _MOST else "",
        most=_MOST,
        export=f"/v1/history/export?{urlencode(export)}",
    )


def _read_time(name: str, given: str) -> datetime:
    """Read a time as a field of a form has it; without a zone it is UTC."""
    try:
        at = datetime.fromisoformat(given)
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise BadInput(f"{name}: {given!r} is not a time; write it like 2026-01-31T14:32") from None


def _place(lines: tuple[HistoryLine, ...]) -> str:
    """Return the position of the last line that is shown."""
    return "{}.{}".format(*lines[_MOST - 1].place) if len(lines) > _MOST else ""


def _read_place(given: str) -> tuple[int, int] | None:
    revision, _, number = given.partition(".")
    is_place = all(part.isascii() and part.isdecimal() and len(part) < _LONGEST_NUMBER for part in (revision, number))
    return (int(revision), int(number)) if is_place else None


history = Router("/", route_handlers=[show_history])
