"""VMs: a list with filters in the address and actions on a selection, and one VM."""

from collections.abc import Iterable
from itertools import islice
from typing import Any

from litestar import Request, Response, Router
from litestar.params import FromPath, FromQuery

from forewarn.control import views
from forewarn.control.api.context import ContextDependency, PrincipalDependency
from forewarn.control.dashboard.events import event_row
from forewarn.control.dashboard.failures import failed_vms
from forewarn.control.dashboard.natural_order import natural_key
from forewarn.control.dashboard.recent_history import recent_lines
from forewarn.control.dashboard.routing import StateFilter, html, page
from forewarn.control.dashboard.states import EventState, busy_vms, state_of
from forewarn.core.access import Action
from forewarn.core.model import HostState

_MOST_SORTED = 5_000
"""VMs that are sorted for one page; more than that are listed in the order of the API, which is kept sorted."""
_MOST = 500
"""VMs of one list; a search finds the others."""


@page("/vms", Action.READ_VMS)
async def list_vms(
    request: Request[Any, Any, Any],
    context: ContextDependency,
    principal: PrincipalDependency,
    search: FromQuery[str] = "",
    group: FromQuery[str] = "",
    host: FromQuery[str] = "",
    in_state: StateFilter = "",
) -> Response[bytes]:
    """List VMs by name, in natural order as far as they can be sorted for one page."""
    failed = await failed_vms(context, principal)
    fleet = context.fleet
    busy = busy_vms(fleet, principal, context.deallocated.names, failed)
    if group:
        names: Iterable[str] = sorted(principal.group(fleet, group).vms, key=natural_key)
    elif host and principal.may(Action.READ_HOSTS):
        names = sorted(fleet.vms_on(host), key=natural_key)
    elif principal.sees_all:
        matches = context.search.find(search) if search else iter(fleet.vms)
        few = list(islice(matches, _MOST_SORTED + 1))
        is_few = len(few) <= _MOST_SORTED
        names = sorted(few, key=natural_key) if is_few else await context.names.after("vms", "")
    else:
        names = sorted(principal.known_vms(fleet), key=natural_key)
    wanted = search.lower()
    found = (
        (vm, busy.get(name, EventState.IDLE))
        for name in names
        if wanted in name.lower() and (vm := fleet.vms.get(name)) is not None and host in ("", vm.standing_on)
    )
    rows = list(islice((row for row in found if in_state in ("", row[1])), _MOST + 1))
    return html(
        request,
        "vms.html",
        section="vms",
        rows=[(vm, state, fleet.events_on(vm.name)) for vm, state in rows[:_MOST]],
        is_more=len(rows) > _MOST,
        most=_MOST,
        filters={"search": search, "group": group, "host": host, "state": in_state},
        states=[str(each) for each in EventState],
        last=await recent_lines(context, principal, limit=8),
    )


@page("/vms/{name:str}", Action.READ_VMS)
async def show_vm(
    request: Request[Any, Any, Any], context: ContextDependency, principal: PrincipalDependency, name: FromPath[str]
) -> Response[bytes]:
    """Show one VM."""
    failed = await failed_vms(context, principal)
    fleet = context.fleet
    vm = principal.vm(fleet, name)
    events = fleet.events_on(name)
    return html(
        request,
        "vm.html",
        section="vms",
        vm=views.detail_vm(fleet, vm),
        state=state_of(fleet, vm, events, failed),
        events=[event_row(fleet, each, context.now()) for each in events],
        hosts=sorted((host for host in fleet.hosts if fleet.state_of(host) is not HostState.FAILED), key=natural_key),
        last=await recent_lines(context, principal, vm=name),
    )


vms = Router("/", route_handlers=[list_vms, show_vm])
