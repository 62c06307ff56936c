"""``forewarn approve``: approve events as this VM."""

from datetime import timedelta
from typing import TYPE_CHECKING

import click

from forewarn.cli.output import json_option, print_json_list
from forewarn.cli.root import EXIT_CODES, not_empty
from forewarn.cli.times import read_seconds
from forewarn.cli.vm_commands import (
    azure_words,
    event_as_json,
    first_document,
    id_of,
    is_mine,
    name_of,
    open_client,
    service_options,
    vm_names,
)
from forewarn.config.durations import show_duration
from forewarn.core.errors import LimitReached

if TYPE_CHECKING:
    from forewarn.wire.document import Document, ScheduledEvent

_EFFECTS = {
    "started": "has started",
    "gone": "is gone: it is over, or was canceled",
    "waiting": (
        "is still Scheduled after {limit}: the service accepted the approval,"
        " and the event waits for other approvals, its turn or quiet hours"
    ),
    "unconfirmed": (
        "is still Scheduled after {limit}, and the service answers 200 also to an id that no event has:"
        " it may have ignored the approval"
    ),
}


@click.command
@click.argument("ids", callback=not_empty, metavar="[ID]...", nargs=-1)
@click.option("--all", "all_mine", is_flag=True, help="Approve every event that concerns this VM.")
@click.option("--wait", is_flag=True, help="Wait until the events have started or are gone.")
@click.option(
    "--within", metavar="DURATION", help="With --wait: wait at most so long.  [default: 1m]", callback=not_empty
)
@service_options
@json_option
@click.pass_context
def approve(
    context: click.Context,
    ids: tuple[str, ...],
    all_mine: bool,
    wait: bool,
    within: str | None,
    url: str | None,
    api_version: str | None,
    as_json: bool,
) -> None:
    """Approve events: they may start now.

    An ID may be shortened to its first characters, in any case. An approval counts for all VMs of its event, so a
    neighbour's event is approved only when it is named.

    With --wait the command shows the status of each event, and ends with 4 if one is still Scheduled at the end: it
    waits for other approvals, its turn or quiet hours, or the service ignored the approval.
    """
    if bool(ids) == all_mine:
        raise click.UsageError("name the events that may start, or give --all")
    if within and not wait:
        raise click.UsageError("--within limits --wait; give both, or leave --within out")
    limit = timedelta(seconds=read_seconds(within or "1m", "--within"))
    with open_client(url, api_version) as client:
        document = first_document(client)
        name = name_of(client, document)
        events = _mine(document, name) if all_mine else tuple(_named(document, each) for each in ids)
        client.approve(*events)
        if not as_json:
            for event in events:
                click.echo(f"approved {id_of(event)}: {azure_words(event)[0]} of {vm_names(event)}")
        found = client.wait_for_start(*events, within=limit) if wait and events else {}
    if as_json:
        print_json_list(
            event_as_json(event, name) | ({"effect": found[event.id]} if found else {}) for event in events
        )
    elif not events:
        click.echo("nothing to approve: no event that waits concerns this VM")
    else:
        for event in events if found else ():
            click.echo(f"{id_of(event)} {_EFFECTS[found[event.id]].format(limit=show_duration(limit))}")
    if not {"waiting", "unconfirmed"}.isdisjoint(found.values()):
        context.exit(EXIT_CODES[LimitReached])


def _mine(document: "Document", name: str) -> tuple["ScheduledEvent", ...]:
    from forewarn.core.errors import Unavailable
    from forewarn.core.model import EventStatus

    if not name:
        raise Unavailable("the service does not tell this VM's name, so --all cannot be known; name the events")
    return tuple(event for event in document.events if event.status == EventStatus.SCHEDULED and is_mine(event, name))


def _named(document: "Document", given: str) -> "ScheduledEvent":
    """Return the event with this id or id prefix."""
    from forewarn.core.errors import BadInput, Unknown

    found = {event.id: event for event in document.events if event.id.startswith(given.strip().lower())}
    if given.strip().lower() in found:
        return found[given.strip().lower()]
    if len(found) > 1 or not given.strip():
        raise BadInput(f"{given!r} is the beginning of {len(found)} events: {', '.join(map(id_of, found.values()))}")
    if not found:
        raise Unknown(f"there is no event {given!r} now; 'forewarn events' shows what there is")
    return next(iter(found.values()))
