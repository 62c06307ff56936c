"""The newest lines of the history, for pages that show who did what."""

import asyncio

import msgspec

from forewarn.audit.history import HistoryQuery, read_history_page
from forewarn.audit.history_lines import HistoryFocus, HistoryFormatter, HistoryLine
from forewarn.control.api.context import ApiContext
from forewarn.core.access import Principal


async def recent_lines(
    context: ApiContext, principal: Principal, *, limit: int = 15, **filters: str
) -> tuple[HistoryLine, ...]:
    """Return the newest lines that match the filters; an event is given by its whole or shortened id."""
    if event := filters.get("event"):
        filters["event"] = await context.record.resolve_id(principal, event)
    query = HistoryQuery(limit=limit, **filters)  # type: ignore[arg-type]  # all of these filters are texts
    if not filters and principal.sees_all:
        return await _newest_lines(context, principal, query)
    return await _read(context, principal, query, context.node.replica.revision)


async def _newest_lines(context: ApiContext, principal: Principal, query: HistoryQuery) -> tuple[HistoryLine, ...]:
    """Return the newest lines of all; what was read before is not read again."""
    known, key, revision = context.known_lines, (principal.role, query.limit), context.node.replica.revision
    after, lines = known.get(key)
    if after != revision:
        newer = await _read(context, principal, msgspec.structs.replace(query, after=after), revision)
        lines = (*newer, *lines)[: query.limit]
        known.keep(key, revision, lines)
    return lines


async def _read(
    context: ApiContext, principal: Principal, query: HistoryQuery, revision: int
) -> tuple[HistoryLine, ...]:
    found = await asyncio.to_thread(read_history_page, context.journal, context.fleet, revision, query, principal)
    return found.lines


async def rollout_lines(context: ApiContext, name: str, limit: int = 30) -> list[HistoryLine]:
    """Return the newest lines about a rollout, the newest first."""
    fleet = context.fleet
    formatter = HistoryFormatter(
        fleet.events.get, lambda vm: fleet.vms[vm].group if vm in fleet.vms else "", HistoryFocus()
    )
    entries = await context.node.replica.read(lambda: context.journal.history(f"rollout:{name}", limit=limit))
    lines = [line for entry in entries for line in formatter.lines(entry) if line.fact.startswith("rollout")]
    return list(reversed(lines))[:limit]
