"""Hosts: a list, and one host with its VMs and actions."""

from typing import Any

from litestar import Request, Response, Router
from litestar.params import FromPath, FromQuery

from forewarn.control.api.context import ContextDependency, PrincipalDependency
from forewarn.control.dashboard.events import event_row
from forewarn.control.dashboard.failures import failed_vms
from forewarn.control.dashboard.natural_order import natural_key
from forewarn.control.dashboard.recent_history import HOSTS, recent_lines
from forewarn.control.dashboard.routing import html, page
from forewarn.control.dashboard.states import events_by_vm, state_of
from forewarn.core.access import Action
from forewarn.core.fleet import Fleet
from forewarn.core.model import EventStatus

_MOST = 1_000


def host_names(fleet: Fleet, search: str) -> list[str]:
    """Return the names of hosts that contain a text, in natural order."""
    wanted = search.lower()
    return sorted((name for name in fleet.hosts if wanted in name.lower()), key=natural_key)


@page("/hosts", Action.READ_HOSTS)
async def list_hosts(
    request: Request[Any, Any, Any],
    context: ContextDependency,
    principal: PrincipalDependency,
    search: FromQuery[str] = "",
) -> Response[bytes]:
    """List hosts by name."""
    fleet = context.fleet
    names = host_names(fleet, search)
    rows = [(name, len(fleet.vms_on(name)), fleet.state_of(name), name in fleet.cordoned) for name in names[:_MOST]]
    last = await recent_lines(context, principal, limit=8, topic=HOSTS)
    return html(
        request, "hosts.html", section="hosts", rows=rows, total=len(names), most=_MOST, search=search, last=last
    )


@page("/hosts/{name:str}", Action.READ_HOSTS)
async def show_host(
    request: Request[Any, Any, Any], context: ContextDependency, principal: PrincipalDependency, name: FromPath[str]
) -> Response[bytes]:
    """Show one host."""
    failed = await failed_vms(context, principal)
    fleet = context.fleet
    host = principal.host(fleet, name)
    events = [event for event in fleet.events.values() if event.host == host.name]
    by_vm = events_by_vm(fleet.events.values())
    vms = [fleet.vms[vm] for vm in sorted(fleet.vms_on(name), key=natural_key)]
    return html(
        request,
        "host.html",
        section="hosts",
        host=host,
        state=fleet.state_of(name),
        is_cordoned=name in fleet.cordoned,
        tiles=[(vm, state_of(fleet, vm, by_vm.get(vm.name, ()), failed)) for vm in vms],
        events=[event_row(fleet, each, context.now()) for each in events],
        scheduled=sum(each.status is EventStatus.SCHEDULED for each in events),
        last=await recent_lines(context, principal, host=name),
    )


hosts = Router("/", route_handlers=[list_hosts, show_host])
