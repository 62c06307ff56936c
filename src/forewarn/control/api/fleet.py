"""The declared fleet, and changes of it. A change is applied as a whole or not at all."""

from collections.abc import Iterable
from typing import Any

import msgspec
from litestar import Request, Router, patch
from litestar.params import FromQuery

from forewarn.control.api.context import ContextDependency
from forewarn.control.api.idempotency import IdempotencyKey
from forewarn.control.api.paging import (
    Cursor,
    FleetCollection,
    RecordLimit,
    invalid_cursor,
    read_cursor,
    write_cursor,
)
from forewarn.control.api.routing import reads, writes
from forewarn.control.api.streamed_bodies import LARGEST_CHANGE, read_large_body
from forewarn.control.bodies import DeclaredPage, FleetBody
from forewarn.control.views import CommandResult
from forewarn.core.access import Action
from forewarn.core.commands import ChangeFleet
from forewarn.core.fleet import Fleet

_KINDS: tuple[FleetCollection, ...] = ("hosts", "groups", "vms")
_decode = msgspec.json.Decoder(FleetBody).decode


@reads("/", Action.READ_FLEET, summary="Read the declaration")
async def read_fleet(
    context: ContextDependency, limit: RecordLimit = 1_000, cursor: Cursor = None, vm: FromQuery[str | None] = None
) -> DeclaredPage:
    """Return the declared hosts, groups and VMs; or one VM and its group."""
    if vm is not None:
        return _declared_vm(context.fleet, vm)
    kind, _, key = (read_cursor(cursor) or f"{_KINDS[0]}/").partition("/")
    later = [each for number, each in enumerate(_KINDS) if kind in _KINDS[: number + 1]]
    if not later:
        raise invalid_cursor()
    names = [(each, await context.names.after(each, key if each == kind else "")) for each in later]
    return _page(context.fleet, ((each, name) for each, them in names for name in them), limit)


def _page(fleet: Fleet, names: Iterable[tuple[str, str]], limit: int) -> DeclaredPage:
    found: dict[str, list[object]] = {kind: [] for kind in _KINDS}
    last = ""
    for number, (kind, name) in enumerate(names):
        if number >= limit:
            break
        record = getattr(fleet, kind).get(name)
        if record is not None:
            found[kind].append(record.terms if kind == "groups" else record)
        last = f"{kind}/{name}"
    else:
        last = ""
    parts = {kind: tuple(records) for kind, records in found.items()}
    page = DeclaredPage(changes=fleet.changes, next=write_cursor(last) if last else None)
    return msgspec.structs.replace(page, **parts)


def _declared_vm(fleet: Fleet, name: str) -> DeclaredPage:
    vm = fleet.vms.get(name)
    group = fleet.groups.get(vm.group if vm else name)
    return DeclaredPage(changes=fleet.changes, vms=(vm,) if vm else (), groups=(group.terms,) if group else ())


@writes("/", Action.CHANGE_FLEET, summary="Change the fleet", method=patch, largest=LARGEST_CHANGE, is_streamed=True)
async def change_fleet(
    context: ContextDependency, request: Request[Any, Any, Any], key: IdempotencyKey
) -> CommandResult:
    """Apply a change of the fleet: new, changed and removed records, as a whole or not at all.

    A change that is too large for one body is sent as lines (`application/jsonl`), each a part of the same shape.
    """
    body = await read_large_body(request, FleetBody(), _decode, key.take)
    fields = {name: getattr(body, name) for name in body.__struct_fields__}
    command = ChangeFleet(id=key.id, by=key.by, **fields)
    return await key.once(
        context.node,
        context.locks,
        lambda: context.operations.submit(command, key),
        context.operations.result_of,
    )


fleet = Router("/fleet", tags=["Fleet"], route_handlers=[read_fleet, change_fleet])
