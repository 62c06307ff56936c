"""VMs: a list with filters in the address and actions on a selection, and one VM."""

from collections.abc import Callable, Collection, Iterable
from itertools import islice
from typing import Any

import msgspec
from litestar import Request, Response, Router
from litestar.params import FromPath, FromQuery

from forewarn.control import views
from forewarn.control.api.context import ApiContext, ContextDependency, PrincipalDependency
from forewarn.control.dashboard.events import event_row
from forewarn.control.dashboard.failures import failed_vms
from forewarn.control.dashboard.natural_order import natural_key
from forewarn.control.dashboard.recent_history import recent_lines
from forewarn.control.dashboard.routing import StateFilter, html, page
from forewarn.control.dashboard.states import EventState, busy_vms, state_of
from forewarn.core.access import Action, Principal
from forewarn.core.fleet import Fleet
from forewarn.core.model import HostState, Vm

_MOST_SORTED = 5_000
"""VMs that are sorted for one page; more than that are listed in the order of the API, which is kept sorted."""
_MOST = 500
"""VMs of one list; a search finds the others."""


class VmFilters(msgspec.Struct, frozen=True):
    """What a list of VMs is limited to; an empty filter limits nothing."""

    search: str = ""
    """A part of the name."""
    group: str = ""
    """The name of a group, or a part of several names where no group has this one."""
    host: str = ""
    state: str = ""


def matching(wanted: str, known: Collection[str]) -> list[str]:
    """Return the name itself if it is known, else every name that contains it."""
    if not wanted:
        return []
    return [wanted] if wanted in known else [name for name in known if wanted.lower() in name.lower()]


async def vm_filter(
    context: ApiContext, principal: Principal, filters: VmFilters
) -> Callable[[str], tuple[Vm, EventState] | None]:
    """Return what yields a VM by its name with its state; None for one that does not match."""
    failed = await failed_vms(context, principal)
    fleet = context.fleet
    busy = busy_vms(fleet, principal, context.deallocated.names, failed)
    hosts, wanted = _hosts(fleet, principal, filters), filters.search.lower()

    def look(name: str) -> tuple[Vm, EventState] | None:
        vm, state = fleet.vms.get(name), busy.get(name, EventState.IDLE)
        fits = vm is not None and wanted in name.lower() and (not hosts or vm.standing_on in hosts)
        return (vm, state) if vm is not None and fits and filters.state in ("", state) else None

    return look


def _hosts(fleet: Fleet, principal: Principal, filters: VmFilters) -> frozenset[str]:
    if not principal.may(Action.READ_HOSTS):
        return frozenset({filters.host} - {""})
    return frozenset(matching(filters.host, fleet.hosts)) or frozenset({filters.host} - {""})


async def vm_names(context: ApiContext, principal: Principal, filters: VmFilters) -> Iterable[str]:
    """Return names, among them all that match, in natural order as far as they can be sorted for one page."""
    fleet = context.fleet
    if filters.group:
        groups = matching(filters.group, dict.fromkeys(principal.known_groups(fleet)))
        found: Iterable[str] = (vm for group in groups for vm in fleet.groups[group].vms)
    elif filters.host and principal.sees_all:
        found = (vm for host in _hosts(fleet, principal, filters) for vm in fleet.vms_on(host))
    elif principal.sees_all:
        found = context.search.find(filters.search) if filters.search else iter(fleet.vms)
    else:
        found = iter(principal.known_vms(fleet))
    few = list(islice(found, _MOST_SORTED + 1))
    if len(few) <= _MOST_SORTED:
        return sorted(few, key=natural_key)
    if principal.sees_all and not (filters.group or filters.host):
        return await context.names.after("vms", "")
    return (*few, *found)


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
    """List VMs by name."""
    filters = VmFilters(search, group, host, in_state)
    look = await vm_filter(context, principal, filters)
    found = map(look, await vm_names(context, principal, filters))
    rows = list(islice((row for row in found if row is not None), _MOST + 1))
    fleet = context.fleet
    groups = list(islice(principal.known_groups(fleet), _MOST))
    return html(
        request,
        "vms.html",
        section="vms",
        rows=[(vm, state, fleet.events_on(vm.name)) for vm, state in rows[:_MOST]],
        is_more=len(rows) > _MOST,
        most=_MOST,
        filters=msgspec.structs.asdict(filters),
        groups=sorted(groups, key=natural_key),
        has_no_group=bool(group) and not matching(group, dict.fromkeys(principal.known_groups(fleet))),
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
