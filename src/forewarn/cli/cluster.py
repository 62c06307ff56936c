"""``forewarn cluster``: the nodes that share a journal."""

from typing import TYPE_CHECKING

import click

from forewarn.cli.control_commands import connect
from forewarn.cli.output import json_option, print_json, print_table, printable, wide_option, wrapped
from forewarn.cli.root import ControlCommandGroup

if TYPE_CHECKING:
    from forewarn.control.bodies import ClusterNodeView

_HEADERS = ("NODE", "ROLE", "BEHIND", "HEARTBEAT", "RELEASE", "ADDRESS")


@click.group(cls=ControlCommandGroup)
def cluster() -> None:
    """Show the nodes that share the journal."""


@cluster.command
@wide_option
@json_option
@click.pass_context
def status(context: click.Context, as_json: bool) -> None:
    """Show who leads, how far every node is, and what needs attention.

    The node that is asked asks all others. BEHIND is the number of revisions that a node does not hold yet, and the
    seconds since it certainly held everything. A node that does not answer is silent.
    """
    with connect(context) as client:
        found = client.cluster()
    if as_json:
        print_json(found)
        return
    leads = f"{found.leader} leads" if found.leader else "no node leads"
    click.echo(printable(f"{leads} in term {found.term}; revision {found.revision}; format {found.format}"))
    click.echo(printable(found.database))
    print_table(_HEADERS, map(_row, found.nodes), "no node has sent a heartbeat", drop=("ADDRESS", "RELEASE"))
    warnings = [*found.warnings, *(f"node {node.name}: {said}" for node in found.nodes for said in node.warnings)]
    for each in warnings:
        click.echo(wrapped(printable(each), "warning: "))


def _row(node: "ClusterNodeView") -> tuple[str, ...]:
    seconds = "" if node.behind is None else f" ({node.behind:.1f} s)"
    role = node.role if node.can_lead else f"{node.role}, cannot lead"
    behind = f"{node.revisions_behind}{seconds}"
    cells = (node.name, role, behind, f"{node.age:.1f} s ago", node.release, node.address)
    return tuple(map(printable, cells))
