"""``forewarn host``: list, cordon and drain hosts, and announce maintenance of all their VMs."""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Unpack

import click

from forewarn.cli.bulk import operate_hosts
from forewarn.cli.confirmation import confirm, yes_option
from forewarn.cli.control_commands import (
    announcing_options,
    canceled,
    connect,
    connected,
    description_option,
    print_arriving,
    print_events,
    print_quiet_hours,
)
from forewarn.cli.dry_run import dry_run_option
from forewarn.cli.output import (
    json_option,
    print_fields,
    print_json,
    print_list,
    print_result,
    print_table,
    wide_option,
)
from forewarn.cli.root import ControlCommandGroup
from forewarn.cli.selection import (
    HostSelection,
    format_labels,
    host_filters,
    host_selector_body,
    host_selector_options,
    host_target_options,
    label_options,
    named_options,
    read_label_changes,
    read_pair,
    show_labels_option,
    single_name,
    with_labels,
)
from forewarn.cli.times import period_option
from forewarn.cli.watching import watch, watch_option
from forewarn.core.commands import AnnouncementTerms, HostOperation
from forewarn.core.event_types import ANNOUNCEMENTS
from forewarn.core.model import Operation, OperationScope

if TYPE_CHECKING:
    from forewarn.control.client import ControlClient
    from forewarn.control.views import DrainPlanView, HostView


@click.group(cls=ControlCommandGroup)
def host() -> None:
    """List hosts; maintain one, or report that it fails."""


@host.command("list")
@host_selector_options
@show_labels_option
@watch_option
@wide_option
@connected
def list_hosts(
    client: "ControlClient", show_labels: bool, is_watching: bool, as_json: bool, **selected: Unpack[HostSelection]
) -> None:
    """List all hosts, or those that match.

    Names, globs such as 'r1-*' and options must all match.
    """
    filters = host_filters(**selected)
    empty = "no host matches" if filters else "no hosts yet; declare some with 'forewarn fleet apply FILE'"
    columns = with_labels(("HOST", "STATE", "VMS"), _row, show_labels)
    watch(
        lambda: print_list(client.hosts(**filters), *columns, empty, as_json=as_json),
        is_watching=is_watching,
    )


def _row(each: "HostView") -> tuple[str, ...]:
    return each.name, _state(each), str(each.vms or "-")


@host.command
@click.argument("name")
@connected
def show(client: "ControlClient", name: str, as_json: bool) -> None:
    """Show a host: its state, and its VMs."""
    found = client.host(name)
    if as_json:
        print_json(found)
    else:
        vms = ", ".join(vm.name for vm in client.vms(host=name))
        labels = format_labels(found.labels)
        print_fields({"host": found.name, "state": _state(found), "labels": labels, "vms": vms})


@host.command
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="A label; may be given again.")
@dry_run_option
@connected
def add(client: "ControlClient", names: tuple[str, ...], labels: tuple[str, ...], as_json: bool) -> None:
    """Add hosts to the fleet."""
    from forewarn.core.model import NO_LABELS, Host
    from forewarn.fleetfile.diff import FleetDiff

    given = dict(sorted(read_pair("--label", pair) for pair in labels)) or NO_LABELS
    client.change_fleet(FleetDiff(hosts=tuple(Host(name, given) for name in names)), only_new=True)
    found = [client.host(name) for name in names]
    print_result(found[0] if len(found) == 1 else found, f"added: {', '.join(names)}", as_json=as_json)


@host.command
@host_target_options
@dry_run_option
@yes_option
@connected
def remove(client: "ControlClient", all_: bool, as_json: bool, **selected: Unpack[HostSelection]) -> None:
    """Take hosts without VMs out of the fleet."""
    from forewarn.control.bodies import HostBulkBody

    if not (name := single_name(**selected, all_=all_)):
        body = HostBulkBody(select=host_selector_body(**selected, all_=all_), operation="remove")
        operate_hosts(client, body, as_json=as_json, is_final=True)
        return
    confirm(f"remove {name}")
    client.remove_host(name)
    print_result({"removed": name}, f"{name} was removed", as_json=as_json)


@host.command("set")
@named_options
@label_options
@dry_run_option
@json_option
@click.pass_context
def set_host(
    context: click.Context,
    names: tuple[str, ...],
    selector: str | None,
    all_: bool,
    labels: tuple[str, ...],
    unlabel: tuple[str, ...],
    as_json: bool,
) -> None:
    """Set labels of hosts; labels that are not given stay."""
    from forewarn.control.bodies import HostBulkBody, HostSetBody

    if not (labels or unlabel):
        raise click.UsageError("nothing is to be changed; give --label KEY=VALUE or --unlabel KEY", context)
    changes = HostSetBody(labels=read_label_changes(labels, unlabel))
    with connect(context) as client:
        if name := single_name(names, selector=selector, all_=all_):
            client.set_host(name, changes)
            found = client.host(name)
            print_result(found, f"{name}: {format_labels(found.labels) or 'no labels'}", as_json=as_json)
        else:
            select = host_selector_body(names=names, state=None, cordoned=None, label=selector, all_=all_)
            operate_hosts(client, HostBulkBody(select=select, operation="set", set=changes), as_json=as_json)


def _state(each: "HostView") -> str:
    return f"{each.state}, cordoned" if each.cordoned else each.state


