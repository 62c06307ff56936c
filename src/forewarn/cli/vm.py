"""``forewarn vm``: manage VMs and run operations on them."""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar, Unpack

import click

from forewarn.cli.bulk import operate_vms
from forewarn.cli.confirmation import confirm, yes_option
from forewarn.cli.control_commands import (
    announcing_options,
    canceled,
    connect,
    connected,
    print_announcement,
    print_events,
)
from forewarn.cli.dry_run import dry_run_option
from forewarn.cli.flags import flag_of
from forewarn.cli.output import (
    json_option,
    print_fields,
    print_json,
    print_list,
    print_result,
    wide_option,
)
from forewarn.cli.root import ControlCommandGroup
from forewarn.cli.selection import (
    VmSelection,
    format_labels,
    label_options,
    named_options,
    read_label_changes,
    read_pair,
    selection_of,
    show_labels_option,
    single_name,
    vm_filters,
    vm_selector_body,
    vm_selector_options,
    vm_target_options,
    with_labels,
)
from forewarn.cli.watching import watch, watch_option
from forewarn.core.addresses import MARKS
from forewarn.core.commands import AnnouncementTerms, VmOperation
from forewarn.core.event_types import ANNOUNCEMENTS, EVENT_TYPES
from forewarn.core.model import Operation, OperationScope
from forewarn.core.terms import DOMAINS

if TYPE_CHECKING:
    from forewarn.control.client import ControlClient
    from forewarn.control.views import VmDetail, VmView

_Command = TypeVar("_Command", bound=Callable[..., object])


@click.group(cls=ControlCommandGroup)
def vm() -> None:
    """List, add and remove VMs; restart, redeploy, move, freeze, evict, delete them."""


@vm.command("list")
@vm_selector_options
@show_labels_option
@watch_option
@wide_option
@connected
def list_vms(
    client: "ControlClient", show_labels: bool, is_watching: bool, as_json: bool, **selected: Unpack[VmSelection]
) -> None:
    """List all VMs, or those that match.

    Names, globs such as 'web-*' and options must all match.
    """
    headers = ("VM", "GROUP", "HOST", "UD", "FD", "ADDRESS", "STATE", "EVENTS")
    empty = "no VMs yet; declare some with 'forewarn fleet apply FILE'"
    drop = ("FD", "UD", "ADDRESS", "HOST", "GROUP", "EVENTS")
    filters = vm_filters(**selected)
    empty = "no VM matches" if filters else empty
    columns = with_labels(headers, _row, show_labels)
    watch(
        lambda: print_list(client.vms(**filters), *columns, empty, as_json=as_json, drop=drop),
        is_watching=is_watching,
    )


def _row(each: "VmView") -> tuple[str, ...]:
    domains = str(each.update_domain), str(each.fault_domain)
    events = str(each.events or "-")
    return each.name, each.group, each.host or "-", *domains, each.address or "-", each.state, events


@vm.command
@click.argument("name")
@wide_option
@connected
def show(client: "ControlClient", name: str, as_json: bool) -> None:
    """Show a VM and what is coming to it."""
    _print_detail(client.vm(name), as_json=as_json)


def _print_detail(detail: "VmDetail", *, as_json: bool) -> None:
    if as_json:
        print_json(detail)
        return
    import msgspec

    moved = f" (moved from {detail.declared_host})" if detail.declared_host not in ("", detail.host) else ""
    instance = msgspec.structs.asdict(detail.instance)
    tags = instance.pop("tags")
    interface = msgspec.structs.asdict(detail.interface)
    print_fields(
        {
            "vm": detail.name,
            "group": detail.group,
            "host": detail.host + moved,
            "update domain": str(detail.update_domain),
            "fault domain": str(detail.fault_domain),
            "zone": detail.zone,
            "address": detail.address,
            "state": detail.state + (", spot" if detail.spot else ""),
            "labels": format_labels(detail.labels),
            "power": detail.power,
            "held": detail.held,
            **{key.replace("_", " "): str(value or "") for key, value in interface.items()},
            **{key.replace("_", " "): value for key, value in instance.items()},
            "tags": ", ".join(f"{key}={value}" for key, value in tags.items()),
        }
    )
    if detail.upcoming:
        click.echo()
        print_events(detail.upcoming, "", as_json=False)


