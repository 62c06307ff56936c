"""VMs: list, show, operate and move."""

from collections.abc import Iterable

from litestar import Router
from litestar.params import FromPath, FromQuery, JSONBody

from forewarn.control import views
from forewarn.control.api.context import ContextDependency, PrincipalDependency
from forewarn.control.api.idempotency import IdempotencyKey
from forewarn.control.api.paging import Cursor, Limit, make_page, names_after, read_cursor
from forewarn.control.api.routing import reads, writes
from forewarn.control.bodies import MoveBody, ResultPage, VmOperationBody
from forewarn.core.access import ACTION_OF_OPERATION, Action, Principal
from forewarn.core.commands import Command, DeallocateVm, MoveVm, OperateVm, StartVm, VmOperation
from forewarn.core.errors import BadInput
from forewarn.core.model import Vm

_TAGS = ("VMs",)
_PLAIN = {"start": StartVm, "deallocate": DeallocateVm}


@reads("/", Action.READ_VMS, summary="List VMs", tags=_TAGS)
async def list_vms(
    context: ContextDependency,
    principal: PrincipalDependency,
    limit: Limit = 100,
    cursor: Cursor = None,
    group: FromQuery[str | None] = None,
    host: FromQuery[str | None] = None,
    spot: FromQuery[bool | None] = None,
    deallocated: FromQuery[bool | None] = None,
) -> ResultPage[views.VmView]:
    """List the VMs by name; optionally of one group or host, spot or deallocated ones."""
    key = read_cursor(cursor)
    names = await context.names.after("vms", key) if principal.sees_all and group is None and host is None else None

    fleet = context.fleet

    def find(name: str) -> Vm | None:
        vm = fleet.vms.get(name)
        return vm if vm is not None and fits(vm) else None

    def fits(vm: Vm) -> bool:
        return (
            principal.sees(vm.group)
            and group in (None, vm.group)
            and host in (None, vm.standing_on)
            and spot in (None, vm.spot)
            and deallocated in (None, vm.deallocated)
        )

    few: Iterable[str] = ()
    if group is not None:
        few = principal.group(fleet, group).vms
    elif host is not None and principal.sees_all:
        few = fleet.vms_on(principal.host(fleet, host).name)
    elif names is None:
        few = principal.known_vms(fleet)
    known = names_after(few, key) if names is None else names
    return make_page(((name, find(name)) for name in known), limit, lambda vm: views.view_vm(fleet, vm))


@reads("/{name:str}", Action.READ_VMS, summary="Show a VM", tags=_TAGS)
async def show_vm(context: ContextDependency, principal: PrincipalDependency, name: FromPath[str]) -> views.VmDetail:
    """Return the details of a VM and its upcoming events."""
    return views.detail_vm(context.fleet, principal.vm(context.fleet, name))


@writes("/{name:str}/operations", Action.OPERATE_VMS, summary="Operate on a VM", tags=_TAGS, body=VmOperationBody)
async def operate_vm(
    context: ContextDependency,
    principal: PrincipalDependency,
    name: FromPath[str],
    data: JSONBody[VmOperationBody],
    key: IdempotencyKey,
) -> views.CommandResult:
    """Restart, redeploy, freeze, evict or delete a VM after its notice; or start or deallocate it."""
    word = data.operation
    principal.require(Action.ALLOCATE if word in _PLAIN else ACTION_OF_OPERATION[VmOperation(word)])
    vm = principal.vm(context.fleet, name)
    return await context.operations.submit(_command(key.id, principal, vm.name, data), key.fingerprint)


@writes("/{name:str}/move", Action.MOVE, summary="Move a VM", tags=_TAGS, body=MoveBody)
async def move_vm(
    context: ContextDependency,
    principal: PrincipalDependency,
    name: FromPath[str],
    data: JSONBody[MoveBody],
    key: IdempotencyKey,
) -> views.CommandResult:
    """Move a VM to a host after notice, if the driver can; else record that it is there."""
    vm = principal.vm(context.fleet, name)
    return await context.operations.submit(
        MoveVm(
            id=key.id,
            by=principal.caller,
            vm=vm.name,
            host=data.host,
            record=data.record,
            not_before=data.not_before,
            duration=data.duration,
            description=data.description,
        ),
        key.fingerprint,
    )


def _command(id_: str, principal: Principal, name: str, data: VmOperationBody) -> Command:
    if plain := _PLAIN.get(data.operation):
        if data != VmOperationBody(operation=data.operation):
            raise BadInput(f"{data.operation} announces nothing; remove not_before, duration and description")
        return plain(id=id_, by=principal.caller, vm=name)
    return OperateVm(
        id=id_,
        by=principal.caller,
        operation=VmOperation(data.operation),
        vm=name,
        not_before=data.not_before,
        duration=data.duration,
        description=data.description,
    )


vms = Router("/vms", route_handlers=[list_vms, show_vm, operate_vm, move_vm])
