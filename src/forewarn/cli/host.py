"""``forewarn host``: hosts, and maintenance of all VMs of one."""

from datetime import datetime

import click

from forewarn.cli.operating import announcing_options, connect, print_events
from forewarn.cli.output import json_option, print_json_list, print_table
from forewarn.cli.root import Ordered
from forewarn.cli.times import period_option

_OPERATIONS = {
    "freeze": "Pause the host's VMs for some seconds, after notice.",
    "reboot": "Restart the host and so its VMs, after notice.",
    "redeploy": "Move its VMs elsewhere, after notice.\n\nLive where the driver can.",
}


@click.group(cls=Ordered)
def host() -> None:
    """List hosts; maintain one, or tell that it fails."""


@host.command("list")
@json_option
@click.pass_context
def list_hosts(context: click.Context, as_json: bool) -> None:
    """List all hosts."""
    with connect(context) as client:
        hosts = client.hosts()
        if as_json:
            print_json_list(hosts)
        else:
            rows = ((each.name, str(each.vms or "-")) for each in hosts)
            print_table(("HOST", "VMS"), rows, "no hosts yet; declare some with 'forewarn fleet apply FILE'")


def _add_operation(operation: str, told: str) -> None:
    @host.command(operation, help=told)
    @click.argument("name")
    @announcing_options
    @json_option
    @click.pass_context
    def operate(
        context: click.Context,
        name: str,
        not_before: datetime | None,
        duration: int | None,
        description: str | None,
        as_json: bool,
    ) -> None:
        _operate(
            context,
            name,
            operation,
            as_json=as_json,
            not_before=not_before,
            duration=duration,
            description=description,
        )


@host.command
@click.argument("name")
@click.option(
    "--fails-within",
    "seconds",
    metavar="DURATION",
    required=True,
    callback=period_option,
    help="When it is expected to fail, at the latest: 7d.",
)
@click.option("--description", metavar="TEXT", help="What its VMs will read.")
@json_option
@click.pass_context
def degrade(context: click.Context, name: str, seconds: int, description: str | None, as_json: bool) -> None:
    """Tell that a host is going to fail.

    Its VMs are redeployed when that time has come, or as soon as they approve. A nearer prediction brings what was
    announced forward, a later one changes nothing.
    """
    from datetime import UTC, timedelta

    _operate(
        context,
        name,
        "degrade",
        as_json=as_json,
        not_before=datetime.now(UTC) + timedelta(seconds=seconds),
        description=description,
    )


@host.command
@click.argument("name")
@click.option("--description", metavar="TEXT", help="What its VMs will read.")
@json_option
@click.pass_context
def fail(context: click.Context, name: str, description: str | None, as_json: bool) -> None:
    """Tell that a host has failed.

    Its VMs are redeployed to other hosts at once, without notice; what was announced for it is over.
    """
    _operate(context, name, "fail", as_json=as_json, description=description)


def _operate(
    context: click.Context,
    name: str,
    operation: str,
    *,
    as_json: bool,
    not_before: datetime | None = None,
    duration: int | None = None,
    description: str | None = None,
) -> None:
    from forewarn.control.bodies import HostOperationBody
    from forewarn.core.commands import HostOperation

    body = HostOperationBody(
        operation=HostOperation(operation), not_before=not_before, duration=duration, description=description
    )
    with connect(context) as client:
        answer = client.operate_host(name, body)
    events = [announcement.event for announcement in answer.announcements]
    print_events(events, f"no running VM stands on {name}; nothing was announced", as_json=as_json)


for _operation, _told in _OPERATIONS.items():
    _add_operation(_operation, _told)
