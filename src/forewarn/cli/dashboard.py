"""``forewarn dashboard``: print a one-time link that logs a browser in, and open it."""

from typing import TYPE_CHECKING

import click

from forewarn.cli.control_commands import connected
from forewarn.cli.output import print_json
from forewarn.cli.root import service_options

if TYPE_CHECKING:
    from forewarn.control.client import ControlClient


@click.command
@click.option("--no-browser", is_flag=True, help="Only print the link.")
@service_options
@connected
def dashboard(client: "ControlClient", no_browser: bool, as_json: bool) -> None:
    """Open the dashboard in a browser, logged in.

    The link works once, within five minutes. On the machine of the service, the session lasts twelve hours; elsewhere
    it is that of your token.
    """
    link = client.dashboard_link()
    if as_json:
        print_json({"url": link})
        return
    click.echo(link)
    if not no_browser:
        click.launch(link)
