"""``forewarn vm``: manage VMs and run operations on them."""

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

import click

from forewarn.cli.control_commands import announcing_options, canceled, connect, print_announcement, print_events
from forewarn.cli.flags import flag_of
from forewarn.cli.output import json_option, print_fields, print_json, print_json_list, print_table, wide_option
from forewarn.cli.root import ControlCommandGroup
from forewarn.core.addresses import MARKS
from forewarn.core.commands import VmOperation
from forewarn.core.event_types import ANNOUNCEMENTS
from forewarn.core.model import Operation, OperationScope
from forewarn.core.terms import DOMAINS

if TYPE_CHECKING:
    from forewarn.control.views import VmDetail, VmView


@click.group(cls=ControlCommandGroup)
def vm() -> None:
    """List, add and remove VMs; restart, redeploy, move, freeze, evict, delete them."""


@vm.command("list")
@wide_option
@json_option
@click.pass_context
def list_vms(context: click.Context, as_json: bool) -> None:
    """List all VMs."""
    with connect(context) as client:
        vms = client.vms()
        if as_json:
            print_json_list(vms)
        else:
            headers = ("VM", "GROUP", "HOST", "UD", "FD", "ADDRESS", "STATE", "EVENTS")
            empty = "no VMs yet; declare some with 'forewarn fleet apply FILE'"
            print_table(headers, _rows(vms), empty, drop=("FD", "UD", "ADDRESS", "HOST", "GROUP", "EVENTS"))


def _rows(vms: "Iterator[VmView]") -> Iterator[tuple[str, ...]]:
    for each in vms:
        yield (
            each.name,
            each.group,
            each.host or "-",
            str(each.update_domain),
            str(each.fault_domain),
            each.address or "-",
            _state(each),
            str(each.events or "-"),
        )


def _state(each: "VmView") -> str:
    return "deallocated" if each.deallocated else "running"


@vm.command
@click.argument("name")
@wide_option
@json_option
@click.pass_context
def show(context: click.Context, name: str, as_json: bool) -> None:
    """Show a VM and what is coming to it."""
    with connect(context) as client:
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
            "state": _state(detail) + (", spot" if detail.spot else ""),
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


@vm.command
@click.argument("name")
@click.option("--group", metavar="NAME", help="The group it joins. [default: a group of its own]")
@click.option("--host", metavar="NAME", help="The host it runs on.")
@click.option("--address", metavar="IP", help="The address it asks from.")
@click.option(
    "--update-domain",
    type=click.IntRange(0, DOMAINS[-1]),
    metavar="N",
    help="VMs of its group with the same number are impacted together.",
)
@click.option(
    "--fault-domain",
    type=click.IntRange(0, DOMAINS[-1]),
    metavar="N",
    help="VMs of its group with the same number share hardware.",
)
@click.option("--zone", metavar="TEXT", help="Its availability zone.")
@click.option("--spot", is_flag=True, default=None, help="It may be evicted.")
@click.option("--tap", metavar="NAME", help="The tap device on its host that its packets come from.")
@click.option("--mark", type=click.IntRange(1, MARKS[-1]), metavar="N", help="The mark of its packets.")
@click.option("--mac-address", metavar="MAC", help="Its MAC address; with --tap, packets from any other are dropped.")
@click.option(
    "--subnet", metavar="CIDR", help="Its subnet. It reads this and all options below in its instance metadata."
)
@click.option("--public-ip-address", metavar="IP", help="Its public address.")
@click.option("--ipv6-address", metavar="IP", help="Its IPv6 address.")
@click.option("--vm-id", metavar="TEXT", help="Its id. [default: made from its name]")
@click.option("--vm-size", metavar="TEXT", help="Its size, such as Standard_D2s_v5.")
@click.option("--os-type", metavar="TEXT", help="Its system. [default: Linux]")
@click.option("--location", metavar="TEXT", help="Its region, such as westeurope.")
@click.option("--resource-group-name", metavar="TEXT", help="Its resource group.")
@click.option("--subscription-id", metavar="TEXT", help="Its subscription.")
@click.option("--tag", "tags", multiple=True, metavar="KEY=VALUE", help="A tag; may be given again.")
@json_option
@click.pass_context
def add(context: click.Context, /, name: str, as_json: bool, tags: tuple[str, ...], **given: object) -> None:
    """Add a VM to the fleet."""
    from forewarn.core.errors import Refused
    from forewarn.core.model import GroupKind, GroupTerms
    from forewarn.fleetfile.diff import FleetDiff
    from forewarn.fleetfile.tables import InvalidTable, read_vm

    table = {"name": name} | {key: value for key, value in given.items() if value is not None}
    try:
        wished = read_vm(table | ({"tags": dict(_pair(tag) for tag in tags)} if tags else {}))
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
    if as_json:
        print_json(detail)
    else:
        click.echo(f"{name} was added to group {detail.group}")


