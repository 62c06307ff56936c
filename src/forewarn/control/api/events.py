"""Events: what is coming, what was, and a word on it: approve, postpone, cancel."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import groupby, islice
from typing import Annotated

from litestar import Router
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter

from forewarn.control import views
from forewarn.control.access import Action
from forewarn.control.api.idempotency import IdempotencyKey
from forewarn.control.api.paging import Cursor, Limit, no_cursor, page, read_cursor
from forewarn.control.api.plane import Asking, Behind
from forewarn.control.api.problems import known_word
from forewarn.control.api.routing import reads, writes
from forewarn.control.bodies import Page, PostponeBody
from forewarn.control.record import MOST_FINISHED
from forewarn.control.story import Outcome, Story
from forewarn.core.commands import Approve, CancelEvent, Postponement
from forewarn.core.fleet import DAWN, Fleet
from forewarn.core.model import Event, EventStatus, EventType
from forewarn.wire.words import STATUSES, TYPES, read_status, read_type

_TAGS = ("Events",)
_Finished = Annotated[
    int,
    QueryParameter(
        ge=0, le=MOST_FINISHED, description="So many finished ones, the newest, go before the first page."
    ),
]
_Type = Annotated[str | None, QueryParameter(schema_extra={"enum": [*TYPES.values()]}, description="In any case.")]
_Status = Annotated[
    str | None, QueryParameter(schema_extra={"enum": [*STATUSES.values()]}, description="In any case.")
]


@reads("/", Action.READ_VMS, summary="List events", tags=_TAGS)
async def list_events(
    plane: Behind,
    bearer: Asking,
    limit: Limit = 100,
    cursor: Cursor = None,
    group: FromQuery[str | None] = None,
    vm: FromQuery[str | None] = None,
    type: _Type = None,
    status: _Status = None,
    finished: _Finished = 0,
) -> Page[views.EventView]:
    """List the unfinished events in the order of their announcement; finished ones where asked for."""
    begin = _read_key(cursor)
    wanted_type = None if type is None else known_word(read_type(type), EventType, "query.type")
    wanted_status = None if status is None else known_word(read_status(status), EventStatus, "query.status")

    def fits(event: Event, its_status: EventStatus) -> bool:
        return (
            bearer.sees(event.group)
            and group in (None, event.group)
            and (vm is None or vm in event.resources)
            and wanted_type in (None, event.type)
            and wanted_status in (None, its_status)
        )

    def look(fleet: Fleet) -> Page[views.EventView]:
        if group is not None:
            known: Iterable[Event] = fleet.events_of(bearer.group(fleet, group).name)
        elif vm is not None:
            known = fleet.events_of(bearer.vm(fleet, vm).group)
        else:
            known = bearer.known_events(fleet)
        found = ((_key(event), event if fits(event, event.status) else None) for event in _after(known, begin))
        return page(found, limit, views.view_event)

    told = await plane.node.look(look)
    if not finished or cursor:
        return told
    past: list[Outcome] = await plane.record.finished(bearer, finished, group or "")
    ended = [views.view_event(each.event, each.status) for each in past if fits(each.event, each.status)]
    return Page((*ended, *told.items), told.next)


def _key(event: Event) -> str:
    return f"{event.announced_at.isoformat()} {event.id}"


def _read_key(cursor: str | None) -> tuple[datetime, str]:
    at, _, id_ = read_cursor(cursor).partition(" ")
    try:
        return datetime.fromisoformat(at).astimezone(UTC) if at else DAWN, id_
    except (ValueError, OverflowError):
        raise no_cursor() from None


def _after(events: Iterable[Event], key: tuple[datetime, str]) -> Iterator[Event]:
    """Yield events in the order of their announcement, those announced together by their ids."""
    known = sorted(events, key=_announced_at)  # they mostly stand in that order, which makes it quick
    for at, together in groupby(islice(known, bisect_left(known, key[0], key=_announced_at), None), _announced_at):
        yield from (event for event in sorted(together, key=lambda event: event.id) if (at, event.id) > key)


def _announced_at(event: Event) -> datetime:
    return event.announced_at


@reads("/{id:str}", Action.READ_VMS, summary="Tell an event's story", tags=_TAGS)
async def show_event(plane: Behind, bearer: Asking, id: FromPath[str]) -> Story:
    """Tell everything that happened to an event; its id may be shortened, and `last` is the one announced last."""
    return await plane.record.story(bearer, id)


@writes("/{id:str}/approve", Action.APPROVE, summary="Approve an event", tags=_TAGS)
async def approve(plane: Behind, bearer: Asking, id: FromPath[str], key: IdempotencyKey) -> views.Told:
    """Let an event start now, in its VMs' place."""
    whole = await plane.record.whole_id(bearer, id)
    return await plane.operations.submit(Approve(id=key.id, by=bearer.caller, events=(whole,)), key.fingerprint)


@writes("/{id:str}/postpone", Action.POSTPONE, summary="Postpone an event", tags=_TAGS, body=PostponeBody)
async def postpone(
    plane: Behind, bearer: Asking, id: FromPath[str], data: JSONBody[PostponeBody], key: IdempotencyKey
) -> views.Told:
    """Ask for more time before an event, as far as its group's policy allows."""
    whole = await plane.record.whole_id(bearer, id)
    command = Approve(id=key.id, by=bearer.caller, postponements=(Postponement(whole, data.seconds, data.reason),))
    return await plane.operations.submit(command, key.fingerprint)


@writes("/{id:str}/cancel", Action.CANCEL, summary="Cancel an event", tags=_TAGS)
async def cancel(plane: Behind, bearer: Asking, id: FromPath[str], key: IdempotencyKey) -> views.Told:
    """Take an event back that has not started."""
    whole = await plane.record.whole_id(bearer, id)
    return await plane.operations.submit(CancelEvent(id=key.id, by=bearer.caller, event=whole), key.fingerprint)


events = Router("/events", route_handlers=[list_events, show_event, approve, postpone, cancel])
