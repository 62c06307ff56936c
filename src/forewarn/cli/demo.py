"""``forewarn demo``: run the service with a small demo fleet and shortened times, and print commands to try."""

import json
import os
import shlex
import shutil
import sys
from contextlib import suppress
from importlib.resources import as_file, files
from pathlib import Path
from threading import Thread

import click

from forewarn.config.values import CONTROL_PORT, METADATA_PORT

HURRY = 60
_DOCUMENT = "/metadata/scheduledevents?api-version=2020-07-01"


@click.command
@click.option("--data", metavar="DIR", help="Where it keeps its data. [default: ./forewarn-demo]")
@click.option(
    "--metadata", metavar="HOST:PORT", default=f"127.0.0.1:{METADATA_PORT}", show_default=True, help="Where VMs ask."
)
@click.option(
    "--control",
    metavar="HOST:PORT|off",
    default=f"127.0.0.1:{CONTROL_PORT}",
    show_default=True,
    help="Where the control API answers.",
)
@click.option("--json", "as_json", is_flag=True, help="Say in JSON where it answers, and log in JSON.")
@click.pass_context
def demo(context: click.Context, data: str | None, metadata: str, control: str, as_json: bool) -> None:
    """Run the service with a demo fleet.

    Durations are shortened, so that minutes become seconds. It prints what to type next.
    """
    from forewarn.config.settings import load
    from forewarn.serving import serve
    from forewarn.signals import Signals

    directory = Path(data or context.find_root().obj.data or "forewarn-demo").absolute()
    with as_file(files("forewarn.cli") / "demo.toml") as fleet:
        flags = {"data": str(directory), "metadata": metadata, "control": control, "fleet": str(fleet)}
        log_format = "json" if as_json else "human"
        flags |= {"hurry": str(HURRY), "default_vm": "web-0", "log_format": log_format}
        if as_json:
            said = json.dumps(
                {"data": str(directory), "metadata": f"http://{metadata}", "control": _address(control)}
            )
        else:
            said = guide(_command(), directory, metadata, control)

        def announce() -> None:
            click.echo(said)
            if _address(control) and not as_json:  # the service answers only after this returns
                Thread(target=_print_link, args=(directory,), daemon=True).start()

        serve(lambda: load(flags, {}, Path(os.devnull)), announce, Signals(hangup_stops=True))


def _print_link(directory: Path) -> None:
    from forewarn.control.client import ControlClient
    from forewarn.core.errors import ForewarnError

    with suppress(ForewarnError), ControlClient.local(directory) as client:
        click.echo(
            f"The dashboard, logged in (the link works once, within five minutes):\n\n  {client.dashboard_link()}\n"
        )


def guide(command: str, directory: Path, metadata: str, control: str) -> str:
    """Return the commands to try."""
    url = f"'http://{metadata}{_DOCUMENT}'"
    return f"""
Forewarn runs with a demo fleet; a minute of notice takes a second here.
In another terminal, say once where it is:

    export FOREWARN_DATA={shlex.quote(str(directory))}
    export SCHEDULED_EVENTS_URL=http://{metadata}/metadata/scheduledevents
{_shortened(command)}
Then type, as the VM web-0 or as the operator:

  Show the events of web-0; its first request enables events for its group:
    forewarn events

  Restart web-0, in three minutes unless it approves:
    forewarn vm restart web-0 --not-before +3m

  Approve it, as any VM of its group may:
    forewarn approve --all

  What happened, step by step:
    forewarn event show last

  Look around:
    forewarn vm list
    forewarn host reboot host-2

  What any client of Azure asks, here as web-0 and as its neighbour web-1:
    curl -s -H Metadata:true {url}
    curl -s --interface 127.0.0.12 -H Metadata:true {url}
{_api(control)}
Stop it with Ctrl-C; what happened is kept in {directory}.
"""


def _api(control: str) -> str:
    address = _address(control)
    if not address:
        return ""
    return (
        "\n  The dashboard, in a browser: the link below, or forewarn dashboard"
        f"\n  The control API, and how to use it: {address}/api\n"
    )


def _address(control: str) -> str:
    return "" if control in ("", "off") else f"http://{control}"


def _command() -> str:
    """Return how to call this program: by name if it is on the PATH, else by path."""
    own = Path(sys.argv[0]).absolute()
    found = shutil.which("forewarn")
    if found and Path(found).resolve() == own.resolve():
        return "forewarn"
    return shlex.quote(str(own)) if own.name == "forewarn" else f"{shlex.quote(sys.executable)} -m forewarn"


def _shortened(command: str) -> str:
    return "" if command == "forewarn" else f"    alias forewarn={shlex.quote(command)}\n"
