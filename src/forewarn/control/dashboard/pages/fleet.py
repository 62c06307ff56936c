"""Fleet: hosts with their VMs, or groups with update domains as lanes; counts first, VMs where there are few."""

from collections import Counter
from collections.abc import Collection, Iterable
from itertools import islice
from typing import Any

import msgspec
from litestar import Request, Response, Router
from litestar.params import FromQuery

from forewarn.control.api.context import ContextDependency, PrincipalDependency
from forewarn.control.dashboard.failures import failed_vms
from forewarn.control.dashboard.name_search import NameSearch
from forewarn.control.dashboard.natural_order import natural_key
from forewarn.control.dashboard.recent_history import recent_lines
from forewarn.control.dashboard.routing import StateFilter, html, page
from forewarn.control.dashboard.states import EventState, busy_vms, count_by, visible_vms, with_idle
from forewarn.core.access import Action, Principal
from forewarn.core.fleet import Fleet

_MOST_TILES = 2_000
"""VMs that are drawn one by one; a larger selection is drawn as counts by host or group."""
_STATES = tuple(EventState)


class VmTile(msgspec.Struct, frozen=True):
    """A VM, as it is drawn."""

    name: str
    state: EventState


class FleetColumn(msgspec.Struct, frozen=True):
    """A host, or an update domain of a group, with its VMs."""

    name: str
    total: int
    counts: dict[str, int]
    tiles: list[VmTile]
    note: str = ""
    """The state of a host that is not up, or is cordoned."""


class FleetView(msgspec.Struct, frozen=True):
    """What is drawn: columns of tiles by section, or cells with counts."""

    sections: dict[str, list[FleetColumn]]
    """By group; one section without a name where hosts are drawn."""
    cells: str
    """JSON: the name, the note and the counts of each host or group, in the order of the states."""
    total: int
    counts: dict[str, int]


def view_fleet(
    fleet: Fleet,
    principal: Principal,
    deallocated: Iterable[str],
    failed: Collection[str],
    names_with: NameSearch,
    by: str,
    search: str,
    state: str,
    group: str = "",
) -> FleetView:
    """Return the fleet as this principal sees it, limited to names that contain ``search``, one state, one group."""
    busy = busy_vms(fleet, principal, deallocated, failed)
    if group:
        names: Iterable[str] = (
            name for name in fleet.groups[group].vms if state in ("", busy.get(name, EventState.IDLE))
        )
    elif state and state != EventState.IDLE:
        names = (name for name, each in busy.items() if each == state)
    elif search and principal.sees_all:
        names = names_with.find(search)
    else:
        names = visible_vms(fleet, principal)
    if state == EventState.IDLE and not group:
        names = (name for name in names if name not in busy)
    if search:
        wanted = search.lower()
        names = (name for name in names if wanted in name.lower())
    few = list(islice(names, _MOST_TILES + 1))
    if len(few) <= _MOST_TILES or state or search or group:
        few = few[:_MOST_TILES]
        counts = Counter(busy.get(name, EventState.IDLE) for name in few)
        empty = _empty_hosts(fleet, search) if by == "host" and not state and not group else ()
        return FleetView(_sections(fleet, few, busy, by, empty), "", len(few), _named(counts))
    cells = _cells(fleet, principal, busy, by)
    total = sum(sum(numbers) for _, _, numbers in cells)
    written = msgspec.json.encode(cells).decode().replace("<", "\\u003c")
    return FleetView({}, written, total, with_idle(Counter(busy.values()), total))


def _empty_hosts(fleet: Fleet, search: str) -> list[str]:
    """Return hosts on which no VM is, such as failed ones, with names that contain ``search``."""
    wanted = search.lower()
    return [name for name in fleet.hosts if wanted in name.lower() and not fleet.vms_on(name)][:_MOST_TILES]


def _sections(
    fleet: Fleet, names: list[str], busy: dict[str, EventState], by: str, empty: Iterable[str] = ()
) -> dict[str, list[FleetColumn]]:
    places: dict[str, dict[str, list[str]]] = {}
    if empty:
        places[""] = {host: [] for host in empty}
    for name in names:
        vm = fleet.vms[name]
        section, column = ("", vm.standing_on) if by == "host" else (vm.group, str(vm.update_domain))
        places.setdefault(section, {}).setdefault(column, []).append(name)
    return {
        section: [
            _column(fleet, column, vms, busy, by=by)
            for column, vms in sorted(columns.items(), key=lambda each: natural_key(each[0]))
        ]
        for section, columns in sorted(places.items(), key=lambda each: natural_key(each[0]))
    }


def _column(fleet: Fleet, name: str, vms: list[str], busy: dict[str, EventState], *, by: str) -> FleetColumn:
    tiles = [VmTile(vm, busy.get(vm, EventState.IDLE)) for vm in sorted(vms, key=natural_key)]
    counts = Counter(tile.state for tile in tiles)
    return FleetColumn(name, len(vms), _named(counts), tiles, _note(fleet, name) if by == "host" else "")


def _note(fleet: Fleet, host: str) -> str:
    state = fleet.state_of(host)
    notes = [*(() if state == "up" else (str(state),)), *(("cordoned",) if host in fleet.cordoned else ())]
    return ", ".join(notes)


def _cells(
    fleet: Fleet, principal: Principal, busy: dict[str, EventState], by: str
) -> list[tuple[str, str, list[int]]]:
    """Return counts by host or group; it costs what these cost, however many VMs they have."""
    if by == "host":
        of_host = count_by(fleet, busy, "standing_on")
        found = [(name, _note(fleet, name), len(fleet.vms_on(name)), of_host.get(name)) for name in fleet.hosts]
    else:
        of_group = count_by(fleet, busy, "group")
        groups = ((name, fleet.groups[name]) for name in principal.known_groups(fleet))
        found = [(name, "", len(group.vms), of_group.get(name)) for name, group in groups]
    found.sort(key=lambda each: natural_key(each[0]))
    cells = []
    for name, note, total, counts in found:
        every = with_idle(counts, total)
        cells.append((name, note, [every.get(str(state), 0) for state in _STATES]))
    return cells


def _named(counts: Counter[EventState]) -> dict[str, int]:
    return {str(state): counts[state] for state in _STATES if counts.get(state)}


@page("/fleet", Action.READ_VMS)
async def show_fleet(
    request: Request[Any, Any, Any],
    context: ContextDependency,
    principal: PrincipalDependency,
    by: FromQuery[str] = "host",
    search: FromQuery[str] = "",
    in_state: StateFilter = "",
    group: FromQuery[str] = "",
) -> Response[bytes]:
    """Draw the fleet, or the lanes of one group."""
    failed = await failed_vms(context, principal)
    if group:
        principal.group(context.fleet, group)
    by = "host" if by != "group" and principal.may(Action.READ_HOSTS) else "group"
    state = in_state if in_state in _STATES else ""
    return html(
        request,
        "fleet.html",
        section="fleet",
        view=view_fleet(
            context.fleet,
            principal,
            context.deallocated.names,
            failed,
            context.search,
            by,
            search,
            state,
            group,
        ),
        by=by,
        search=search,
        state=state,
        states=[str(each) for each in _STATES],
        most=_MOST_TILES,
        group=group,
        last=await recent_lines(context, principal, limit=8, group=group),
    )


fleet = Router("/", route_handlers=[show_fleet])
