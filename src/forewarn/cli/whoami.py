"""``forewarn whoami``: which VM this is, and which service it is told by."""

import click

from forewarn.cli.listening import first_document, service, service_options
from forewarn.cli.output import json_option, print_fields, print_json, printable


@click.command
@service_options
@json_option
def whoami(url: str | None, api_version: str | None, as_json: bool) -> None:
    """Tell this VM's name, and where and how its events are asked for.

    Neighbours are the VMs that present events name; a service does not list them otherwise.
    """
    from forewarn.client.names import find_name

    with service(url, api_version) as client:
        document = first_document(client)
        name = client.own_name()
        named = {each for event in document.events for each in event.resources}
        neighbours = sorted(each for each in named if not find_name(name, (each,)))
        told = {
            "name": name,
            "url": client.url,
            "found_by": client.found_by,
            "api_version": client.api_version,
            "long_poll": client.does_hold(),
            "incarnation": document.incarnation,
            "events": len(document.events),
            "neighbours": neighbours,
        }
    if as_json:
        print_json(told)
        return
    print_fields(
        {
            "name": name,
            "service": client.url,
            "found by": client.found_by,
            "api-version": client.api_version,
            "changes": "told at once (long poll)" if told["long_poll"] else "seen by asking once a second",
            "events": f"{len(document.events)} (incarnation {document.incarnation})",
            "neighbours": printable(", ".join(neighbours)),
        }
    )
