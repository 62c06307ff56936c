"""VMs: list, show, operate and move."""

from collections.abc import Iterable
from typing import Annotated

from litestar import Router, patch
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter
from msgspec import UNSET, structs

from forewarn.control import views
from forewarn.control.api.context import ContextDependency, PrincipalDependency
from forewarn.control.api.idempotency import IdempotencyKey
from forewarn.control.api.paging import Cursor, Limit, make_page, names_after, read_cursor
from forewarn.control.api.problems import InvalidRequest
from forewarn.control.api.routing import reads, writes
from forewarn.control.api.selection import LabelQuery, NamePattern, read_label_query, read_names, select_vms
from forewarn.control.bodies import FieldError, MoveBody, ResultPage, VmBulkBody, VmOperationBody, VmSetBody, terms_of
from forewarn.core.access import ACTION_OF_OPERATION, Action, Principal
from forewarn.core.commands import (
    BulkCommand,
    ChangeFleet,
    Command,
    DeallocateVm,
    MoveVm,
    OperateVm,
    SetVm,
    StartVm,
    VmOperation,
)
from forewarn.core.declared_keys import LABEL
from forewarn.core.errors import BadInput
from forewarn.core.model import BulkOperation, OperationScope, Vm
from forewarn.core.selectors import VmSelector, VmState
from forewarn.fleetfile.tables import InvalidTable, read_vm

_NOT_KEYS = frozenset({"cancel_events"})
_PLAIN = {"start": StartVm, "deallocate": DeallocateVm}
_ACTIONS = {
    "start": Action.ALLOCATE,
    "deallocate": Action.ALLOCATE,
    "move": Action.MOVE,
    "set": Action.CHANGE_FLEET,
    "remove": Action.CHANGE_FLEET,
}


@reads("/", Action.READ_VMS, summary="List VMs")
async def list_vms(
    context: ContextDependency,
    principal: PrincipalDependency,
    limit: Limit = 100,
    cursor: Cursor = None,
    group: FromQuery[str | None] = None,
    host: FromQuery[str | None] = None,
    spot: FromQuery[bool | None] = None,
    deallocated: FromQuery[bool | None] = None,
    in_state: Annotated[VmState | None, QueryParameter(name="state")] = None,
    name: NamePattern = None,
    label: LabelQuery = None,
) -> ResultPage[views.VmView]:
    """List the VMs by name; optionally those of a group or host, or with names, labels or a state that match."""
    key = read_cursor(cursor)
    selector = VmSelector(
        names=read_names(name), group=group, host=host, spot=spot, state=in_state, labels=read_label_query(label)
    )

    is_all = principal.sees_all and group is None and host is None and not selector.names.are_names
    names = await context.names.after("vms", key) if is_all else None
    fleet = context.fleet

    def find(name: str) -> Vm | None:
        vm = fleet.vms.get(name)
        return vm if vm is not None and fits(vm) else None

    def fits(vm: Vm) -> bool:
        is_meant = principal.sees(vm.group) and deallocated in (None, vm.deallocated)
        return is_meant and selector.matches(fleet, vm)

    few: Iterable[str] = ()
    if group is not None:
        few = principal.group(fleet, group).vms
    elif host is not None and principal.sees_all:
        few = fleet.vms_on(principal.host(fleet, host).name)
    elif selector.names.are_names:
        few = frozenset(selector.names.names)
    elif names is None:
        few = principal.known_vms(fleet)
    known = names_after(few, key) if names is None else names
    return make_page(((name, find(name)) for name in known), limit, lambda vm: views.view_vm(fleet, vm))


@reads("/{name:str}", Action.READ_VMS, summary="Show a VM")
async def show_vm(context: ContextDependency, principal: PrincipalDependency, name: FromPath[str]) -> views.VmDetail:
    """Return the details of a VM and its upcoming events."""
    return views.detail_vm(context.fleet, principal.vm(context.fleet, name))


@writes("/{name:str}/operations", Action.OPERATE_VMS, summary="Operate on a VM")
async def operate_vm(
    context: ContextDependency,
    principal: PrincipalDependency,
    name: FromPath[str],
    data: JSONBody[VmOperationBody],
    key: IdempotencyKey,
) -> views.CommandResult:
    """Restart, redeploy, freeze, evict or delete a VM after its notice; or start or deallocate it."""
    principal.require(_ACTIONS.get(data.operation) or ACTION_OF_OPERATION[VmOperation(data.operation)])
    vm = principal.vm(context.fleet, name)
    return await context.operations.submit(_command(key.id, principal, vm.name, data), key)


