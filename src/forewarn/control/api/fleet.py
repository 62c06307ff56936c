"""The fleet as it is declared, and changes of it. A change happens whole or not at all."""

from collections.abc import AsyncIterator, Iterable
from itertools import chain
from typing import Annotated, Any

import msgspec
from litestar import Request, Router, patch
from litestar.params import FromQuery, QueryParameter

from forewarn.control.access import Action
from forewarn.control.api.idempotency import IdempotencyKey
from forewarn.control.api.paging import Cursor, Kind, no_cursor, read_cursor, write_cursor
from forewarn.control.api.plane import Asking, Behind
from forewarn.control.api.problems import Misshapen
from forewarn.control.api.routing import reads, writes
from forewarn.control.bodies import DeclaredPage, FleetBody, Misfit
from forewarn.control.views import Told
from forewarn.core.commands import ChangeFleet
from forewarn.core.fleet import Fleet

_TAGS = ("Fleet",)
_KINDS: tuple[Kind, ...] = ("hosts", "groups", "vms")
_LARGEST_CHANGE = 2 * 1024 * 1024 * 1024
_LONGEST_LINE = 8 * 1024 * 1024
_LINES = ("application/jsonl", "application/x-ndjson")
_Limit = Annotated[int, QueryParameter(ge=1, le=10_000, description="How many records a page holds at most.")]
_decode = msgspec.json.Decoder(FleetBody).decode


@reads("/", Action.READ_FLEET, summary="Read the declaration", tags=_TAGS)
async def read_fleet(
    plane: Behind, limit: _Limit = 1_000, cursor: Cursor = None, vm: FromQuery[str | None] = None
) -> DeclaredPage:
    """Hand out what is declared: hosts, groups, VMs; or one VM and the group it would be in."""
    if vm is not None:
        return await plane.node.look(lambda fleet: _declared_vm(fleet, vm))
    kind, _, key = (read_cursor(cursor) or f"{_KINDS[0]}/").partition("/")
    later = [each for number, each in enumerate(_KINDS) if kind in _KINDS[: number + 1]]
    if not later:
        raise no_cursor()
    names = [(each, await plane.names.after(each, key if each == kind else "")) for each in later]
    return await plane.node.look(
        lambda fleet: _page(fleet, ((each, name) for each, them in names for name in them), limit)
    )


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


@writes(
    "/",
    Action.CHANGE_FLEET,
    summary="Change the fleet",
    tags=_TAGS,
    method=patch,
    largest=_LARGEST_CHANGE,
)
async def change_fleet(
    plane: Behind, bearer: Asking, request: Request[Any, Any, Any], key: IdempotencyKey = None
) -> Told:
    """Declare what is new or different, and remove the rest, all of it or nothing.

    A change that is too large for one body is sent as lines (`application/jsonl`), each a part of the same shape.
    """
    is_in_lines = request.headers.get("content-type", "").split(";")[0].strip().lower() in _LINES
    parts = [part async for part in _lines(request)] if is_in_lines else [_read(await _whole(request), "body")]
    body = _joined(parts)
    # Large changes are sent once; only small ones are compared with what their key was used for before.
    id_ = plane.command_id(bearer, key, "fleet", body if len(parts) == 1 else None)
    return await plane.operations.submit(
        ChangeFleet(id=id_, by=bearer.caller, **{name: getattr(body, name) for name in body.__struct_fields__})
    )


async def _whole(request: Request[Any, Any, Any]) -> bytes:
    whole = bytearray()
    async for chunk in request.stream():
        whole += chunk
        if len(whole) > _LONGEST_LINE:
            raise Misshapen(Misfit("body", "is too large; send it in lines (application/jsonl)"))
    return bytes(whole)


async def _lines(request: Request[Any, Any, Any]) -> AsyncIterator[FleetBody]:
    number, left = 0, b""
    async for chunk in request.stream():
        *lines, left = (left + chunk).split(b"\n")
        for line in lines:
            number += 1
            if line.strip():
                yield _read(line, f"line {number}")
        if len(left) > _LONGEST_LINE:
            raise Misshapen(Misfit(f"line {number + 1}", "is too long; send less in each"))
    if left.strip():
        yield _read(left, f"line {number + 1}")


def _read(text: bytes, place: str) -> FleetBody:
    try:
        return _decode(text)
    except msgspec.DecodeError as error:
        raise Misshapen.of(error, place) from None


def _joined(parts: list[FleetBody]) -> FleetBody:
    if len(parts) == 1:
        return parts[0]
    lists = {
        name: tuple(chain.from_iterable(getattr(part, name) for part in parts))
        for name in FleetBody.__struct_fields__
        if name not in ("cancel_events", "seen")
    }
    seen = [part.seen for part in parts if part.seen is not None]
    whole = FleetBody(cancel_events=any(part.cancel_events for part in parts), seen=seen[0] if seen else None)
    return msgspec.structs.replace(whole, **lists)


fleet = Router("/fleet", route_handlers=[read_fleet, change_fleet])
