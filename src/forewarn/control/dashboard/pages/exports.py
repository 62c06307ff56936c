"""Exports: the lists of the dashboard as CSV or JSON, of all that the principal may see."""

import asyncio
import csv
import io
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from functools import partial
from typing import Any

import msgspec
from litestar import Request, Response, Router
from litestar.params import FromPath

from forewarn.audit.history_lines import quote_formula
from forewarn.audit.timeline import EventView, view_event
from forewarn.control import views
from forewarn.control.api.context import ApiContext, ContextDependency, PrincipalDependency
from forewarn.control.api.subscriptions import view_subscription
from forewarn.control.bodies import SubscriptionView
from forewarn.control.dashboard.events import EventRow
from forewarn.control.dashboard.pages.groups import group_names
from forewarn.control.dashboard.pages.hosts import host_names
from forewarn.control.dashboard.pages.rollouts import LISTED_ENDED
from forewarn.control.dashboard.pages.tonight import attention, reasons_of
from forewarn.control.dashboard.pages.vms import VmFilters, vm_filter, vm_names
from forewarn.control.dashboard.routing import HEADERS, page
from forewarn.control.rollout_views import (
    RolloutHostView,
    RolloutView,
    WaitingEvent,
    detail_rollout,
    view_rollout,
    view_run,
)
from forewarn.core.access import Action, Principal
from forewarn.core.errors import Unknown
from forewarn.core.rollouts.model import HostRun, HostStep, run_key
from forewarn.wire.azure_names import show_id, show_name

_TYPES = {"csv": "text/csv; charset=utf-8; header=present", "json": "application/json"}
_Rows = AsyncIterator[dict[str, Any]]
"""Made from a copy of names, because the fleet may change between two rows."""
_AT_ONCE = 500
"""Rows that are made before other requests are answered."""
_Query = Mapping[str, str]
"""Filters, as the page of the list has them in its address."""
_MOST_FINISHED = 2_000
"""Ended events that are exported, the newest ones."""
_EVENT_COLUMNS = (
    *("group", "host", "operation", "fetched_by", "approvals", "approved_by", "started_at", "ended_at", "reason"),
)
_TOKEN_COLUMNS = ("id", "name", "role", "groups", "created_at", "expires_at")
"""Never the hash."""


async def _vms(context: ApiContext, principal: Principal, query: _Query) -> _Rows:
    filters = msgspec.convert(query, VmFilters)
    look = await vm_filter(context, principal, filters)
    for name in await vm_names(context, principal, filters):
        if found := look(name):
            yield msgspec.to_builtins(views.view_vm(context.fleet, found[0]))


async def _hosts(context: ApiContext, _: Principal, query: _Query) -> _Rows:
    fleet = context.fleet
    for name in host_names(fleet, query.get("search", "")):
        if host := fleet.hosts.get(name):
            yield msgspec.to_builtins(views.view_host(fleet, host))


async def _groups(context: ApiContext, principal: Principal, query: _Query) -> _Rows:
    fleet, idle_after = context.fleet, context.node.writer.rules.idle_after
    for name in group_names(fleet, principal, query.get("search", "")):
        if group := fleet.groups.get(name):
            yield msgspec.to_builtins(views.view_group(fleet, group, context.last_asked, idle_after))


async def _events(context: ApiContext, principal: Principal, query: _Query) -> _Rows:
    """Yield those that have ended lately, as far as they are asked for, then those that have not."""
    group, host, finished = query.get("group", ""), query.get("host", ""), query.get("finished", "")
    ended = await context.recent.ended(principal, _MOST_FINISHED, group) if finished else []
    known = [(event, None, "") for event in principal.known_events(context.fleet) if group in ("", event.group)]
    for event, ended_at, reason in (*((each.event, each.at, each.reason) for each in ended), *known):
        if host not in ("", event.host):
            continue
        more: dict[str, object] = {"group": event.group, "host": event.host, "operation": str(event.operation)}
        more |= {"fetched_by": event.fetched_by, "approvals": event.approvals, "approved_by": event.approved_by}
        more |= {"started_at": event.started_at, "ended_at": ended_at, "reason": reason}
        yield msgspec.to_builtins(msgspec.structs.asdict(view_event(event)) | more)


async def _attention(context: ApiContext, principal: Principal, query: _Query) -> _Rows:
    """Yield the list of the start page, with the reasons for which each event is in it."""
    for row in (await attention(context, principal)).rows:
        reasons = reasons_of(row)
        if query.get("only", "") in ("", *reasons):
            shown = {"id": show_id(row.id), "type": show_name(row.type), "status": show_name(row.status)}
            yield {"reasons": list(map(str, reasons))} | msgspec.to_builtins(row) | shown


