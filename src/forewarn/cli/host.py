"""``forewarn host``: list, cordon and drain hosts, and announce maintenance of all their VMs."""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal

import click

from forewarn.cli.control_commands import (
    announcing_options,
    canceled,
    connect,
    description_option,
    print_events,
    print_quiet_hours,
)
from forewarn.cli.output import json_option, print_fields, print_json, print_json_list, print_table, wide_option
from forewarn.cli.root import ControlCommandGroup
from forewarn.cli.times import period_option
from forewarn.core.commands import HostOperation
from forewarn.core.event_types import ANNOUNCEMENTS
from forewarn.core.model import Operation, OperationScope

if TYPE_CHECKING:
    from forewarn.control.views import DrainPlanView, HostView


@click.group(cls=ControlCommandGroup)
def host() -> None:
    """List hosts; maintain one, or report that it fails."""


@host.command("list")
@wide_option
@json_option
@click.pass_context
def list_hosts(context: click.Context, as_json: bool) -> None:
    """List all hosts."""
    with connect(context) as client:
        hosts = client.hosts()
        if as_json:
            print_json_list(hosts)
        else:
            rows = ((each.name, _state(each), str(each.vms or "-")) for each in hosts)
            print_table(("HOST", "STATE", "VMS"), rows, "no hosts yet; declare some with 'forewarn fleet apply FILE'")


@host.command
@click.argument("name")
@json_option
@click.pass_context
def show(context: click.Context, name: str, as_json: bool) -> None:
    """Show a host: its state, and its VMs."""
    with connect(context) as client:
        found = client.host(name)
        if as_json:
            print_json(found)
            return
        vms = ", ".join(vm.name for vm in client.vms(host=name))
    print_fields({"host": found.name, "state": _state(found), "vms": vms})


def _state(each: "HostView") -> str:
    return f"{each.state}, cordoned" if each.cordoned else each.state


@host.command
@click.argument("name")
@click.option("--dry-run", is_flag=True, help="Print where each VM would move, and do nothing.")
@click.option("--leave-stuck", is_flag=True, help="Drain the host also if some VMs cannot move; they stay there.")
@announcing_options
@wide_option
@json_option
@click.pass_context
def drain(
    context: click.Context,
    name: str,
    dry_run: bool,
    leave_stuck: bool,
    not_before: datetime | None,
    duration: int | None,
    description: str | None,
    as_json: bool,
) -> None:
    """Cordon a host and move its VMs to other hosts, after notice.

    A host with enough room is planned for every running VM before anything moves; VMs move live where the driver can.
    If a VM cannot move, nothing is done, and the error names each such VM and the reason. Deallocated VMs stay
    recorded on the host. It stays cordoned until 'forewarn host uncordon NAME'.
    """
    from forewarn.control.bodies import HostOperationBody

    with connect(context) as client:
        if dry_run:
            _print_plan(client.plan_drain(name), as_json=as_json)
            return
        answer = client.operate_host(
            name,
            HostOperationBody(
                operation="drain",
                leave_stuck=leave_stuck,
                not_before=not_before,
                duration=duration,
                description=description,
            ),
        )
        deallocated = sum(1 for _ in client.vms(host=name, deallocated=True))
    events = [announcement.event for announcement in answer.announcements]
    print_events(events, f"{name} is cordoned; no running VM has to leave it", as_json=as_json)
    if not as_json:
        print_quiet_hours(answer.announcements)
        for vm, why in answer.left.items():
            click.echo(f"{vm} stays on {name}: {why}")
        if deallocated:
            click.echo(f"deallocated VMs that stay recorded on {name}: {deallocated}")


def _print_plan(plan: "DrainPlanView", *, as_json: bool) -> None:
    if as_json:
        print_json(plan)
        return
    rows = [
        (each.vm, each.group, each.host, "yes" if each.live else "no", _size(each.memory), str(each.cpus or "-"))
        for each in plan.placements
    ]
    nothing = f"no VM can leave {plan.host}" if plan.left else f"no VM runs on {plan.host}"
    print_table(("VM", "GROUP", "TO", "LIVE", "MEMORY", "CPUS"), rows, nothing)
    for vm, why in plan.left.items():
        click.echo(f"{vm} cannot leave {plan.host}: {why}")
    if plan.deallocated:
        click.echo(f"deallocated, and stay recorded on {plan.host}: {', '.join(plan.deallocated)}")


