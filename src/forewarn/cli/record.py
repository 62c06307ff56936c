"""``forewarn record``: record the documents of an endpoint for a later replay."""

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from forewarn.cli.output import json_option
from forewarn.cli.vm_commands import azure_words, open_client, url_option

if TYPE_CHECKING:
    from forewarn.emulator.recording import RecordedDocument


@click.command
@url_option("[default: SCHEDULED_EVENTS_URL, else looked for]")
@click.option(
    "--out", required=True, type=click.Path(path_type=Path), metavar="FILE", help="A new file for the recording."
)
@click.option("--api-version", default="2020-07-01", show_default=True, metavar="V", help="The version to ask in.")
@click.option(
    "--every",
    default=1.0,
    type=click.FloatRange(min=0.2),
    show_default=True,
    metavar="S",
    help="Seconds between two questions.",
)
@click.option("--takes", type=click.IntRange(min=1), metavar="N", help="Stop after so many documents.")
@json_option
def record(url: str | None, out: Path, api_version: str, every: float, takes: int | None, as_json: bool) -> None:
    """Record every document that an endpoint shows, with its time, until Ctrl-C.

    Azure and Forewarn are recorded alike; 'forewarn emulate FILE' replays the recording.
    """
    from forewarn.core.errors import Unavailable
    from forewarn.emulator.recording import RecordedEndpoint, open_recording
    from forewarn.emulator.recording import record_documents as listen

    with open_client(url, api_version) as client:
        address = client.url
    endpoint = RecordedEndpoint(address, api_version)
    endpoint.document()  # fail before a file is created
    count = 0
    silence = ""
    with open_recording(out, endpoint) as file:
        if not as_json:
            click.echo(f"recording {address} to {out}; stop with Ctrl-C")
        listening = listen(endpoint, file)
        while takes is None or count < takes:
            try:
                take = next(listening)
            except Unavailable as error:
                if str(error) != silence:
                    click.echo(f"not recorded: {error}", err=True)
                silence = str(error)
                listening = listen(endpoint, file)
                take = None
            if take:
                count += 1
                click.echo(msgspec.json.encode(take).decode() if as_json else _sentence(take))
            if takes is None or count < takes:
                time.sleep(every)


def _sentence(take: "RecordedDocument") -> str:
    events = ", ".join(" ".join(azure_words(event)[:2]) for event in take.document.events) or "no events"
    return f"{take.at:%H:%M:%S} UTC  incarnation {take.document.incarnation}: {events}"
