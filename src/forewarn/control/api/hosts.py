"""Hosts: list, show, drain plans, and maintenance of all VMs of a host."""

from typing import Annotated

from litestar import Router, delete, patch
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter

from forewarn.control.api.context import ApiContext, ContextDependency, PrincipalDependency
from forewarn.control.api.idempotency import IdempotencyKey
from forewarn.control.api.paging import Cursor, Limit, make_page, read_cursor
from forewarn.control.api.problems import InvalidRequest
from forewarn.control.api.routing import reads, writes
from forewarn.control.api.selection import LabelQuery, NamePattern, read_label_query, read_names, select_hosts
from forewarn.control.bodies import (
    FieldError,
    HostBulkBody,
    HostOperationBody,
    HostSetBody,
    NewHostBody,
    ResultPage,
    terms_of,
)
from forewarn.control.views import CommandResult, DrainPlanView, HostView, view_host
from forewarn.core.access import Action, Principal
from forewarn.core.commands import (
    BulkCommand,
    ChangeFleet,
    Command,
    CordonHost,
    DrainHost,
    HostOperation,
    OperateHost,
    RepairHost,
    SetHost,
    SetMaintenance,
)
from forewarn.core.errors import BadInput, PlanOutdated
from forewarn.core.model import NO_LABELS, BulkOperation, Host, HostState, OperationScope
from forewarn.core.selectors import HostSelector

_ANNOUNCING = frozenset(HostOperation)
_ATTEMPTS = 3
"""Number of attempts to plan a drain if the fleet changes between plan and command."""


@reads("/", Action.READ_HOSTS, summary="List hosts")
async def list_hosts(
    context: ContextDependency,
    limit: Limit = 100,
    cursor: Cursor = None,
    name: NamePattern = None,
    in_state: Annotated[HostState | None, QueryParameter(name="state")] = None,
    cordoned: FromQuery[bool | None] = None,
    label: LabelQuery = None,
) -> ResultPage[HostView]:
    """List the hosts by name; optionally those with names, labels or a state that match."""
    names = await context.names.after("hosts", read_cursor(cursor))
    fleet = context.fleet
    selector = HostSelector(names=read_names(name), state=in_state, cordoned=cordoned, labels=read_label_query(label))

    def find(name: str) -> Host | None:
        host = fleet.hosts.get(name)
        return host if host is not None and selector.matches(fleet, host) else None

    return make_page(((name, find(name)) for name in names), limit, lambda host: view_host(fleet, host))


@reads("/{name:str}", Action.READ_HOSTS, summary="Show a host")
async def show_host(context: ContextDependency, principal: PrincipalDependency, name: FromPath[str]) -> HostView:
    """Return a host with its state and number of VMs; ``/v1/vms?host=NAME`` lists them."""
    return view_host(context.fleet, principal.host(context.fleet, name))


@reads("/{name:str}/drain", Action.MAINTAIN_HOSTS, summary="Plan the drain of a host")
async def plan_drain(
    context: ContextDependency, principal: PrincipalDependency, name: FromPath[str]
) -> DrainPlanView:
    """Return where a drain would move each VM of a host, and which cannot be moved; nothing is changed.

    Failed and cordoned hosts accept no VMs; the driver reports the capacity of the others, if it can.
    """
    principal.host(context.fleet, name)
    return await context.drains.view(name, is_live=context.operations.moves_live)


@writes("/{name:str}/operations", Action.MAINTAIN_HOSTS, summary="Maintain a host")
async def operate_host(
    context: ContextDependency,
    principal: PrincipalDependency,
    name: FromPath[str],
    data: JSONBody[HostOperationBody],
    key: IdempotencyKey,
) -> CommandResult:
    """Freeze, reboot, redeploy or drain all VMs of a host after notice; or set the state of the host.

    `enter-maintenance` cordons it and sets its state; `exit-maintenance` ends the state and leaves the cordon.
    `degrade`: it is expected to fail; `fail`: it has failed; `repaired`: it works again. `cordon`: it receives no
    VMs; `uncordon`: it does again. `drain` cordons it and moves each VM to a host with room; if a VM cannot be moved,
    the drain is refused and names such VMs, unless `leave_stuck`.
    """
    if data.leave_stuck and data.operation != "drain":
        raise BadInput("leave_stuck is for drain; remove it")
    if data.operation == "drain":
        return await _drain(context, principal, name, data, key)
    return await context.operations.submit(_command(key.id, principal, name, data), key)