def _key_options(command: _Command) -> _Command:
    """Add an option for each key of a VM that can be changed."""
    for option in reversed(_KEY_OPTIONS):
        command = option(command)
    return command


_KEY_OPTIONS = (
    click.option("--address", metavar="IP", help="The address it asks from."),
    click.option(
        "--update-domain",
        type=click.IntRange(0, DOMAINS[-1]),
        metavar="N",
        help="VMs of its group with the same number are impacted together.",
    ),
    click.option(
        "--fault-domain",
        type=click.IntRange(0, DOMAINS[-1]),
        metavar="N",
        help="VMs of its group with the same number share hardware.",
    ),
    click.option("--zone", metavar="TEXT", help="Its availability zone."),
    click.option("--spot/--no-spot", default=None, help="Whether it may be evicted."),
    click.option("--tap", metavar="NAME", help="The tap device on its host that its packets come from."),
    click.option("--mark", type=click.IntRange(1, MARKS[-1]), metavar="N", help="The mark of its packets."),
    click.option(
        "--mac-address", metavar="MAC", help="Its MAC address; with --tap, packets from any other are dropped."
    ),
    click.option(
        "--subnet", metavar="CIDR", help="Its subnet. It reads this and all options below in its instance metadata."
    ),
    click.option("--public-ip-address", metavar="IP", help="Its public address."),
    click.option("--ipv6-address", metavar="IP", help="Its IPv6 address."),
    click.option("--vm-id", metavar="TEXT", help="Its id. [default: made from its name]"),
    click.option("--vm-size", metavar="TEXT", help="Its size, such as Standard_D2s_v5."),
    click.option("--os-type", metavar="TEXT", help="Its system. [default: Linux]"),
    click.option("--location", metavar="TEXT", help="Its region, such as westeurope."),
    click.option("--resource-group-name", metavar="TEXT", help="Its resource group."),
    click.option("--subscription-id", metavar="TEXT", help="Its subscription."),
    click.option("--tag", "tags", multiple=True, metavar="KEY=VALUE", help="A tag; may be given again."),
)


@vm.command
@click.argument("name")
@click.option("--group", metavar="NAME", help="The group it joins. [default: a group of its own]")
@click.option("--host", metavar="NAME", help="The host it runs on.")
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="A label; may be given again.")
@_key_options
@dry_run_option
@json_option
@click.pass_context
def add(
    context: click.Context,
    /,
    name: str,
    as_json: bool,
    labels: tuple[str, ...],
    tags: tuple[str, ...],
    **given: object,
) -> None:
    """Add a VM to the fleet."""
    from forewarn.core.errors import Refused
    from forewarn.core.model import GroupKind, GroupTerms
    from forewarn.fleetfile.diff import FleetDiff
    from forewarn.fleetfile.tables import InvalidTable, read_vm

    table = {"name": name} | {key: value for key, value in given.items() if value is not None}
    for key, pairs in (("tags", tags), ("labels", labels)):
        if pairs:
            table[key] = dict(read_pair(f"--{key[:-1]}", pair) for pair in pairs)
    try:
        wished = read_vm(table)
    except InvalidTable as wrong:
        flags = {each.name: flag_of(each) for each in context.command.params if isinstance(each, click.Option)}
        said = str(wrong).replace(wrong.key, flags.get(wrong.key, wrong.key), 1).replace("a text in quotes", "a text")
        raise click.UsageError(said, context) from None
    with connect(context) as client:
        (declared,) = client.declared(name)
        if declared.vms and not (client.key and declared.vms == (wished,)):
            raise Refused(f"there is a VM {name!r} already; change it in a fleet file and apply that")
        if not declared.vms:  # else the command is repeated with its key, and was carried out before
            is_alone = wished.group == name and not declared.groups
            groups = (GroupTerms(name, GroupKind.STANDALONE),) if is_alone else ()
            client.change_fleet(FleetDiff(groups=groups, vms=(wished,)), seen=declared.changes)
        detail = client.vm(name)
    print_result(detail, f"{name} was added to group {detail.group}", as_json=as_json)


