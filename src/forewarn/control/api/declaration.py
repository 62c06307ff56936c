"""The fleet file: the declaration last applied, plans for another one, and applying it."""

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from litestar import Request, Router

from forewarn.control.api.context import ContextDependency, PrincipalDependency
from forewarn.control.api.idempotency import IdempotencyKey
from forewarn.control.api.paging import Cursor, RecordLimit, invalid_cursor, read_cursor, write_cursor
from forewarn.control.api.paging import FleetCollection as Part
from forewarn.control.api.routing import reads, writes
from forewarn.control.api.streamed_bodies import LARGEST_CHANGE, read_large_body
from forewarn.control.bodies import DeclarationBody, DeclarationPage, DifferencesView, PlanView
from forewarn.control.server.declaration_views import view_differences, view_plan
from forewarn.control.server.fleet_applier import note_applied
from forewarn.control.views import CommandResult
from forewarn.core.access import Action
from forewarn.core.declared_keys import RecordKind
from forewarn.core.fleet import Fleet
from forewarn.node.large_change import is_large
from forewarn.randomness import new_id

_KINDS = {"hosts": RecordKind.HOST, "groups": RecordKind.GROUP, "vms": RecordKind.VM}
_ABSENT = "absent"
"""Cursor key of records that are declared and not in the fleet; they come last."""
_decode = msgspec.json.Decoder(DeclarationBody).decode


@reads("/", Action.READ_FLEET, summary="Read the declaration last applied")
async def read_declaration(
    context: ContextDependency, limit: RecordLimit = 1_000, cursor: Cursor = None
) -> DeclarationPage:
    """Return the declaration last applied, in pages."""
    at, _, key = (read_cursor(cursor) or "hosts/").partition("/")
    if at == _ABSENT and key.isdecimal():
        return _absent_page(context.fleet, int(key), limit)
    kinds: tuple[Part, ...] = ("hosts", "groups", "vms")
    later = [each for number, each in enumerate(kinds) if at in kinds[: number + 1]]
    if not later:
        raise invalid_cursor()
    names = [(each, await context.names.after(each, key if each == at else "")) for each in later]
    return _page(context.fleet, ((each, name) for each, them in names for name in them), limit)


@reads("/differences", Action.READ_FLEET, summary="What differs from the declaration")
async def read_differences(context: ContextDependency) -> DifferencesView:
    """Return the differences between fleet and fleet file, and the held changes."""
    return view_differences(context.fleet)


@writes(
    "/plan",
    Action.READ_FLEET,
    summary="What a fleet file would change",
    status_code=200,
    largest=LARGEST_CHANGE,
    is_streamed=True,
    previews=False,
)
async def plan_declaration(
    context: ContextDependency, principal: PrincipalDependency, request: Request[Any, Any, Any]
) -> PlanView:
    """Compare a fleet file with the fleet and with the declaration last applied; nothing is changed."""
    body = await read_large_body(request, DeclarationBody(), _decode)
    command = body.command(new_id(), principal.caller)
    if is_large(command, context.node.writer.large_change_sizes):
        return await asyncio.to_thread(view_plan, context.fleet.copy(), command, context.now())
    return view_plan(context.fleet, command, context.now())


@writes(
    "/", Action.CHANGE_FLEET, summary="Apply a fleet file", largest=LARGEST_CHANGE, is_streamed=True, previews=False
)
async def apply_declaration(
    context: ContextDependency, request: Request[Any, Any, Any], key: IdempotencyKey
) -> CommandResult:
    """Apply the changes of a fleet file since the last one, as a whole or not at all; an operator's changes stay.

    A body that is too large is sent as lines (`application/jsonl`), each a part of the same shape.
    """
    body = await read_large_body(request, DeclarationBody(), _decode)
    key.take(msgspec.json.encode(body.identity))
    command = body.command(key.id, key.by)

    async def apply() -> CommandResult:
        is_first = context.fleet.last_applied.is_missing
        result = await context.operations.submit(command, key)
        note_applied(context.node, command.source, is_first=is_first)
        return result

    return await key.once(context.node, context.locks, apply, context.operations.result_of)


def _page(fleet: Fleet, names: Iterable[tuple[str, str]], limit: int) -> DeclarationPage:
    found: dict[str, list[object]] = {each: [] for each in _KINDS}
    last = f"{_ABSENT}/0"
    for number, (each, name) in enumerate(names):
        record = fleet.declared(_KINDS[each], name)
        if record is not None:
            found[each].append(record)
        if number + 1 >= limit:
            last = f"{each}/{name}"
            break
    return _head(fleet, found, last)


def _absent_page(fleet: Fleet, begin: int, limit: int) -> DeclarationPage:
    absent = list(_absent(fleet))
    found: dict[str, list[object]] = {each: [] for each in _KINDS}
    for each, record in absent[begin : begin + limit]:
        found[each].append(record)
    return _head(fleet, found, f"{_ABSENT}/{begin + limit}" if begin + limit < len(absent) else "")


def _absent(fleet: Fleet) -> Iterator[tuple[str, object]]:
    for each, kind in _KINDS.items():
        present = getattr(fleet, each)
        yield from ((each, record) for record in fleet.last_applied.absent(kind, present))


def _head(fleet: Fleet, found: dict[str, list[object]], next_: str) -> DeclarationPage:
    last = fleet.last_applied
    page = DeclarationPage(
        revision=last.revision,
        digest=last.digest,
        source=last.source,
        is_missing=last.is_missing,
        changes=fleet.changes,
        next=write_cursor(next_) if next_ else None,
    )
    return msgspec.structs.replace(page, **{each: tuple(records) for each, records in found.items()})


declaration = Router(
    "/fleet/declaration",
    tags=["Fleet"],
    route_handlers=[read_declaration, read_differences, plan_declaration, apply_declaration],
)
