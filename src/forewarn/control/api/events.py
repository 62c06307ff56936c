"""Events: list, show, approve, postpone and cancel."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import groupby, islice
from typing import Annotated

from litestar import Router
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter

from forewarn.audit.timeline import EventView, Timeline, view_event
from forewarn.control import views
from forewarn.control.api.context import ContextDependency, PrincipalDependency
from forewarn.control.api.idempotency import IdempotencyKey
from forewarn.control.api.paging import Cursor, Limit, invalid_cursor, make_page, read_cursor
from forewarn.control.api.problems import InvalidRequest, known_word
from forewarn.control.api.routing import reads, writes
from forewarn.control.bodies import (
    MOST_AT_ONCE,
    MOST_FINISHED,
    EventCancelBody,
    FieldError,
    PostponeBody,
    ResultPage,
)
from forewarn.core.access import Action
from forewarn.core.commands import Approve, BulkCommand, CancelEvent, Postponement
from forewarn.core.errors import Refused, Unknown
from forewarn.core.fleet_records import EPOCH
from forewarn.core.model import BulkOperation, Event, EventStatus, EventType
from forewarn.wire.azure_names import STATUSES, TYPES, read_status, read_type

_Finished = Annotated[
    int,
    QueryParameter(
        ge=0, le=MOST_FINISHED, description="Number of finished events, the newest ones, before the first page."
    ),
]
_Type = Annotated[str | None, QueryParameter(schema_extra={"enum": [*TYPES.values()]}, description="In any case.")]
_Status = Annotated[
    str | None, QueryParameter(schema_extra={"enum": [*STATUSES.values()]}, description="In any case.")
]


@reads("/", Action.READ_VMS, summary="List events")
async def list_events(
    context: ContextDependency,
    principal: PrincipalDependency,
    limit: Limit = 100,
    cursor: Cursor = None,
    group: FromQuery[str | None] = None,
    vm: FromQuery[str | None] = None,
    type: _Type = None,
    status: _Status = None,
    finished: _Finished = 0,
) -> ResultPage[EventView]:
    """List the unfinished events in the order of their announcement; finished ones if requested."""
    begin = _read_key(cursor)
    wanted_type = None if type is None else known_word(read_type(type), EventType, "query.type")
    wanted_status = None if status is None else known_word(read_status(status), EventStatus, "query.status")

    def fits(event: Event) -> bool:
        return (
            principal.sees(event.group)
            and group in (None, event.group)
            and (vm is None or vm in event.resources)
            and wanted_type in (None, event.type)
            and wanted_status in (None, event.status)
        )

    fleet = context.fleet
    if group is not None:
        known: Iterable[Event] = fleet.events_of(principal.group(fleet, group).name)
    elif vm is not None:
        known = fleet.events_of(principal.vm(fleet, vm).group)
    else:
        known = principal.known_events(fleet)
    keyed = ((f"{event.announced_at.isoformat()} {event.id}", event) for event in _after(known, begin))
    found = ((key, event if fits(event) else None) for key, event in keyed)
    page = make_page(found, limit, view_event)
    if not finished or cursor:
        return page
    past = await context.record.finished(principal, finished, group or "")
    ended = [view_event(event) for event in past if fits(event)]
    return ResultPage((*ended, *page.items), page.next)


def _read_key(cursor: str | None) -> tuple[datetime, str]:
    at, _, id_ = read_cursor(cursor).partition(" ")
    try:
        return datetime.fromisoformat(at).astimezone(UTC) if at else EPOCH, id_
    except (ValueError, OverflowError):
        raise invalid_cursor() from None


def _after(events: Iterable[Event], key: tuple[datetime, str]) -> Iterator[Event]:
    """Yield events in the order of their announcement; those announced together by id."""
    known = sorted(events, key=_announced_at)  # they are mostly in that order, which makes it fast
    for at, together in groupby(islice(known, bisect_left(known, key[0], key=_announced_at), None), _announced_at):
        yield from (event for event in sorted(together, key=lambda event: event.id) if (at, event.id) > key)


def _announced_at(event: Event) -> datetime:
    return event.announced_at


@reads("/{id:str}", Action.READ_VMS, summary="Show an event's timeline", asks_leader=True)
async def show_event(context: ContextDependency, principal: PrincipalDependency, id: FromPath[str]) -> Timeline:
    """Return the timeline of an event; its id may be shortened, and `last` is the event announced last."""
    return await context.record.timeline(principal, id)


@writes("/{id:str}/approve", Action.APPROVE, summary="Approve an event")
async def approve(
    context: ContextDependency, principal: PrincipalDependency, id: FromPath[str], key: IdempotencyKey
) -> views.CommandResult:
    """Approve an event in place of its VMs, so that it starts now."""
    whole = await context.record.resolve_id(principal, id)
    return await context.operations.submit(Approve(id=key.id, by=principal.caller, events=(whole,)), key)


@writes("/{id:str}/postpone", Action.POSTPONE, summary="Postpone an event")
async def postpone(
    context: ContextDependency,
    principal: PrincipalDependency,
    id: FromPath[str],
    data: JSONBody[PostponeBody],
    key: IdempotencyKey,
) -> views.CommandResult:
    """Postpone an event, as far as its group's policy allows."""
    whole = await context.record.resolve_id(principal, id)
    command = Approve(id=key.id, by=principal.caller, postponements=(Postponement(whole, data.seconds, data.reason),))
    return await context.operations.submit(command, key)


@writes("/{id:str}/cancel", Action.CANCEL, summary="Cancel an event")
async def cancel(
    context: ContextDependency, principal: PrincipalDependency, id: FromPath[str], key: IdempotencyKey
) -> views.CommandResult:
    """Cancel an event that has not started."""
    whole = await context.record.resolve_id(principal, id)
    return await context.operations.submit(CancelEvent(id=key.id, by=principal.caller, event=whole), key)


@writes("/cancel", Action.CANCEL, summary="Cancel several events")
async def cancel_events(
    context: ContextDependency, principal: PrincipalDependency, data: JSONBody[EventCancelBody], key: IdempotencyKey
) -> views.CommandResult:
    """Cancel all Scheduled events that are selected. `refused` names those that were not canceled."""
    if data == EventCancelBody():
        raise InvalidRequest(FieldError("body", "selects no events; give ids, or all: true for all of them"))
    wanted = None if data.type is None else known_word(read_type(data.type), EventType, "body.type")
    ids = {await context.record.resolve_id(principal, id_) for id_ in data.ids}

    def is_meant(event: Event) -> bool:
        return (
            (event.id in ids or not ids)
            and (event.status is EventStatus.SCHEDULED or event.id in ids)
            and data.group in (None, event.group)
            and data.host in (None, event.host)
            and (data.vm is None or data.vm in event.resources)
            and wanted in (None, event.type)
        )

    found = [event.id for event in principal.known_events(context.fleet) if is_meant(event)]
    if not found:
        raise Unknown("no Scheduled event matches; see which there are: forewarn event list")
    if len(found) > MOST_AT_ONCE:
        raise Refused(f"{len(found)} events match, and one request cancels {MOST_AT_ONCE} at most; select fewer")
    commands = {id_: CancelEvent(id="", by=principal.caller, event=id_) for id_ in found}
    operation = BulkOperation.EVENT_CANCEL
    bulk = BulkCommand(id=key.id, by=principal.caller, operation=operation, commands=dict(commands))
    return await context.operations.submit(bulk, key)


events = Router(
    "/events", tags=["Events"], route_handlers=[list_events, show_event, approve, postpone, cancel, cancel_events]
)