async def _rollout_hosts(context: ApiContext, _: Principal, query: _Query) -> _Rows:
    """Yield all hosts of a rollout, in their order; of one that has ended, those that failed or were skipped."""
    name, fleet = query.get("rollout", ""), context.fleet
    rollout = fleet.rollouts.get(name)
    if rollout is None:
        for view in (await context.rollouts.ended(name)).detail.ended:
            yield msgspec.to_builtins(view)
        return
    for host in rollout.hosts:
        run = fleet.rollout_hosts.get(run_key(name, host)) or HostRun(
            name, host, HostStep.WAITING, 0, rollout.started_at, rollout.started_at
        )
        yield msgspec.to_builtins(view_run(run))


async def _rollout_events(context: ApiContext, _: Principal, query: _Query) -> _Rows:
    """Yield the unfinished events of a rollout, and what each waits for."""
    if rollout := context.fleet.rollouts.get(query.get("rollout", "")):
        for event in detail_rollout(context.fleet, rollout, context.now()).events:
            yield msgspec.to_builtins(event)


async def _refused(context: ApiContext, *_: object) -> _Rows:
    """Yield addresses with refused requests, those with the most first."""
    for address, number in context.authenticator.refused_by.most_common():
        yield {"address": address, "requests": number}


async def _rollouts(context: ApiContext, *_: object) -> _Rows:
    """Yield those that run, then those that ended last, as the page lists them."""
    running = [view_rollout(context.fleet, each, context.now()) for each in context.fleet.rollouts.values()]
    for each in (*running, *reversed(await context.rollouts.latest_ended(LISTED_ENDED))):
        yield msgspec.to_builtins(each)


async def _tokens(context: ApiContext, *_: object) -> _Rows:
    for token in list(context.fleet.tokens.values()):
        yield {column: msgspec.to_builtins(getattr(token, column)) for column in _TOKEN_COLUMNS}


async def _subscriptions(context: ApiContext, *_: object) -> _Rows:
    for each in list(context.fleet.subscriptions.values()):
        yield msgspec.to_builtins(view_subscription(context, each))


class ExportedList(msgspec.Struct, frozen=True):
    """A list: who may read it, and the columns of its rows."""

    action: Action
    columns: tuple[str, ...]
    rows: Callable[[ApiContext, Principal, _Query], _Rows]


def _fields(view: type[msgspec.Struct]) -> tuple[str, ...]:
    return tuple(field.encode_name for field in msgspec.structs.fields(view))


LISTS = {
    "vms": ExportedList(Action.READ_VMS, _fields(views.VmView), _vms),
    "hosts": ExportedList(Action.READ_HOSTS, _fields(views.HostView), _hosts),
    "groups": ExportedList(Action.READ_VMS, _fields(views.GroupView), _groups),
    "events": ExportedList(
        Action.READ_VMS,
        (*_fields(EventView), *_EVENT_COLUMNS),
        _events,
    ),
    "attention": ExportedList(Action.READ_VMS, ("reasons", *_fields(EventRow)), _attention),
    "rollouts": ExportedList(Action.READ_HOSTS, _fields(RolloutView), _rollouts),
    "rollout-hosts": ExportedList(Action.READ_HOSTS, _fields(RolloutHostView), _rollout_hosts),
    "rollout-events": ExportedList(Action.READ_HOSTS, _fields(WaitingEvent), _rollout_events),
    "refused": ExportedList(Action.READ_HEALTH, ("address", "requests"), _refused),
    "tokens": ExportedList(Action.KEEP_TOKENS, _TOKEN_COLUMNS, _tokens),
    "subscriptions": ExportedList(Action.KEEP_SUBSCRIPTIONS, _fields(SubscriptionView), _subscriptions),
}


def write_csv(columns: Iterable[str], rows: Iterable[dict[str, Any]]) -> bytes:
    """Write a table; lists are separated by spaces, and what a spreadsheet would take for a formula is quoted.

    The first row names the columns, also of a table without other rows.
    """
    columns = tuple(columns)
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_cell(row[column]) for column in columns])
    return text.getvalue().encode()


def _cell(value: object) -> object:
    if isinstance(value, dict):
        value = msgspec.json.encode(value).decode() if value else ""
    elif isinstance(value, list | tuple):
        value = " ".join(map(str, value))
    return quote_formula(value)


@page("/export/{file:str}", Action.READ_VMS)
async def export(
    request: Request[Any, Any, Any], context: ContextDependency, principal: PrincipalDependency, file: FromPath[str]
) -> Response[bytes]:
    """Return a list as a file, such as ``vms.csv``."""
    name, _, form = file.rpartition(".")
    if name not in LISTS or form not in _TYPES:
        raise Unknown(f"there is no export {file!r}; there are {', '.join(LISTS)}, as .csv and .json")
    exported = LISTS[name]
    principal.require(exported.action)
    rows = []
    async for row in exported.rows(context, principal, dict(request.query_params)):
        rows.append(row)
        if len(rows) % _AT_ONCE == 0:
            await asyncio.sleep(0)
    write = partial(write_csv, exported.columns, rows) if form == "csv" else partial(msgspec.json.encode, rows)
    body = await asyncio.to_thread(write)
    headers = {**HEADERS, "Content-Disposition": f'attachment; filename="{file}"'}
    return Response(body, media_type=_TYPES[form], headers=headers)


exports = Router("/", route_handlers=[export])
