"""``forewarn import``: a fleet from what a hypervisor knows."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from forewarn.cli.operating import connect
from forewarn.cli.output import json_option, print_json
from forewarn.cli.root import Ordered
from forewarn.core.errors import BadInput

if TYPE_CHECKING:
    from forewarn.cli.importing.merging import Plan

_SIGNS = {"add": "+", "change": "~", "remove": "-"}


@click.group("import", cls=Ordered)
def import_() -> None:
    """Make hosts and VMs from what a hypervisor knows."""


@import_.command
@click.argument("uris", metavar="[NAME=]URI...", nargs=-1, required=True)
@click.option("--out", metavar="FILE", help="Write a fleet file, or bring one up to date, instead of the service.")
@click.option("--remove", is_flag=True, help="Take out VMs on these hosts that libvirt has no more.")
@click.option("--yes", is_flag=True, help="Do it without asking.")
@click.option(
    "--follow", is_flag=True, help="Stay, and write without asking whenever libvirt defines or undefines a machine."
)
@json_option
@click.pass_context
def libvirt(
    context: click.Context,
    uris: tuple[str, ...],
    out: str | None,
    remove: bool,
    yes: bool,
    follow: bool,
    as_json: bool,
) -> None:
    """Make hosts and VMs from what libvirt knows at each URI.

    Shows what would change before anything is written. New VMs stand alone; of those that the fleet has already,
    host, address and wire are brought up to date, and all that an operator decided stays.
    A host is named as it names itself, or as NAME says.
    """
    try:
        from forewarn.cli.importing.sources import Sources
        from forewarn.cli.importing.targets import FileTarget, ServiceTarget
    except ImportError as error:
        raise BadInput(f"{error}; install what speaks to libvirt: pip install 'forewarn[libvirt]'") from None
    from forewarn.cli.importing.following import Import

    target = FileTarget(Path(out)) if out else ServiceTarget(lambda: connect(context))
    with Sources(uris) as sources:
        work = Import(sources, target, removes=remove)
        plan = work.plan()
        if as_json and not follow:
            print_json({"changes": plan.changes, "remarks": plan.remarks, "written": bool(yes and plan.changes)})
        else:
            show(plan, target.name)
        if plan.changes and (yes or follow or _may_write(target.name, is_silent=as_json)):
            work.write(plan)
            if not as_json:
                click.echo(f"{target.name} has it now")
        elif not as_json and plan.changes:
            click.echo("nothing was written; add --yes to write it")
        if follow:
            work.follow(lambda change: show(change, target.name))


def show(plan: "Plan", target: str) -> None:
    """Print a plan."""
    for change in plan.changes:
        detail = f"  {change.detail}" if change.detail else ""
        click.echo(f"{_SIGNS[change.what]} {change.kind} {change.name}{detail}")
    for remark in plan.remarks:
        click.echo(f"! {remark}", err=True)
    if not plan.changes:
        click.echo(f"{target} has all of it already")


def _may_write(target: str, *, is_silent: bool) -> bool:
    import sys

    if is_silent or not sys.stdin.isatty():
        return False
    return click.confirm(f"Write this to {target}?")
