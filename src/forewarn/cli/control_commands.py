"""Shared options and output of the commands that announce events."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial, wraps
from typing import TYPE_CHECKING, TypeVar

import click

from forewarn.cli.dry_run import PreviewShown, is_dry_run, print_preview, stop_at_preview
from forewarn.cli.flags import in_flags
from forewarn.cli.output import is_wide, json_option, print_json, print_json_list, print_list, print_table
from forewarn.cli.times import clock, not_before_option, relative
from forewarn.core.terms import LONGEST_IMPACT

if TYPE_CHECKING:
    from forewarn.audit.timeline import EventView
    from forewarn.control.client import ControlClient
    from forewarn.control.views import AnnouncementView

_Command = TypeVar("_Command", bound=Callable[..., object])
description_option = click.option("--description", metavar="TEXT", help="What its VMs will read.")
_SHOWN_NAMES = 4


@contextmanager
def connect(context: click.Context) -> "Iterator[ControlClient]":
    """Connect to the chosen service; translate its refusals to the command's flags."""
    from forewarn.cli.logins import connect_chosen
    from forewarn.core.errors import ForewarnError

    with connect_chosen(context) as client:
        client.is_dry_run, client.on_dry_run = is_dry_run(context), stop_at_preview
        try:
            yield client
        except PreviewShown as shown:
            print_preview(shown.result, as_json=bool(context.params.get("as_json")))
        except ForewarnError as error:
            raise type(error)(in_flags(str(error), context.command)) from None


def connected(command: Callable[..., None]) -> Callable[..., None]:
    """Pass a client of the chosen service to a command, and give it the flag --json."""

    @click.pass_context
    @wraps(command)
    def run(context: click.Context, /, **given: object) -> None:
        with connect(context) as client:
            command(client, **given)

    return json_option(run)


def announcing_options(command: _Command) -> _Command:
    for option in (
        description_option,
        click.option(
            "--duration",
            type=click.IntRange(min=-1, max=LONGEST_IMPACT),
            metavar="S",
            help="The seconds of interruption to announce; -1 when not known.",
        ),
        click.option(
            "--not-before",
            metavar="TIME",
            callback=not_before_option,
            help="When it may begin: +20m, 14:32 (local) or an ISO time. [default: as soon as the notice allows]",
        ),
    ):
        command = option(command)
    return command


def print_announcement(announcement: "AnnouncementView", *, as_json: bool) -> None:
    if as_json:
        print_json(announcement.event)
        return
    click.echo(describe_announcement(announcement, datetime.now(UTC)))
    click.echo(f"event {announcement.event.id}")


def describe_announcement(announcement: "AnnouncementView", now: datetime) -> str:
    """Return what will happen to the VM, and which VM polls and could approve it earlier."""
    from forewarn.core.event_types import EVENT_TYPES
    from forewarn.core.model import EventType
    from forewarn.wire.azure_names import read_type

    event = announcement.event
    name = " and ".join(event.resources)
    traits = EVENT_TYPES[EventType(read_type(event.type))]
    later = f"will {traits.verb}"
    if event.status == "Started":
        return f"{name} {traits.effect} now" + (
            f": {announcement.without_notice}" if announcement.without_notice else ""
        )
    if event.not_before is None:
        return f"{name}: {event.type} {event.status}"
    if announcement.without_notice:
        return f"{name} {later} as soon as the event it is under has ended: {announcement.without_notice}"
    when = f"{name} {later} at {clock(event.not_before, now)} unless approved"
    if announcement.earliest_start:
        start = clock(announcement.earliest_start, now)
        when = f"{name} {later} at {start}, when quiet hours end, unless approved before them"
    if announcement.asked_at and announcement.asked_since_start:
        return f"{when}; {announcement.asked_by} polled {relative(announcement.asked_at, now)}"
    known = (
        f"; the last known request is {announcement.asked_by}'s, {relative(announcement.asked_at, now)}"
        if announcement.asked_at
        else ""
    )
    return f"{when}; no VM of {announcement.group} has polled since the service started{known}"


def print_quiet_hours(announcements: "Iterable[AnnouncementView]") -> None:
    """Print the earliest start of events that quiet hours delay."""
    now = datetime.now(UTC)
    for each in announcements:
        if each.earliest_start:
            start = clock(each.earliest_start, now)
            click.echo(f"event {each.event.id[:8]} starts at {start} at the earliest: quiet hours of {each.group}")


def print_arriving(host: str, ids: tuple[str, ...]) -> None:
    """Name the events that may still move VMs to a host that was cordoned."""
    if ids:
        more = f" and {len(ids) - 1} more" if len(ids) > 1 else ""
        click.echo(
            f"event {ids[0]}{more} started before and may still move VMs to {host}; "
            f"when it has ended, see 'forewarn vm list --host {host}'"
        )


def canceled(ids: tuple[str, ...]) -> str:
    """Return the canceled events as the end of a sentence."""
    match len(ids):
        case 0:
            return ""
        case 1:
            return f"; event {ids[0]} is canceled"
        case many:
            return f"; {many} events are canceled"


def print_choices(announcements: "Iterable[AnnouncementView]", empty: str, *, as_json: bool) -> None:
    """Print the events of the selected VMs, with the reasons for the selection."""
    if as_json:
        print_json_list({**_fields(each.event), "reason": each.reason} for each in announcements)
        return
    now = datetime.now(UTC)
    rows = ((*_row(now, each.event), each.reason) for each in announcements)
    print_table(
        ("EVENT", "TYPE", "STATUS", "NOT BEFORE", "VM", "WHY"), rows, empty, drop=("STATUS", "TYPE", "NOT BEFORE")
    )


def _fields(event: "EventView") -> dict[str, object]:
    from msgspec.structs import asdict

    return asdict(event)


def print_events(events: "Iterable[EventView]", empty: str, *, as_json: bool) -> None:
    headers = ("EVENT", "TYPE", "STATUS", "NOT BEFORE", "VMS")
    print_list(events, headers, partial(_row, datetime.now(UTC)), empty, as_json=as_json, drop=("NOT BEFORE",))


def _row(now: datetime, event: "EventView") -> tuple[str, ...]:
    when = relative(event.not_before, now) if event.not_before else "-"
    return event.id, event.type, event.status, when, _names(event.resources)


def _names(names: tuple[str, ...]) -> str:
    shown = len(names) if is_wide() else _SHOWN_NAMES
    rest = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + rest
