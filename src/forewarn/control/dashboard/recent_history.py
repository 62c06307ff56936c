"""The newest lines of the history, for pages that show who did what."""

import asyncio
from collections.abc import Hashable, Iterable

import msgspec

from forewarn.audit.history import HistoryQuery, read_newest_lines
from forewarn.audit.history_lines import HistoryFocus, HistoryFormatter, HistoryLine
from forewarn.control.api.context import ApiContext
from forewarn.core.access import Principal
from forewarn.core.fleet import Fleet
from forewarn.core.model import Event

_MOST_READ = 5_000
"""Entries among which the newest lines of a topic are looked for at first."""


class Topic(msgspec.Struct, frozen=True):
    """Which lines of the history a page shows that is not about one thing."""

    facts: frozenset[str] = frozenset()
    """Kinds of facts; all, if there are none."""
    only_people: bool = False
    """Leave out what VMs and the service itself did."""


PEOPLE = Topic(only_people=True)
HOSTS = Topic(frozenset({"host-state-set", "host-cordon-set", "announced", "started-at-once", "canceled"}), True)
GROUPS = Topic(frozenset({"group-set", "enrolled", "switched-off", "fleet-changed", "fleet-declared"}))
ROLLOUTS = Topic(
    frozenset(
        {
            *("rollout-started", "rollout-edited", "rollout-paused", "rollout-resumed"),
            *("rollout-stopping", "rollout-blocked", "rollout-late", "rollout-ended"),
        }
    )
)
TOKENS = Topic(frozenset({"token-created", "token-revoked"}))
SUBSCRIPTIONS = Topic(frozenset({"subscription-set", "subscription-removed"}))


async def recent_lines(
    context: ApiContext, principal: Principal, *, limit: int = 15, topic: Topic = PEOPLE, **filters: str
) -> tuple[HistoryLine, ...]:
    """Return the newest lines that match the filters, or without filters those of a topic.

    An event is given by its whole or shortened id.
    """
    if event := filters.get("event"):
        filters["event"] = await context.record.resolve_id(principal, event)
    filters = {name: value for name, value in filters.items() if value}
    if filters:
        query = HistoryQuery(limit=limit, **filters)  # type: ignore[arg-type]  # all of these filters are texts
        return await _read(context, principal, query, context.node.replica.revision)
    query = HistoryQuery(limit=limit, facts=topic.facts, only_people=topic.only_people)
    return await (_newest_lines if principal.sees_all else _owned_lines)(context, principal, query)


async def _newest_lines(context: ApiContext, principal: Principal, query: HistoryQuery) -> tuple[HistoryLine, ...]:
    """Return the newest lines of all; what was read before is not read again."""
    known, key, revision = context.known_lines, (principal.role, _wanted(query)), context.node.replica.revision
    after, lines = known.get(key)
    if after != revision:
        after = max(after, revision - _MOST_READ)
        newer = await _read(context, principal, msgspec.structs.replace(query, after=after), revision)
        lines = (*newer, *lines)[: query.limit]
        known.keep(key, revision, lines)
    return lines


async def _owned_lines(context: ApiContext, principal: Principal, query: HistoryQuery) -> tuple[HistoryLine, ...]:
    """Return the newest lines of an owner; they are read again after something happened to its groups."""
    owned, wanted = context.owned_lines, _wanted(query)
    lines = owned.get(principal, wanted)
    if lines is None:
        reading = owned.begin(principal, wanted)
        lines = await _read(context, principal, query, context.node.replica.revision)
        owned.keep(principal, wanted, reading, lines)
    return lines


def _wanted(query: HistoryQuery) -> Hashable:
    return query.facts, query.only_people, query.limit


async def read_lines(context: ApiContext, principal: Principal, query: HistoryQuery) -> tuple[HistoryLine, ...]:
    """Return the newest lines that match a query."""
    return await _read(context, principal, query, context.node.replica.revision)


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