@vm.command("set")
@named_options
@click.option("--group", metavar="NAME", help="The group it joins.")
@label_options
@_key_options
@click.option("--cancel-events", is_flag=True, help="Cancel its Scheduled events if it leaves its group or domain.")
@dry_run_option
@json_option
@click.pass_context
def set_vm(
    context: click.Context,
    /,
    names: tuple[str, ...],
    selector: str | None,
    all_: bool,
    as_json: bool,
    labels: tuple[str, ...],
    unlabel: tuple[str, ...],
    tags: tuple[str, ...],
    cancel_events: bool,
    **given: object,
) -> None:
    """Change labels and other keys of VMs; what is not given stays.

    A later fleet file changes only the keys, and the labels, that change in it. 'forewarn vm move' changes the host.
    """
    import msgspec

    from forewarn.control.bodies import VmBulkBody, VmSetBody

    changed = {key: value for key, value in given.items() if value is not None}
    if labels or unlabel:
        changed["labels"] = read_label_changes(labels, unlabel)
    if tags:
        changed["tags"] = dict(read_pair("--tag", tag) for tag in tags)
    if not changed:
        raise click.UsageError("nothing is to be changed; give --label KEY=VALUE or another option", context)
    body = msgspec.structs.replace(VmSetBody(cancel_events=cancel_events), **changed)
    with connect(context) as client:
        if name := single_name(names, selector=selector, all_=all_):
            client.set_vm(name, body)
            _print_detail(client.vm(name), as_json=as_json)
        else:
            select = vm_selector_body(**selection_of(names, selector), all_=all_)
            operate_vms(client, VmBulkBody(select=select, operation="set", set=body), as_json=as_json)


@vm.command
@vm_target_options
@click.option("--cancel-events", is_flag=True, help="Cancel their Scheduled events, instead of refusing.")
@dry_run_option
@yes_option
@connected
def remove(
    client: "ControlClient", cancel_events: bool, all_: bool, as_json: bool, **selected: Unpack[VmSelection]
) -> None:
    """Take VMs out of the fleet.

    They leave the fleet at once; the machines themselves are not touched.
    """
    from forewarn.control.bodies import VmBulkBody
    from forewarn.fleetfile.diff import FleetDiff

    if not (name := single_name(**selected, all_=all_)):
        body = VmBulkBody(
            select=vm_selector_body(**selected, all_=all_), operation="remove", cancel_events=cancel_events
        )
        operate_vms(client, body, as_json=as_json, is_final=True)
        return
    confirm(f"remove {name}")
    changed = client.change_fleet(FleetDiff(removed_vms=(name,)), cancel_events=cancel_events)
    result = {"removed": name, "canceled": changed.canceled}
    print_result(result, f"{name} was removed{canceled(changed.canceled)}", as_json=as_json)


@vm.command
@vm_target_options
@dry_run_option
@connected
def start(client: "ControlClient", all_: bool, as_json: bool, **selected: Unpack[VmSelection]) -> None:
    """Start deallocated VMs.

    A driver that can start VMs starts their machines; 'forewarn vm show NAME' tells whether it could.
    """
    from forewarn.control.bodies import VmBulkBody, VmOperationBody

    if not (name := single_name(**selected, all_=all_)):
        select = vm_selector_body(**selected, all_=all_)
        operate_vms(client, VmBulkBody(select=select, operation="start"), as_json=as_json)
        return
    client.operate_vm(name, VmOperationBody(operation="start"))
    detail = client.vm(name)
    state = f"{detail.power}; see 'forewarn vm show {name}'" if detail.power else f"{name} is running"
    print_result(detail, state, as_json=as_json)