def _size(memory: int | None) -> str:
    return "-" if memory is None else f"{memory // (1024 * 1024)} MiB"


@host.command
@click.argument("name")
@json_option
@click.pass_context
def cordon(context: click.Context, name: str, as_json: bool) -> None:
    """Let a host receive no more VMs.

    No VM is moved, added or started there. VMs that run there stay; 'forewarn host drain NAME' moves them away.
    """
    _tell(context, name, "cordon", as_json=as_json)


@host.command
@click.argument("name")
@json_option
@click.pass_context
def uncordon(context: click.Context, name: str, as_json: bool) -> None:
    """Let a cordoned host receive VMs again.

    Events of its drain that are still Scheduled are canceled. VMs that have moved away do not move back.
    """
    _tell(context, name, "uncordon", as_json=as_json)


def _add_operation(operation: HostOperation, summary: str) -> None:
    @host.command(operation, help=summary)
    @click.argument("name")
    @announcing_options
    @wide_option
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


def _time_within(context: click.Context, parameter: click.Parameter, given: str | None) -> datetime | None:
    seconds = period_option(context, parameter, given)
    try:
        return None if seconds is None else context.find_root().obj.at + timedelta(seconds=seconds)
    except OverflowError:
        raise click.BadParameter(f"{given!r} is too long", context, parameter) from None


@host.command
@click.argument("name")
@click.option(
    "--fails-within",
    "not_before",
    metavar="DURATION",
    required=True,
    callback=_time_within,
    help="When it is expected to fail, at the latest: 7d.",
)
@description_option
@wide_option
@json_option
@click.pass_context
def degrade(context: click.Context, name: str, not_before: datetime, description: str | None, as_json: bool) -> None:
    """Report that a host is going to fail.

    Its VMs are redeployed when that time has come, or as soon as they approve. An earlier time moves the
    announced events forward; a later one changes nothing and shows what is announced.
    """
    _operate(context, name, HostOperation.DEGRADE, as_json=as_json, not_before=not_before, description=description)


@host.command
@click.argument("name")
@description_option
@wide_option
@json_option
@click.pass_context
def fail(context: click.Context, name: str, description: str | None, as_json: bool) -> None:
    """Report that a host has failed.

    Its VMs are redeployed to other hosts at once, without notice; its other events end. Nothing is moved there until
    'forewarn host repaired NAME'.
    """
    _operate(context, name, HostOperation.FAIL, as_json=as_json, description=description)


@host.command
@click.argument("name")
@json_option
@click.pass_context
def repaired(context: click.Context, name: str, as_json: bool) -> None:
    """Report that a degraded or failed host works again.

    Events that were Scheduled because it was expected to fail are canceled.
    """
    _tell(context, name, "repaired", as_json=as_json)


def _tell(
    context: click.Context, name: str, operation: Literal["repaired", "cordon", "uncordon"], *, as_json: bool
) -> None:
    from forewarn.control.bodies import HostOperationBody

    with connect(context) as client:
        answer = client.operate_host(name, HostOperationBody(operation=operation))
        found = client.host(name)
    if as_json:
        print_json(found)
    else:
        click.echo(f"{name} is {_state(found)}{canceled(answer.canceled)}")


def _operate(
    context: click.Context,
    name: str,
    operation: HostOperation,
    *,
    as_json: bool,
    not_before: datetime | None = None,
    duration: int | None = None,
    description: str | None = None,
) -> None:
    from forewarn.control.bodies import HostOperationBody

    body = HostOperationBody(operation=operation, not_before=not_before, duration=duration, description=description)
    with connect(context) as client:
        answer = client.operate_host(name, body)
    events = [announcement.event for announcement in answer.announcements]
    print_events(events, f"no running VM stands on {name}; nothing was announced", as_json=as_json)
    if not as_json:
        print_quiet_hours(answer.announcements)


for _operation in HostOperation:
    if _summary := ANNOUNCEMENTS[Operation.of(OperationScope.HOST, _operation)].summary:
        _add_operation(_operation, _summary)