@writes("/operations", Action.OPERATE_VMS, summary="Operate on several VMs")
async def operate_vms(
    context: ContextDependency, principal: PrincipalDependency, data: JSONBody[VmBulkBody], key: IdempotencyKey
) -> views.CommandResult:
    """Do the same to all VMs that are selected. `refused` names those to which it was not done; 409 if it is all.

    `move` needs `to`, and `set` the keys to change; `remove` takes VMs out of the fleet and touches no machine.
    """
    principal.require(_ACTIONS.get(data.operation) or ACTION_OF_OPERATION[VmOperation(data.operation)])
    names = await select_vms(context, principal, data.select)
    commands = {name: _command_for(principal, name, data) for name in names}
    operation = BulkOperation.of(OperationScope.VM, data.operation)
    bulk = BulkCommand(id=key.id, by=principal.caller, operation=operation, commands=commands)
    return await context.operations.submit(bulk, key)


def _command_for(principal: Principal, name: str, data: VmBulkBody) -> Command:
    """Return the command for one of several VMs; it gets its id with them."""
    by = principal.caller
    for field, operation in (("to", "move"), ("set", "set"), ("cancel_events", "remove")):
        if getattr(data, field) and data.operation != operation:
            raise InvalidRequest(FieldError(f"body.{field}", f"is for {operation}; remove it"))
    match data.operation:
        case "move":
            if data.to is None:
                raise InvalidRequest(FieldError("body.to", "is missing; name the host to move to"))
            return MoveVm(id="", by=by, vm=name, host=data.to, **terms_of(data))
        case "set":
            return set_command("", principal, name, data.set or VmSetBody())
        case "remove":
            return ChangeFleet(id="", by=by, removed_vms=(name,), cancel_events=data.cancel_events)
        case _:
            return _command("", principal, name, VmOperationBody(operation=data.operation, **terms_of(data)))


@writes("/{name:str}/move", Action.MOVE, summary="Move a VM")
async def move_vm(
    context: ContextDependency,
    principal: PrincipalDependency,
    name: FromPath[str],
    data: JSONBody[MoveBody],
    key: IdempotencyKey,
) -> views.CommandResult:
    """Move a VM to a host after notice, if the driver can; else record that it is there."""
    vm = principal.vm(context.fleet, name)
    by, terms = principal.caller, terms_of(data)
    command = MoveVm(id=key.id, by=by, vm=vm.name, host=data.host, record=data.record, **terms)
    return await context.operations.submit(command, key)


@writes("/{name:str}", Action.CHANGE_FLEET, summary="Change a VM", method=patch)
async def set_vm(
    context: ContextDependency,
    principal: PrincipalDependency,
    name: FromPath[str],
    data: JSONBody[VmSetBody],
    key: IdempotencyKey,
) -> views.CommandResult:
    """Change keys of a VM, such as its labels; a label that is null is taken away, and what is left out stays."""
    vm = principal.vm(context.fleet, name)
    return await context.operations.submit(set_command(key.id, principal, vm.name, data), key)


def set_command(id_: str, principal: Principal, name: str, data: VmSetBody) -> SetVm:
    """Return the command for a change; refuse values that a fleet file could not have either."""
    given = {key: value for key, value in structs.asdict(data).items() if value is not UNSET and key not in _NOT_KEYS}
    labels = given.pop("labels", {})
    kept = {label: value for label, value in labels.items() if value is not None}
    try:
        values = read_vm({"name": name, **given, "labels": kept})
    except InvalidTable as wrong:
        raise InvalidRequest(FieldError(f"body.{wrong.key}", str(wrong))) from None
    keys = (*given, *(f"{LABEL}{label}" for label in labels))
    if not keys:
        raise BadInput("nothing is to be changed; give at least one key")
    return SetVm(id=id_, by=principal.caller, vm=name, keys=keys, values=values, cancel_events=data.cancel_events)


def _command(id_: str, principal: Principal, name: str, data: VmOperationBody) -> Command:
    if plain := _PLAIN.get(data.operation):
        if data != VmOperationBody(operation=data.operation):
            raise BadInput(f"{data.operation} announces nothing; remove not_before, duration and description")
        return plain(id=id_, by=principal.caller, vm=name)
    operation = VmOperation(data.operation)
    return OperateVm(id=id_, by=principal.caller, operation=operation, vm=name, **terms_of(data))


vms = Router("/vms", tags=["VMs"], route_handlers=[list_vms, show_vm, operate_vm, operate_vms, move_vm, set_vm])
