"""Shared options and output of the commands that run inside a VM."""

import sys
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import click

from forewarn.cli.output import is_watched, printable, styled, wrapped
from forewarn.cli.root import not_empty
from forewarn.cli.times import countdown, span

if TYPE_CHECKING:
    from forewarn.client.client import Client
    from forewarn.wire.document import Document, ScheduledEvent

_Command = TypeVar("_Command", bound=Callable[..., object])
REMEDY = "the service does not tell it; give it as name in agent.toml, or as FOREWARN_AGENT_NAME, if it is wrong"
SLOW = 3.0
"""Seconds without a response after which a notice is printed."""
_MINE = {"Scheduled": "yellow", "Started": "magenta"}


def service_options(command: _Command) -> _Command:
    """Add the options for the metadata endpoint to a command."""
    for option in (
        click.option(
            "--api-version",
            metavar="V",
            callback=not_empty,
            help="The version to ask in. [default: the newest that the service knows]",
        ),
        url_option("[default: SCHEDULED_EVENTS_URL, else looked for]"),
    ):
        command = option(command)
    return command


def url_option(default: str) -> Callable[[_Command], _Command]:
    """Return the option --url for the metadata endpoint; it is also accepted before the command."""
    help_text = f"The metadata endpoint, such as http://169.254.169.254. {default}"

    def before(context: click.Context, option: click.Parameter, given: str | None) -> str | None:
        return not_empty(context, option, given) or context.find_root().obj.url

    return click.option("--url", metavar="URL", callback=before, help=help_text)


def open_client(url: str | None, api_version: str | None) -> "Client":
    """Return a client that waits for a slow service, and fails at once if there is none."""
    from forewarn.client.client import Client

    return Client(url, api_version=api_version, unreachable_patience=timedelta(0))


def first_document(client: "Client", slow: float = SLOW) -> "Document":
    """Return the first document; print a notice at a terminal if it takes long."""
    document = _first_document(client, slow)
    for event in document.unreadable:
        named = f"event {printable(event.id.upper())}" if event.id else "an event without id"
        click.echo(f"note: {named} cannot be read and is not shown: {printable(event.reason)}", err=True)
    return document


def _first_document(client: "Client", slow: float) -> "Document":
    if not is_watched(sys.stderr):
        return client.document()
    from threading import Timer

    # Azure: the first answer may take two minutes.
    timer = Timer(
        slow, click.echo, ("waiting for the service; its first answer may take two minutes",), {"err": True}
    )
    timer.daemon = True
    timer.start()
    try:
        return client.document()
    finally:
        timer.cancel()


class OwnName(NamedTuple):
    """The name of this VM, and its source."""

    name: str
    evidence: str
    is_guess: bool = False


def own_name(client: "Client", events: tuple["ScheduledEvent", ...]) -> OwnName:
    """Return this VM's name: from the service, else from the agent's configuration, else from the host name."""
    from forewarn.cli.agent import load_settings
    from forewarn.client.names import find_name
    from forewarn.core.errors import ForewarnError

    name = client.own_name()
    if not client.is_name_guessed:
        return OwnName(name, "instance metadata")
    try:
        configured = load_settings(None).name
    except ForewarnError:  # there is none, or none that can be read; the agent says so
        configured = ""
    if configured:
        return OwnName(configured, "the agent's configuration")
    if any(find_name(name, event.resources) for event in events):
        return OwnName(name, "the host name, and an event names it", is_guess=True)
    return OwnName(name, "the host name, and no event names it", is_guess=True)


def name_of(client: "Client", document: "Document") -> str:
    """Return this VM's name, with a notice on stderr if it is a guess; empty if it is unknown."""
    from forewarn.core.errors import ForewarnError

    try:
        own = own_name(client, document.events)
    except ForewarnError:
        return ""
    if own.is_guess:
        click.echo(f"note: this VM's name {printable(own.name)} is a guess: {own.evidence}; {REMEDY}", err=True)
    return own.name


def is_mine(event: "ScheduledEvent", name: str) -> bool:
    """Return whether the event affects this VM, which may be known by its host name."""
    from forewarn.client.names import find_name

    return bool(find_name(name, event.resources))


def azure_words(event: "ScheduledEvent") -> tuple[str, str, str]:
    """Return Azure's words for type, status and source; the source is empty if unknown."""
    from forewarn.wire.azure_names import SOURCES, STATUSES, TYPES

    types: dict[str, str] = dict(TYPES.items())
    statuses: dict[str, str] = dict(STATUSES.items())
    sources: dict[str, str] = dict(SOURCES.items())
    source = event.source or ""
    return (
        types.get(event.type, printable(event.type)),
        statuses.get(event.status, printable(event.status)),
        sources.get(source, printable(source)),
    )


def id_of(event: "ScheduledEvent") -> str:
    """Return an event's id as the service shows it."""
    return printable(event.shown_id)


def vm_names(event: "ScheduledEvent") -> str:
    return printable(", ".join(event.resources))


def describe_impact(event: "ScheduledEvent", name: str) -> str:
    if not name:
        return "not known"
    if not is_mine(event, name):
        return "not concerned"
    from forewarn.core.event_types import EVENT_TYPES, KNOWN_DURATION
    from forewarn.core.model import EventType

    if not isinstance(event.type, EventType):
        return "is concerned"
    effect = EVENT_TYPES[event.type].effect
    return f"{effect} for {span(event.duration)}" if event.type in KNOWN_DURATION and event.duration > 0 else effect


def time_until(event: "ScheduledEvent", now: datetime) -> str:
    if event.not_before is None:
        return "at any moment"
    return countdown(event.not_before, now)


def rows(events: tuple["ScheduledEvent", ...], name: str, now: datetime) -> Iterator[str]:
    """Yield the head of the table, then three lines for each event."""
    head = ("EVENT", "TYPE", "STATUS", "NOT BEFORE")
    cells = [(id_of(event), *azure_words(event)[:2], time_until(event, now)) for event in events]
    widths = [max(map(len, column)) for column in zip(head, *cells, strict=True)]
    yield styled(_line(head, widths), is_dim=True)
    for event, row in zip(events, cells, strict=True):
        line = _line(row, widths)
        yield styled(line, color=_MINE.get(row[2]), is_bold=True) if name and is_mine(event, name) else line
        yield wrapped(f"{describe_impact(event, name)}; VMs: {vm_names(event)}", "    this VM: ")
        yield wrapped(details(event), "    ")


def details(event: "ScheduledEvent") -> str:
    """Return source, duration and description of an event, as far as they are known."""
    source = azure_words(event)[2]
    by = f"by the {source.lower()}" if source else "by an unknown source"
    takes = {-1: "", 0: ", without interruption"}.get(event.duration, f", for {span(event.duration)}")
    return f"{by}{takes}: {printable(event.description)}" if event.description else f"{by}{takes}"


def event_as_json(event: "ScheduledEvent", name: str) -> dict[str, object]:
    """Return an event for the JSON output of all commands."""
    kind, status, source = azure_words(event)
    return {
        "id": event.shown_id,
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
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
