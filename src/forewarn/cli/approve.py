"""``forewarn approve``: say that this VM is ready for events."""

from typing import TYPE_CHECKING

import click

from forewarn.cli.listening import (
    first_document,
    is_mine,
    name_of,
    names,
    record,
    service,
    service_options,
    short_id,
    words,
)
from forewarn.cli.output import json_option, print_json_list

if TYPE_CHECKING:
    from forewarn.wire.document import Document, ScheduledEvent


@click.command
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option("--all", "all_mine", is_flag=True, help="Approve every event that concerns this VM.")
@service_options
@json_option
def approve(ids: tuple[str, ...], all_mine: bool, url: str | None, api_version: str | None, as_json: bool) -> None:
    """Say that events may start now.

    An ID may be shortened to its first characters, in any case. An approval counts for all VMs of its event, so a
    neighbour's event is approved only when it is named.
    """
    if bool(ids) == all_mine:
        raise click.UsageError("name the events that may start, or give --all")
    with service(url, api_version) as client:
        document = first_document(client)
        name = name_of(client)
        events = _mine(document, name) if all_mine else tuple(_named(document, each) for each in ids)
        client.approve(*events)
    if as_json:
        print_json_list(record(event, name) for event in events)
        return
    for event in events:
        click.echo(f"approved {short_id(event)}: {words(event)[0]} of {names(event)}")
    if not events:
        click.echo("nothing to approve: no event that waits concerns this VM")


def _mine(document: "Document", name: str) -> tuple["ScheduledEvent", ...]:
    from forewarn.core.errors import Unavailable
    from forewarn.core.model import EventStatus

    if not name:
        raise Unavailable("the service does not tell this VM's name, so --all cannot be known; name the events")
    return tuple(event for event in document.events if event.status == EventStatus.SCHEDULED and is_mine(event, name))


def _named(document: "Document", given: str) -> "ScheduledEvent":
    """Return the one event whose id begins so."""
    from forewarn.core.errors import BadInput, Unknown

    found = {event.id: event for event in document.events if event.id.startswith(given.strip().lower())}
    if given.strip().lower() in found:
        return found[given.strip().lower()]
    if len(found) > 1 or not given.strip():
        raise BadInput(f"{given!r} is the beginning of {len(found)} events: {', '.join(map(str.upper, found))}")
    if not found:
        raise Unknown(f"there is no event {given!r} now; 'forewarn events' shows what there is")
    return next(iter(found.values()))
