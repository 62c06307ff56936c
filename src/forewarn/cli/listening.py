"""What the commands in a VM have in common: which service they ask, and how events are told."""

import sys
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, TypeVar

import click

from forewarn.cli.output import is_watched, printable, wrapped
from forewarn.cli.times import countdown, span

if TYPE_CHECKING:
    from forewarn.client.client import Client
    from forewarn.wire.document import Document, ScheduledEvent

_Command = TypeVar("_Command", bound=Callable[..., object])
_MEANINGS = {
    "Freeze": "freezes",
    "Reboot": "restarts",
    "Redeploy": "is redeployed",
    "Preempt": "is evicted",
    "Terminate": "is deleted",
}
SLOW = 3.0
"""Seconds of silence after which somebody may wonder."""
_MINE = {"Scheduled": "yellow", "Started": "magenta"}


def service_options(command: _Command) -> _Command:
    """Give a command the options that name the service of this VM."""
    for option in (
        click.option(
            "--api-version", metavar="V", help="The version to ask in. [default: the newest that the service knows]"
        ),
        click.option(
            "--url",
            metavar="URL",
            help="The service, such as http://169.254.169.254. [default: SCHEDULED_EVENTS_URL, else looked for]",
        ),
    ):
        command = option(command)
    return command


def service(url: str | None, api_version: str | None) -> "Client":
    """Return a client that waits for a slow service, and says at once when there is none."""
    from forewarn.client.client import Client

    return Client(url, api_version=api_version, unreachable_patience=timedelta(0))


def first_document(client: "Client") -> "Document":
    """Return what the service shows; tell whoever sits before the screen that it is waited for, if it takes long."""
    if not is_watched(sys.stderr):
        return client.document()
    from threading import Timer

    # Azure: the first answer may take two minutes.
    timer = Timer(
        SLOW, click.echo, ("waiting for the service; its first answer may take two minutes",), {"err": True}
    )
    timer.daemon = True
    timer.start()
    try:
        return client.document()
    finally:
        timer.cancel()


def name_of(client: "Client") -> str:
    """Return this VM's name; empty when it cannot be known, which spoils nothing."""
    from forewarn.core.errors import ForewarnError

    try:
        return client.own_name()
    except ForewarnError:
        return ""


def is_mine(event: "ScheduledEvent", name: str) -> bool:
    """Tell whether the event happens to this VM, which may be known by its host name."""
    from forewarn.client.names import find_name

    return bool(find_name(name, event.resources))


def words(event: "ScheduledEvent") -> tuple[str, str, str]:
    """Return Azure's words for type, status and source; the last is empty where nobody tells."""
    from forewarn.wire.words import SOURCES, STATUSES, TYPES

    types: dict[str, str] = dict(TYPES.items())
    statuses: dict[str, str] = dict(STATUSES.items())
    sources: dict[str, str] = dict(SOURCES.items())
    source = event.source or ""
    return (
        types.get(event.type, printable(event.type)),
        statuses.get(event.status, printable(event.status)),
        sources.get(source, printable(source)),
    )


def short_id(event: "ScheduledEvent") -> str:
    """Return as much of an id as tells events apart, and as ``approve`` understands."""
    return printable(event.id[:8].upper())


def names(event: "ScheduledEvent") -> str:
    """Return the VMs that the event happens to."""
    return printable(", ".join(event.resources))


def meaning(event: "ScheduledEvent", name: str) -> str:
    """Say what becomes of this VM."""
    if not name:
        return "not known"
    if not is_mine(event, name):
        return "not concerned"
    said = _MEANINGS.get(words(event)[0], "is concerned")
    return f"{said} for {span(event.duration)}" if said == "freezes" and event.duration > 0 else said


def when(event: "ScheduledEvent", now: datetime) -> str:
    """Say how long it is until the event may start."""
    if event.not_before is None:
        return "at any moment"
    return countdown(event.not_before, now)


def rows(events: tuple["ScheduledEvent", ...], name: str, now: datetime) -> Iterator[str]:
    """Yield lines: the head of the table, then two for each event, the second with what does not fit a column."""
    head = ("EVENT", "TYPE", "STATUS", "NOT BEFORE", "THIS VM", "VMS")
    cells = [(short_id(event), *words(event)[:2], when(event, now), meaning(event, name)) for event in events]
    widths = [max(map(len, column)) for column in zip(head[:-1], *cells, strict=True)]
    yield click.style(f"{_line(head[:-1], widths)}{head[-1]}", dim=True)
    for event, row in zip(events, cells, strict=True):
        line = wrapped(names(event), _line(row, widths))
        yield click.style(line, fg=_MINE.get(row[2]), bold=True) if name and is_mine(event, name) else line
        yield wrapped(details(event), " " * (widths[0] + 2))


def details(event: "ScheduledEvent") -> str:
    """Say who wanted it, how long it takes, and why, as far as that is told."""
    source = words(event)[2]
    by = f"by the {source.lower()}" if source else "by somebody"
    takes = {-1: "", 0: ", without interruption"}.get(event.duration, f", for {span(event.duration)}")
    return f"{by}{takes}: {printable(event.description)}" if event.description else f"{by}{takes}"


def record(event: "ScheduledEvent", name: str) -> dict[str, object]:
    """Return an event as JSON has it in every command."""
    from forewarn.wire.words import show_id

    kind, status, source = words(event)
    return {
        "id": show_id(event.id),
        "type": kind,
        "status": status,
        "not_before": event.not_before,
        "resources": event.resources,
        "source": source,
        "duration": event.duration,
        "description": event.description,
        "concerns_me": is_mine(event, name) if name else None,
    }


def _line(cells: tuple[str, ...], widths: list[int]) -> str:
    return "".join(f"{cell.ljust(width)}  " for cell, width in zip(cells, widths, strict=True))
