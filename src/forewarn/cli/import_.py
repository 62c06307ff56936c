"""``forewarn import``: import hosts and VMs from a hypervisor."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from forewarn.cli.control_commands import connect
from forewarn.cli.output import json_option, print_json
from forewarn.cli.root import ControlCommandGroup
from forewarn.core.errors import BadInput, Refused

if TYPE_CHECKING:
    from forewarn.cli.importing.merging import ImportPlan

_SIGNS = {"add": "+", "change": "~", "remove": "-"}


@click.group("import", cls=ControlCommandGroup)
def import_() -> None:
    """Import hosts and VMs from a hypervisor."""


@import_.command
@click.argument("uris", metavar="[NAME=]URI...", nargs=-1, required=True)
@click.option("--out", metavar="FILE", help="Write or update a fleet file, instead of changing the service.")
@click.option("--remove", is_flag=True, help="Remove VMs on these hosts that libvirt no longer has.")
@click.option("--yes", is_flag=True, help="Do it without asking.")
@click.option(
    "--follow",
    is_flag=True,
    help="Keep running, and write without asking whenever libvirt defines or undefines a machine.",
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
    """Import hosts and VMs from libvirt at each URI.

    Shows what would change before anything is written. New VMs get a group of their own. VMs that the fleet already
    has get their present host, address, tap and MAC address; everything else stays. A VM that several hosts have is
    taken from the host where it runs, and refused if that is in doubt. VMs without a mark get one. A host has the
    name that it gives itself, or NAME.
    """
    try:
        from forewarn.cli.importing.sources import LibvirtSources
        from forewarn.cli.importing.targets import FileTarget, ServiceTarget
    except ImportError as error:
        raise BadInput(f"{error}; install what speaks to libvirt: pip install 'forewarn[libvirt]'") from None
    from forewarn.cli.importing.libvirt_import import LibvirtImport

    target = FileTarget(Path(out)) if out else ServiceTarget(lambda: connect(context))
    with LibvirtSources(uris) as sources:
        work = LibvirtImport(sources, target, removes=remove)
        plan = work.plan()
        if as_json and not follow:
            shown = {"changes": plan.changes, "remarks": plan.remarks, "refused": plan.refused}
            print_json({**shown, "written": bool(yes and plan.changes)})
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
        elif plan.refused:
            raise Refused(f"not imported: {'; '.join(plan.refused)}")


def show(plan: "ImportPlan", target: str) -> None:
    for change in plan.changes:
        detail = f"  {change.detail}" if change.detail else ""
        click.echo(f"{_SIGNS[change.what]} {change.kind} {change.name}{detail}")
    for remark in (*plan.remarks, *plan.refused):
        click.echo(f"! {remark}", err=True)
    if not plan.changes:
        click.echo(f"{target} has all of it already")


def _may_write(target: str, *, is_silent: bool) -> bool:
    import sys

    if is_silent or not sys.stdin.isatty():
        return False
    return click.confirm(f"Write this to {target}?")
