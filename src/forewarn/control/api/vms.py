"""VMs: what they are, and what is done to them."""

from collections.abc import Iterable

from litestar import Router
from litestar.params import FromPath, FromQuery, JSONBody

from forewarn.control import views
from forewarn.control.access import OPERATIONS, Action, Bearer
from forewarn.control.api.idempotency import IdempotencyKey
from forewarn.control.api.paging import Cursor, Limit, after, page, read_cursor
from forewarn.control.api.plane import Asking, Behind
from forewarn.control.api.routing import reads, writes
from forewarn.control.bodies import MoveBody, Page, VmOperationBody
from forewarn.core.commands import Command, DeallocateVm, MoveVm, OperateVm, StartVm, VmOperation
from forewarn.core.errors import BadInput
from forewarn.core.fleet import Fleet
from forewarn.core.model import Vm

_TAGS = ("VMs",)
_PLAIN = {"start": StartVm, "deallocate": DeallocateVm}


@reads("/", Action.READ_VMS, summary="List VMs", tags=_TAGS)
async def list_vms(
    plane: Behind,
    bearer: Asking,
    limit: Limit = 100,
    cursor: Cursor = None,
    group: FromQuery[str | None] = None,
    host: FromQuery[str | None] = None,
    spot: FromQuery[bool | None] = None,
    deallocated: FromQuery[bool | None] = None,
) -> Page[views.VmView]:
    """List the VMs by name; of one group or host, spot ones, deallocated ones."""
    key = read_cursor(cursor)
    names = await plane.names.after("vms", key) if bearer.sees_all and group is None and host is None else None

    def look(fleet: Fleet) -> Page[views.VmView]:
        def find(name: str) -> Vm | None:
            vm = fleet.vms.get(name)
            return vm if vm is not None and fits(vm) else None

        few: Iterable[str] = ()
        if group is not None:
            few = bearer.group(fleet, group).vms
        elif host is not None and bearer.sees_all:
            few = fleet.vms_on(bearer.host(fleet, host).name)
        elif names is None:
            few = bearer.known_vms(fleet)
        known = after(few, key) if names is None else names
        return page(((name, find(name)) for name in known), limit, lambda vm: views.view_vm(fleet, vm))

    def fits(vm: Vm) -> bool:
        return (
            bearer.sees(vm.group)
            and group in (None, vm.group)
            and host in (None, vm.standing_on)
            and spot in (None, vm.spot)
            and deallocated in (None, vm.deallocated)
        )

    return await plane.node.look(look)


@reads("/{name:str}", Action.READ_VMS, summary="Show a VM", tags=_TAGS)
async def show_vm(plane: Behind, bearer: Asking, name: FromPath[str]) -> views.VmDetail:
    """Tell all that is known of a VM, and what is coming to it."""
    return await plane.node.look(lambda fleet: views.detail_vm(fleet, bearer.vm(fleet, name)))


@writes(
    "/{name:str}/operations",
    Action.OPERATE_VMS,
    summary="Do something to a VM",
    tags=_TAGS,
    body=VmOperationBody,
)
async def operate_vm(
    plane: Behind, bearer: Asking, name: FromPath[str], data: JSONBody[VmOperationBody], key: IdempotencyKey
) -> views.Told:
    """Restart, redeploy, freeze, evict or delete a VM, after the notice it is owed; or start or deallocate it."""
    word = data.operation
    bearer.require(Action.ALLOCATE if word in _PLAIN else OPERATIONS[VmOperation(word)])
    vm = await plane.node.look(lambda fleet: bearer.vm(fleet, name))
    return await plane.operations.submit(_command(key.id, bearer, vm.name, data), key.fingerprint)


@writes("/{name:str}/move", Action.MOVE, summary="Move a VM", tags=_TAGS, body=MoveBody)
async def move_vm(
    plane: Behind, bearer: Asking, name: FromPath[str], data: JSONBody[MoveBody], key: IdempotencyKey
) -> views.Told:
    """Move a VM to a host after notice, where the driver can; else record that it stands there."""
    vm = await plane.node.look(lambda fleet: bearer.vm(fleet, name))
    return await plane.operations.submit(
        MoveVm(
            id=key.id,
            by=bearer.caller,
            vm=vm.name,
            host=data.host,
            record=data.record,
            not_before=data.not_before,
            duration=data.duration,
            description=data.description,
        ),
        key.fingerprint,
    )


def _command(id_: str, bearer: Bearer, name: str, data: VmOperationBody) -> Command:
    if plain := _PLAIN.get(data.operation):
        if data != VmOperationBody(operation=data.operation):
            raise BadInput(f"{data.operation} announces nothing; leave not_before, duration and description out")
        return plain(id=id_, by=bearer.caller, vm=name)
    return OperateVm(
        id=id_,
        by=bearer.caller,
        operation=VmOperation(data.operation),
        vm=name,
        not_before=data.not_before,
        duration=data.duration,
        description=data.description,
    )


vms = Router("/vms", route_handlers=[list_vms, show_vm, operate_vm, move_vm])
