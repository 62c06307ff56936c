"""Hosts: list, show, drain plans, and maintenance of all VMs of a host."""

from litestar import Router
from litestar.params import FromPath, JSONBody

from forewarn.control.api.context import ApiContext, ContextDependency, PrincipalDependency
from forewarn.control.api.idempotency import IdempotencyKey
from forewarn.control.api.paging import Cursor, Limit, make_page, read_cursor
from forewarn.control.api.routing import reads, writes
from forewarn.control.bodies import HostOperationBody, ResultPage
from forewarn.control.views import CommandResult, DrainPlanView, HostView
from forewarn.core.access import Action, Principal
from forewarn.core.commands import Command, CordonHost, DrainHost, HostOperation, OperateHost, RepairHost
from forewarn.core.errors import BadInput, PlanOutdated
from forewarn.core.fleet import Fleet
from forewarn.core.model import Host

_TAGS = ("Hosts",)
_ATTEMPTS = 3
"""Number of attempts to plan a drain if the fleet changes between plan and command."""


@reads("/", Action.READ_HOSTS, summary="List hosts", tags=_TAGS)
async def list_hosts(context: ContextDependency, limit: Limit = 100, cursor: Cursor = None) -> ResultPage[HostView]:
    """List the hosts by name."""
    names = await context.names.after("hosts", read_cursor(cursor))
    fleet = context.fleet
    return make_page(((name, fleet.hosts.get(name)) for name in names), limit, lambda host: _view(fleet, host))


@reads("/{name:str}", Action.READ_HOSTS, summary="Show a host", tags=_TAGS)
async def show_host(context: ContextDependency, principal: PrincipalDependency, name: FromPath[str]) -> HostView:
    """Return a host with its state and number of VMs; ``/v1/vms?host=NAME`` lists them."""
    return _view(context.fleet, principal.host(context.fleet, name))


@reads("/{name:str}/drain", Action.MAINTAIN_HOSTS, summary="Plan the drain of a host", tags=_TAGS)
async def plan_drain(
    context: ContextDependency, principal: PrincipalDependency, name: FromPath[str]
) -> DrainPlanView:
    """Return where a drain would move each VM of a host, and which cannot be moved; nothing is changed.

    Failed and cordoned hosts accept no VMs; the driver reports the capacity of the others, if it can.
    """
    principal.host(context.fleet, name)
    return await context.drains.view(name, is_live=context.operations.moves_live)


@writes(
    "/{name:str}/operations", Action.MAINTAIN_HOSTS, summary="Maintain a host", tags=_TAGS, body=HostOperationBody
)
async def operate_host(
    context: ContextDependency,
    principal: PrincipalDependency,
    name: FromPath[str],
    data: JSONBody[HostOperationBody],
    key: IdempotencyKey,
) -> CommandResult:
    """Freeze, reboot, redeploy or drain all VMs of a host after notice; or set the state of the host.

    `degrade`: it is expected to fail; `fail`: it has failed; `repaired`: it works again. `cordon`: it receives no
    VMs; `uncordon`: it does again. `drain` cordons it and moves each VM to a host with room; if a VM cannot be moved,
    the drain is refused and names such VMs, unless `leave_stuck`.
    """
    if data.leave_stuck and data.operation != "drain":
        raise BadInput("leave_stuck is for drain; remove it")
    if data.operation in ("repaired", "cordon", "uncordon"):
        if data != HostOperationBody(operation=data.operation):
            raise BadInput(f"{data.operation} announces nothing; remove not_before, duration and description")
        return await context.operations.submit(_plain(key.id, principal, name, data.operation), key.fingerprint)
    if data.operation == "drain":
        return await _drain(context, principal, name, data, key)
    return await context.operations.submit(
        OperateHost(
            id=key.id,
            by=principal.caller,
            operation=HostOperation(data.operation),
            host=name,
            not_before=data.not_before,
            duration=data.duration,
            description=data.description,
        ),
        key.fingerprint,
    )


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
            not_before=data.not_before,
            duration=data.duration,
            description=data.description,
        )
        try:
            return await context.operations.submit(command, key.fingerprint)
        except PlanOutdated:
            if attempt == _ATTEMPTS - 1:
                raise
    raise PlanOutdated


def _plain(id_: str, principal: Principal, name: str, operation: str) -> Command:
    if operation == "repaired":
        return RepairHost(id=id_, by=principal.caller, host=name)
    return CordonHost(id=id_, by=principal.caller, host=name, is_cordoned=operation == "cordon")


def _view(fleet: Fleet, host: Host) -> HostView:
    return HostView(host.name, len(fleet.vms_on(host.name)), fleet.state_of(host.name), host.name in fleet.cordoned)


hosts = Router("/hosts", route_handlers=[list_hosts, show_host, plan_drain, operate_host])
