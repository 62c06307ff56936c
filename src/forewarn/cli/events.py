"""``forewarn events``: show the scheduled events of this VM and its neighbours."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from forewarn.cli.output import json_option, print_json_list, wide_option
from forewarn.cli.vm_commands import (
    azure_words,
    describe_impact,
    details,
    event_as_json,
    first_document,
    id_of,
    name_of,
    open_client,
    rows,
    service_options,
    time_until,
    vm_names,
)

if TYPE_CHECKING:
    from forewarn.client.changes import Change
    from forewarn.client.client import Client


@click.command
@click.option("--watch", is_flag=True, help="Go on, and print a line for each change until Ctrl-C.")
@service_options
@wide_option
@json_option
def events(watch: bool, url: str | None, api_version: str | None, as_json: bool) -> None:
    """Show the events of this VM and its neighbours.

    Runs inside a VM, on Azure and on Forewarn alike. Asking switches notices on for the VM's whole group.
    """
    with open_client(url, api_version) as client:
        if watch:
            _watch(client, as_json=as_json)
        else:
            _show(client, as_json=as_json)


def _show(client: "Client", *, as_json: bool) -> None:
    document = first_document(client)
    name = name_of(client, document)
    if as_json:
        print_json_list(event_as_json(event, name) for event in document.events)
        return
    if not document.events:
        click.echo(f"no events are coming{f' to {name} or its neighbours' if name else ''}")
        return
    for line in rows(document.events, name, datetime.now(UTC)):
        click.echo(line)


def _watch(client: "Client", *, as_json: bool) -> None:
    import logging

    logging.basicConfig(format="%(message)s", level=logging.INFO)
    # A problem at the start ends the command; later problems are retried.
    name = name_of(client, first_document(client))
    if not as_json:
        click.echo(f"watching {client.url} for {name or 'this VM'}; stop with Ctrl-C", err=True)
    try:
        for change in client.watch():
            click.echo(_json(change, name) if as_json else _sentence(change, name))
    except KeyboardInterrupt:
        return


def _json(change: "Change", name: str) -> str:
    import msgspec

    line = {
        "at": datetime.now(UTC),
        "change": change.kind,
        "ending": change.ending,
        "event": event_as_json(change.event, name),
    }
    return msgspec.json.encode(line).decode()


def _sentence(change: "Change", name: str) -> str:
    now = datetime.now(UTC)
    event = change.event
    what = f"{azure_words(event)[0]} of {vm_names(event)}"
    head = f"{now.astimezone():%H:%M:%S}  {id_of(event)}  {change.kind:<7}  {what}"
    if change.ending:
        how = {"unknown": "completed or canceled, unknown which"}.get(change.ending, str(change.ending))
        return f"{head}: {how}"
    sentence = f"{head}, {time_until(event, now)}; this VM: {describe_impact(event, name)}"
    return f"{sentence}; {details(event)}" if change.kind == "new" else sentence