def _command(id_: str, principal: Principal, name: str, data: HostOperationBody) -> Command:
    by = principal.caller
    if data.operation in _ANNOUNCING:
        return OperateHost(id=id_, by=by, operation=HostOperation(data.operation), host=name, **terms_of(data))
    if data != HostOperationBody(operation=data.operation):
        raise BadInput(f"{data.operation} announces nothing; remove not_before, duration and description")
    if data.operation == "repaired":
        return RepairHost(id=id_, by=by, host=name)
    if data.operation in ("cordon", "uncordon"):
        return CordonHost(id=id_, by=by, host=name, is_cordoned=data.operation == "cordon")
    return SetMaintenance(id=id_, by=by, host=name, is_in_maintenance=data.operation == "enter-maintenance")


@writes("/operations", Action.MAINTAIN_HOSTS, summary="Maintain several hosts")
async def operate_hosts(
    context: ContextDependency, principal: PrincipalDependency, data: JSONBody[HostBulkBody], key: IdempotencyKey
) -> CommandResult:
    """Do the same to all hosts that are selected. `refused` names those to which it was not done; 409 if it is all.

    `set` needs the labels to change; `remove` takes hosts without VMs out of the fleet. Hosts are drained one by one.
    """
    if data.operation in ("set", "remove"):
        principal.require(Action.CHANGE_FLEET)
    names = await select_hosts(context, principal, data.select)
    commands = {name: _command_for(principal, name, data) for name in names}
    operation = BulkOperation.of(OperationScope.HOST, data.operation)
    bulk = BulkCommand(id=key.id, by=principal.caller, operation=operation, commands=commands)
    return await context.operations.submit(bulk, key)


def _command_for(principal: Principal, name: str, data: HostBulkBody) -> Command:
    """Return the command for one of several hosts; it gets its id with them."""
    if (data.operation == "set") != (data.set is not None):
        raise InvalidRequest(FieldError("body.set", "is for set, which needs it"))
    if data.set is not None:
        return SetHost(id="", by=principal.caller, host=name, labels=data.set.labels)
    if data.operation == "remove":
        return ChangeFleet(id="", by=principal.caller, removed_hosts=(name,))
    return _command("", principal, name, HostOperationBody(operation=data.operation, **terms_of(data)))


async def _drain(
    context: ApiContext, principal: Principal, name: str, data: HostOperationBody, key: IdempotencyKey
) -> CommandResult:
    for attempt in range(_ATTEMPTS):
        plan = await context.drains.plan(name, leave_stuck=data.leave_stuck)
        command = DrainHost(
            id=key.id,
            by=principal.caller,
            host=name,
            placements=plan.placements,
            left=plan.left,
            cold=plan.cold,
            **terms_of(data),
        )
        try:
            return await context.operations.submit(command, key)
        except PlanOutdated:
            if attempt == _ATTEMPTS - 1:
                raise
    raise PlanOutdated


@writes("/{name:str}", Action.CHANGE_FLEET, summary="Label a host", method=patch)
async def set_host(
    context: ContextDependency,
    principal: PrincipalDependency,
    name: FromPath[str],
    data: JSONBody[HostSetBody],
    key: IdempotencyKey,
) -> CommandResult:
    """Set labels of a host; null takes a label away, and labels that are left out stay."""
    host = principal.host(context.fleet, name)
    command = SetHost(id=key.id, by=principal.caller, host=host.name, labels=data.labels)
    return await context.operations.submit(command, key)


@writes("/", Action.CHANGE_FLEET, summary="Add a host")
async def add_host(context: ContextDependency, data: JSONBody[NewHostBody], key: IdempotencyKey) -> CommandResult:
    """Add a host; refused if there is one of that name."""
    host = Host(data.name, dict(sorted(data.labels.items())) or NO_LABELS)
    command = ChangeFleet(id=key.id, by=key.by, hosts=(host,), only_new=True)
    return await context.operations.submit(command, key)


@writes("/{name:str}", Action.CHANGE_FLEET, summary="Remove a host", method=delete, status_code=200)
async def remove_host(context: ContextDependency, name: FromPath[str], key: IdempotencyKey) -> CommandResult:
    """Remove a host without VMs; refused while a VM is on it."""
    command = ChangeFleet(id=key.id, by=key.by, removed_hosts=(name,))
    return await context.operations.submit(command, key)


hosts = Router(
    "/hosts",
    tags=["Hosts"],
    route_handlers=[
        list_hosts,
        show_host,
        plan_drain,
        operate_host,
        operate_hosts,
        set_host,
        add_host,
        remove_host,
    ],
)
