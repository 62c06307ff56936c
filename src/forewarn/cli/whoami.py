"""``forewarn whoami``: show this VM's name and its metadata endpoint."""

import click

from forewarn.cli.output import json_option, print_fields, print_json, printable
from forewarn.cli.vm_commands import REMEDY, first_document, open_client, own_name, service_options


@click.command
@service_options
@json_option
def whoami(url: str | None, api_version: str | None, as_json: bool) -> None:
    """Show this VM's name, and where and how its events are asked for.

    The name comes from the service's instance metadata, else from the agent's configuration; else the host name
    is used as a guess, and the output says so. Neighbours are the other VMs in the present events: a service does
    not list them otherwise.
    """
    from forewarn.client.names import find_name

    with open_client(url, api_version) as client:
        document = first_document(client)
        own = own_name(client, document.events)
        name = own.name
        named = {each for event in document.events for each in event.resources}
        neighbours = sorted(each for each in named if not find_name(name, (each,)))
        identity = {
            "name": name,
            "name_evidence": own.evidence,
            "name_is_guess": own.is_guess,
            "url": client.url,
            "found_by": client.found_by,
            "api_version": client.api_version,
            "long_poll": client.does_hold(),
            "incarnation": document.incarnation,
            "events": len(document.events),
            "neighbours": neighbours,
        }
    if as_json:
        print_json(identity)
        return
    print_fields(
        {
            "name": printable(f"{name} (a guess)" if own.is_guess else name),
            "name from": f"{own.evidence}; {REMEDY}" if own.is_guess else own.evidence,
            "service": client.url,
            "found by": client.found_by,
            "api-version": client.api_version,
            "changes": "reported at once (long poll)" if identity["long_poll"] else "found by polling once a second",
            "events": f"{len(document.events)} (incarnation {document.incarnation})",
            "neighbours": printable(", ".join(neighbours)),
        }
    )
