"""Exports: the lists of the dashboard as CSV or JSON, of all that the principal may see."""

import asyncio
import csv
import io
from collections.abc import AsyncIterator, Callable, Iterable
from functools import partial
from typing import Any

import msgspec
from litestar import Response, Router
from litestar.params import FromPath

from forewarn.audit.history_lines import quote_formula
from forewarn.audit.timeline import EventView, view_event
from forewarn.control import views
from forewarn.control.api.context import ApiContext, ContextDependency, PrincipalDependency
from forewarn.control.api.subscriptions import view_subscription
from forewarn.control.bodies import SubscriptionView
from forewarn.control.dashboard.pages.rollouts import LISTED_ENDED
from forewarn.control.dashboard.routing import HEADERS, page
from forewarn.control.rollout_views import RolloutView, view_rollout
from forewarn.core.access import Action, Principal
from forewarn.core.errors import Unknown

_TYPES = {"csv": "text/csv; charset=utf-8; header=present", "json": "application/json"}
_Rows = AsyncIterator[dict[str, Any]]
"""Made from a copy of names, because the fleet may change between two rows."""
_AT_ONCE = 500
"""Rows that are made before other requests are answered."""
_TOKEN_COLUMNS = ("id", "name", "role", "groups", "created_at", "expires_at")
"""Never the hash."""


async def _vms(context: ApiContext, principal: Principal) -> _Rows:
    fleet = context.fleet
    for name in list(principal.known_vms(fleet)):
        if vm := fleet.vms.get(name):
            yield msgspec.to_builtins(views.view_vm(fleet, vm))


async def _hosts(context: ApiContext, _: Principal) -> _Rows:
    fleet = context.fleet
    for name, host in list(fleet.hosts.items()):
        is_cordoned = name in fleet.cordoned
        state = str(fleet.state_of(name))
        counts = {"vms": len(fleet.vms_on(name)), "labels": dict(host.labels)}
        yield {"name": name, "state": state, "cordoned": is_cordoned, **counts}


async def _groups(context: ApiContext, principal: Principal) -> _Rows:
    fleet, idle_after = context.fleet, context.node.writer.rules.idle_after
    for name in list(principal.known_groups(fleet)):
        if group := fleet.groups.get(name):
            yield msgspec.to_builtins(views.view_group(fleet, group, context.last_asked, idle_after))


async def _events(context: ApiContext, principal: Principal) -> _Rows:
    for event in list(principal.known_events(context.fleet)):
        more = {"group": event.group, "host": event.host, "operation": str(event.operation)}
        approvals = {"fetched_by": event.fetched_by, "approvals": event.approvals, "approved_by": event.approved_by}
        yield msgspec.to_builtins(view_event(event)) | more | approvals


async def _rollouts(context: ApiContext, _: Principal) -> _Rows:
    """Those that run, then those that ended last, as the page lists them."""
    running = [view_rollout(context.fleet, each, context.now()) for each in context.fleet.rollouts.values()]
    for each in (*running, *reversed(await context.rollouts.latest_ended(LISTED_ENDED))):
        yield msgspec.to_builtins(each)


async def _tokens(context: ApiContext, _: Principal) -> _Rows:
    for token in list(context.fleet.tokens.values()):
        yield {column: msgspec.to_builtins(getattr(token, column)) for column in _TOKEN_COLUMNS}


async def _subscriptions(context: ApiContext, _: Principal) -> _Rows:
    for each in list(context.fleet.subscriptions.values()):
        yield msgspec.to_builtins(view_subscription(context, each))


class ExportedList(msgspec.Struct, frozen=True):
    """A list: who may read it, and the columns of its rows."""

    action: Action
    columns: tuple[str, ...]
    rows: Callable[[ApiContext, Principal], _Rows]


def _fields(view: type[msgspec.Struct]) -> tuple[str, ...]:
    return tuple(field.encode_name for field in msgspec.structs.fields(view))


LISTS = {
    "vms": ExportedList(Action.READ_VMS, _fields(views.VmView), _vms),
    "hosts": ExportedList(Action.READ_HOSTS, ("name", "state", "cordoned", "vms", "labels"), _hosts),
    "groups": ExportedList(Action.READ_VMS, _fields(views.GroupView), _groups),
    "events": ExportedList(
        Action.READ_VMS,
        (*_fields(EventView), "group", "host", "operation", "fetched_by", "approvals", "approved_by"),
        _events,
    ),
    "rollouts": ExportedList(Action.READ_HOSTS, _fields(RolloutView), _rollouts),
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
async def export(context: ContextDependency, principal: PrincipalDependency, file: FromPath[str]) -> Response[bytes]:
    """Return a list as a file, such as ``vms.csv``."""
    name, _, form = file.rpartition(".")
    if name not in LISTS or form not in _TYPES:
        raise Unknown(f"there is no export {file!r}; there are {', '.join(LISTS)}, as .csv and .json")
    exported = LISTS[name]
    principal.require(exported.action)
    rows = []
    async for row in exported.rows(context, principal):
        rows.append(row)
        if len(rows) % _AT_ONCE == 0:
            await asyncio.sleep(0)
    write = partial(write_csv, exported.columns, rows) if form == "csv" else partial(msgspec.json.encode, rows)
    body = await asyncio.to_thread(write)
    headers = {**HEADERS, "Content-Disposition": f'attachment; filename="{file}"'}
    return Response(body, media_type=_TYPES[form], headers=headers)


exports = Router("/", route_handlers=[export])
