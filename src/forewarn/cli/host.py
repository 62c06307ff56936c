"""``forewarn host``: hosts, and maintenance of all VMs of one."""

from datetime import datetime

import click

from forewarn.cli.operating import announcing_options, connect, print_events
from forewarn.cli.output import json_option, print_json_list, print_table
from forewarn.cli.root import Ordered

_OPERATIONS = {
    "freeze": "Pause the host's VMs for some seconds, after notice.",
    "reboot": "Restart the host and so its VMs, after notice.",
    "redeploy": "Move its VMs elsewhere, after notice.\n\nLive where the driver can.",
}


@click.group(cls=Ordered)
def host() -> None:
    """List hosts; freeze, reboot, redeploy all VMs of one."""


@host.command("list")
@json_option
@click.pass_context
def list_hosts(context: click.Context, as_json: bool) -> None:
    """List all hosts."""
    from forewarn.control.messages import Hosts
    from forewarn.control.views import HostView

    with connect(context) as client:
        hosts = client.stream(Hosts(), HostView)
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
        from forewarn.control.client import OPERATOR, new_id
        from forewarn.core.commands import HostOperation, OperateHost

        command = OperateHost(
            id=new_id(),
            by=OPERATOR,
            operation=HostOperation(operation),
            host=name,
            not_before=not_before,
            duration=duration,
            description=description,
        )
        with connect(context) as client:
            answer = client.submit(command)
        events = [announcement.event for announcement in answer.announcements]
        print_events(events, f"no running VM stands on {name}; nothing was announced", as_json=as_json)


for _operation, _told in _OPERATIONS.items():
    _add_operation(_operation, _told)