def _pair(tag: str) -> tuple[str, str]:
    key, equals, value = tag.partition("=")
    if not key or not equals:
        raise click.UsageError(f"--tag {tag!r} is not of the form KEY=VALUE")
    return key, value


@vm.command
@click.argument("name")
@click.option("--cancel-events", is_flag=True, help="Cancel its Scheduled events, instead of refusing.")
@json_option
@click.pass_context
def remove(context: click.Context, name: str, cancel_events: bool, as_json: bool) -> None:
    """Take a VM out of the fleet.

    It leaves the fleet at once; the machine itself is not touched.
    """
    from forewarn.fleetfile.diff import FleetDiff

    with connect(context) as client:
        told = client.change_fleet(FleetDiff(removed_vms=(name,)), cancel_events=cancel_events)
    if as_json:
        print_json({"removed": name, "canceled": told.canceled})
    else:
        click.echo(f"{name} was removed{canceled(told.canceled)}")


@vm.command
@click.argument("name")
@json_option
@click.pass_context
def start(context: click.Context, name: str, as_json: bool) -> None:
    """Start a deallocated VM.

    A driver that can start VMs starts its machine; 'forewarn vm show NAME' tells whether it could.
    """
    from forewarn.control.bodies import VmOperationBody

    with connect(context) as client:
        client.operate_vm(name, VmOperationBody(operation="start"))
        detail = client.vm(name)
    if as_json:
        print_json(detail)
    else:
        click.echo(f"{detail.power}; see 'forewarn vm show {name}'" if detail.power else f"{name} is running")


@vm.command
@click.argument("name")
@json_option
@click.pass_context
def deallocate(context: click.Context, name: str, as_json: bool) -> None:
    """Deallocate a VM at once.

    Nothing is announced, and its Scheduled events are canceled. A driver that can stop VMs stops its machine;
    'forewarn vm show NAME' tells whether it could.
    """
    from forewarn.control.bodies import VmOperationBody

    with connect(context) as client:
        told = client.operate_vm(name, VmOperationBody(operation="deallocate"))
        detail = client.vm(name)
    if as_json:
        print_json(detail)
    else:
        click.echo(f"{name} is deallocated{canceled(told.canceled)}; start it with 'forewarn vm start {name}'")
        if detail.power:
            click.echo(f"{detail.power}; see 'forewarn vm show {name}'")


@vm.command
@click.argument("name")
@click.argument("host")
@click.option("--record", is_flag=True, help="Only record the new host: the machine was moved by hand.")
@announcing_options
@json_option
@click.pass_context
def move(
    context: click.Context,
    name: str,
    host: str,
    record: bool,
    not_before: datetime | None,
    duration: int | None,
    description: str | None,
    as_json: bool,
) -> None:
    """Move a VM to a host, after notice to its group.

    The VM keeps running if the driver can move it live. With a driver that cannot move a VM to a given host, only the
    new host is recorded.
    """
    from forewarn.control.bodies import MoveBody

    body = MoveBody(host=host, record=record, not_before=not_before, duration=duration, description=description)
    with connect(context) as client:
        answer = client.move_vm(name, body)
        detail = None if answer.announcements else client.vm(name)
    if detail is None:
        print_announcement(answer.announcements[0], as_json=as_json)
    elif as_json:
        print_json(detail)
    else:
        click.echo(f"{name} is on host {detail.host}")


def _add_operation(operation: VmOperation) -> None:
    @vm.command(operation, help=ANNOUNCEMENTS[Operation.of(OperationScope.VM, operation)].summary)
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
        from forewarn.control.bodies import VmOperationBody

        body = VmOperationBody(operation=operation, not_before=not_before, duration=duration, description=description)
        with connect(context) as client:
            answer = client.operate_vm(name, body)
        print_announcement(answer.announcements[0], as_json=as_json)


for _operation in VmOperation:
    _add_operation(_operation)
