"""``forewarn fleet``: apply, compare and show the fleet as a file."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from forewarn.cli.control_commands import connected
from forewarn.cli.output import print_json, print_result
from forewarn.cli.root import ControlCommandGroup

if TYPE_CHECKING:
    from forewarn.control.client import ControlClient
    from forewarn.control.views import CommandResult

_WORDS = {"hosts": ("host", "hosts"), "groups": ("group", "groups"), "vms": ("VM", "VMs")}


@click.group(cls=ControlCommandGroup)
def fleet() -> None:
    """Apply a fleet file, compare with one, or show the fleet as one."""


@fleet.command
@click.argument("file", metavar="FILE")
@click.option("--exact", is_flag=True, help="Undo what was changed at run time: make the fleet equal to FILE.")
@click.option(
    "--cancel-events",
    is_flag=True,
    help="Cancel Scheduled events of VMs that are removed or change groups, instead of refusing.",
)
@click.option("--yes", is_flag=True, help="Carry out removals that a start held back because there were too many.")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@connected
def apply(
    client: "ControlClient", file: str, exact: bool, cancel_events: bool, yes: bool, dry_run: bool, as_json: bool
) -> None:
    """Carry out what changed in FILE.

    All changes are made, or none.

    What FILE did not change since it was last applied stays as it is: terms that were set, VMs that were added,
    deleted, moved or deallocated. A VM whose entry is removed from FILE is removed.
    """
    from forewarn.cli.fleet_plans import applied, apply_file, plan_file, planned

    if dry_run:
        plan = plan_file(client, file, exact=exact, cancel_events=cancel_events, yes=yes)
        print_result(plan, "\n".join(planned(plan, file)), as_json=as_json)
        return
    result, left, is_first = apply_file(client, file, exact=exact, cancel_events=cancel_events, yes=yes)
    counts = {prefix + key: result.changed.get(prefix + key, 0) for prefix in ("", "removed_") for key in _WORDS}
    more = {"canceled": result.canceled, "held": result.held, "replaced": result.replaced, "differences": left.total}
    lines = applied(file, result, left, _summary(result), is_first=is_first)
    print_result({**counts, **more, "is_first": is_first}, "\n".join(lines), as_json=as_json)


@fleet.command
@click.argument("file", metavar="FILE")
@click.option("--exact", is_flag=True, help="Compare as 'fleet apply --exact' does.")
@connected
def diff(client: "ControlClient", file: str, exact: bool, as_json: bool) -> None:
    """Show what applying FILE would change.

    It also shows the events that block a change, and what differs from FILE and would stay so. Changes nothing.
    """
    from forewarn.cli.fleet_plans import plan_file, planned

    plan = plan_file(client, file, exact=exact)
    print_result(plan, "\n".join(planned(plan, file)), as_json=as_json)


def _summary(result: "CommandResult") -> str:
    said = [
        f"{_counted(result.changed, prefix)} {verb}"
        for prefix, verb in (("", "declared"), ("removed_", "removed"))
        if any(result.changed.get(prefix + key) for key in _WORDS)
    ]
    canceled = [f"{len(result.canceled)} {'event' if len(result.canceled) == 1 else 'events'} canceled"]
    return "; ".join(said + (canceled if result.canceled else []))


def _counted(changed: dict[str, int], prefix: str) -> str:
    counted = [
        f"{count} {words[count != 1]}" for key, words in _WORDS.items() if (count := changed.get(prefix + key, 0))
    ]
    return counted[0] if len(counted) == 1 else f"{', '.join(counted[:-1])} and {counted[-1]}"


@fleet.command
@connected
def show(client: "ControlClient", as_json: bool) -> None:
    """Print the fleet as a fleet file.

    Comments mark what differs from the fleet file that was applied last.
    """
    from forewarn.cli.fleet_plans import fleet_of_pages, marks

    declared = fleet_of_pages(list(client.declared()))
    left = client.differences()
    if as_json:
        print_json(
            {**{key: list(getattr(declared, key).values()) for key in _WORDS}, "differences": left.differences}
        )
        return
    from forewarn.fleetfile.formatter import format_fleet

    notes = marks(left)
    for part in _chunks(format_fleet(declared, notes)):
        click.echo(part)


def _chunks(lines: Iterator[str], size: int = 1_000) -> Iterator[str]:
    from itertools import islice

    while part := list(islice(lines, size)):
        yield "\n".join(part)
