"""The newest lines of the history, for pages that show who did what."""

import asyncio
from collections.abc import Iterable

import msgspec

from forewarn.audit.history import HistoryQuery, read_newest_lines
from forewarn.audit.history_lines import HistoryFocus, HistoryFormatter, HistoryLine
from forewarn.control.api.context import ApiContext
from forewarn.core.access import Principal
from forewarn.core.fleet import Fleet
from forewarn.core.model import Event


async def recent_lines(
    context: ApiContext, principal: Principal, *, limit: int = 15, **filters: str
) -> tuple[HistoryLine, ...]:
    """Return the newest lines that match the filters; an event is given by its whole or shortened id."""
    if event := filters.get("event"):
        filters["event"] = await context.record.resolve_id(principal, event)
    query = HistoryQuery(limit=limit, **filters)  # type: ignore[arg-type]  # all of these filters are texts
    if filters:
        return await _read(context, principal, query, context.node.replica.revision)
    return await (_newest_lines if principal.sees_all else _owned_lines)(context, principal, query)


async def _newest_lines(context: ApiContext, principal: Principal, query: HistoryQuery) -> tuple[HistoryLine, ...]:
    """Return the newest lines of all; what was read before is not read again."""
    known, key, revision = context.known_lines, (principal.role, query.limit), context.node.replica.revision
    after, lines = known.get(key)
    if after != revision:
        newer = await _read(context, principal, msgspec.structs.replace(query, after=after), revision)
        lines = (*newer, *lines)[: query.limit]
        known.keep(key, revision, lines)
    return lines


async def _owned_lines(context: ApiContext, principal: Principal, query: HistoryQuery) -> tuple[HistoryLine, ...]:
    """Return the newest lines of an owner; they are read again after something happened to its groups."""
    owned, limit = context.owned_lines, query.limit
    lines = owned.get(principal, limit)
    if lines is None:
        reading = owned.begin(principal, limit)
        lines = await _read(context, principal, query, context.node.replica.revision)
        owned.keep(principal, limit, reading, lines)
    return lines


async def _read(
    context: ApiContext, principal: Principal, query: HistoryQuery, revision: int
) -> tuple[HistoryLine, ...]:
    known = (*_unfinished(context.fleet, principal, query), *context.recent.kept())
    return await asyncio.to_thread(
        read_newest_lines, context.journal, context.fleet, revision, query, principal, known
    )


def _unfinished(fleet: Fleet, principal: Principal, query: HistoryQuery) -> Iterable[Event]:
    """Return the unfinished events that a query may concern."""
    if query.vm:
        return fleet.events_on(query.vm) if query.vm in fleet.vms else ()
    if query.group:
        return fleet.events_of(query.group)
    if query.host:
        return (event for event in principal.known_events(fleet) if event.host == query.host)
    return () if principal.sees_all else principal.known_events(fleet)


async def rollout_lines(context: ApiContext, name: str, limit: int = 30) -> list[HistoryLine]:
    """Return the newest lines about a rollout, the newest first."""
    fleet = context.fleet
    formatter = HistoryFormatter(
        fleet.events.get, lambda vm: fleet.vms[vm].group if vm in fleet.vms else "", HistoryFocus()
    )
    entries = await context.node.replica.read(lambda: context.journal.history(f"rollout:{name}", limit=limit))
    lines = [line for entry in entries for line in formatter.lines(entry) if line.fact.startswith("rollout")]
    return list(reversed(lines))[:limit]