@vm.command
@vm_target_options
@dry_run_option
@connected
def deallocate(client: "ControlClient", all_: bool, as_json: bool, **selected: Unpack[VmSelection]) -> None:
    """Deallocate VMs at once.

    Nothing is announced, and their Scheduled events are canceled. A driver that can stop VMs stops their machines;
    'forewarn vm show NAME' tells whether it could.
    """
    from forewarn.control.bodies import VmBulkBody, VmOperationBody

    if not (name := single_name(**selected, all_=all_)):
        select = vm_selector_body(**selected, all_=all_)
        operate_vms(client, VmBulkBody(select=select, operation="deallocate"), as_json=as_json)
        return
    result = client.operate_vm(name, VmOperationBody(operation="deallocate"))
    detail = client.vm(name)
    state = f"{name} is deallocated{canceled(result.canceled)}; start it with 'forewarn vm start {name}'"
    power = f"\n{detail.power}; see 'forewarn vm show {name}'" if detail.power else ""
    print_result(detail, state + power, as_json=as_json)


@vm.command
@named_options
@click.argument("host")
@click.option("--record", is_flag=True, help="Only record the new host: the machine was moved by hand.")
@announcing_options
@dry_run_option
@connected
def move(
    client: "ControlClient",
    names: tuple[str, ...],
    selector: str | None,
    all_: bool,
    host: str,
    record: bool,
    as_json: bool,
    **terms: Unpack[AnnouncementTerms],
) -> None:
    """Move VMs to a host, after notice to their group.

    A VM keeps running if the driver can move it live. With a driver that cannot move a VM to a given host, only the
    new host is recorded.
    """
    from forewarn.control.bodies import MoveBody, VmBulkBody

    if not (name := single_name(names, selector=selector, all_=all_)):
        if record:
            raise click.UsageError("--record is for one VM at a time")
        select = vm_selector_body(**selection_of(names, selector), all_=all_)
        operate_vms(client, VmBulkBody(select=select, operation="move", to=host, **terms), as_json=as_json)
        return
    answer = client.move_vm(name, MoveBody(host=host, record=record, **terms))
    if answer.announcements:
        print_announcement(answer.announcements[0], as_json=as_json)
    else:
        detail = client.vm(name)
        print_result(detail, f"{name} is on host {detail.host}", as_json=as_json)


def _add_operation(operation: VmOperation) -> None:
    traits = ANNOUNCEMENTS[Operation.of(OperationScope.VM, operation)]
    is_final = EVENT_TYPES[traits.type].ends_vm

    @vm.command(operation, help=traits.summary)
    @vm_target_options
    @announcing_options
    @dry_run_option
    @(yes_option if is_final else _unchanged)
    @connected
    def operate(
        client: "ControlClient",
        names: tuple[str, ...],
        group: str | None,
        host: str | None,
        state: str | None,
        spot: bool | None,
        label: str | None,
        all_: bool,
        as_json: bool,
        **terms: Unpack[AnnouncementTerms],
    ) -> None:
        from forewarn.control.bodies import VmBulkBody, VmOperationBody

        selected = VmSelection(names=names, group=group, host=host, state=state, spot=spot, label=label)
        if not (name := single_name(**selected, all_=all_)):
            body = VmBulkBody(select=vm_selector_body(**selected, all_=all_), operation=operation, **terms)
            operate_vms(client, body, as_json=as_json, is_final=is_final)
            return
        if is_final:
            confirm(f"{operation} {name}")
        answer = client.operate_vm(name, VmOperationBody(operation=operation, **terms))
        print_announcement(answer.announcements[0], as_json=as_json)


def _unchanged(command: _Command) -> _Command:
    return command


for _operation in VmOperation:
    _add_operation(_operation)