@host.command
@click.argument("name")
@click.option("--dry-run", is_flag=True, help="Print where each VM would move, and do nothing.")
@click.option("--leave-stuck", is_flag=True, help="Drain the host also if some VMs cannot move; they stay there.")
@announcing_options
@wide_option
@connected
def drain(
    client: "ControlClient",
    name: str,
    dry_run: bool,
    leave_stuck: bool,
    as_json: bool,
    **terms: Unpack[AnnouncementTerms],
) -> None:
    """Cordon a host and move its VMs to other hosts, after notice.

    A host with enough room is planned for every running VM before anything moves; VMs move live where the driver can.
    If a VM cannot move, nothing is done, and the error names each such VM and the reason. Deallocated VMs stay
    recorded on the host. It stays cordoned until 'forewarn host uncordon NAME'.
    """
    from forewarn.control.bodies import HostOperationBody

    if dry_run:
        _print_plan(client.plan_drain(name), as_json=as_json)
        return
    answer = client.operate_host(name, HostOperationBody(operation="drain", leave_stuck=leave_stuck, **terms))
    deallocated = sum(1 for _ in client.vms(host=name, deallocated=True))
    events = [announcement.event for announcement in answer.announcements]
    print_events(events, f"{name} is cordoned; no running VM has to leave it", as_json=as_json)
    if not as_json:
        print_quiet_hours(answer.announcements)
        for vm, why in answer.left.items():
            click.echo(f"{vm} stays on {name}: {why}")
        if deallocated:
            click.echo(f"deallocated VMs that stay recorded on {name}: {deallocated}")
        print_arriving(name, answer.arriving)


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


def _add_state(operation: str, help_text: str) -> None:
    @host.command(operation, help=help_text)
    @host_target_options
    @dry_run_option
    @connected
    def tell(client: "ControlClient", all_: bool, as_json: bool, **selected: Unpack[HostSelection]) -> None:
        from forewarn.control.bodies import HostBulkBody, HostOperationBody

        if not (name := single_name(**selected, all_=all_)):
            select = host_selector_body(**selected, all_=all_)
            operate_hosts(client, HostBulkBody(select=select, operation=operation), as_json=as_json)
            return
        answer = client.operate_host(name, HostOperationBody(operation=operation))
        found = client.host(name)
        print_result(found, f"{name} is {_state(found)}{canceled(answer.canceled)}", as_json=as_json)
        if not as_json:
            print_arriving(name, answer.arriving)


_STATE_COMMANDS = {
    "repaired": """Report that degraded or failed hosts work again.

Events that were Scheduled because they were expected to fail are canceled.""",
    "cordon": """Let hosts receive no more VMs.

No VM is moved, added or started there. VMs that run there stay; 'forewarn host drain NAME' moves them away.""",
    "uncordon": """Let cordoned hosts receive VMs again.

Events of their drain that are still Scheduled are canceled. VMs that have moved away do not move back.""",
    "enter-maintenance": """Report that hosts are being worked on.

They are cordoned, and their state is in-maintenance until 'forewarn host exit-maintenance NAME'. VMs that run there
stay; 'forewarn host drain NAME' moves them away.""",
    "exit-maintenance": """Report that work on hosts is done.

They stay cordoned until 'forewarn host uncordon NAME'.""",
}


def _add_operation(operation: HostOperation, summary: str) -> None:
    @host.command(operation, help=summary)
    @host_target_options
    @announcing_options
    @dry_run_option
    @connected
    def operate(
        client: "ControlClient",
        names: tuple[str, ...],
        state: str | None,
        cordoned: bool | None,
        label: str | None,
        all_: bool,
        as_json: bool,
        **terms: Unpack[AnnouncementTerms],
    ) -> None:
        from forewarn.control.bodies import HostBulkBody

        selected = HostSelection(names=names, state=state, cordoned=cordoned, label=label)
        if name := single_name(**selected, all_=all_):
            _operate(client, name, operation, as_json=as_json, **terms)
        else:
            select = host_selector_body(**selected, all_=all_)
            operate_hosts(client, HostBulkBody(select=select, operation=operation, **terms), as_json=as_json)


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
@dry_run_option
@wide_option
@connected
def degrade(client: "ControlClient", name: str, as_json: bool, **terms: Unpack[AnnouncementTerms]) -> None:
    """Report that a host is going to fail.

    Its VMs are redeployed when that time has come, or as soon as they approve. An earlier time moves the
    announced events forward; a later one changes nothing and shows what is announced.
    """
    _operate(client, name, HostOperation.DEGRADE, as_json=as_json, **terms)


@host.command
@click.argument("name")
@description_option
@dry_run_option
@yes_option
@wide_option
@connected
def fail(client: "ControlClient", name: str, as_json: bool, **terms: Unpack[AnnouncementTerms]) -> None:
    """Report that a host has failed.

    Its VMs are redeployed to other hosts at once, without notice; its other events end. Nothing is moved there until
    'forewarn host repaired NAME'.
    """
    confirm(f"fail {name}, and redeploy its VMs without notice")
    _operate(client, name, HostOperation.FAIL, as_json=as_json, **terms)


def _operate(
    client: "ControlClient",
    name: str,
    operation: HostOperation,
    *,
    as_json: bool,
    **terms: Unpack[AnnouncementTerms],
) -> None:
    from forewarn.control.bodies import HostOperationBody

    answer = client.operate_host(name, HostOperationBody(operation=operation, **terms))
    events = [announcement.event for announcement in answer.announcements]
    print_events(events, f"no running VM stands on {name}; nothing was announced", as_json=as_json)
    if not as_json:
        print_quiet_hours(answer.announcements)


for _verb, _description in _STATE_COMMANDS.items():
    _add_state(_verb, _description)

for _operation in HostOperation:
    if _summary := ANNOUNCEMENTS[Operation.of(OperationScope.HOST, _operation)].summary:
        _add_operation(_operation, _summary)
