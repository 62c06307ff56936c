"""``forewarn spot``: reclaim capacity by evicting spot VMs."""

import click

from forewarn.cli.confirmation import confirm, yes_option
from forewarn.cli.control_commands import connect, print_choices
from forewarn.cli.dry_run import dry_run_option
from forewarn.cli.output import json_option, wide_option
from forewarn.cli.root import ControlCommandGroup
from forewarn.core.terms import MOST_VMS


@click.group(cls=ControlCommandGroup)
def spot() -> None:
    """Reclaim spot VMs."""


@spot.command
@click.option(
    "--count",
    type=click.IntRange(1, MOST_VMS),
    metavar="N",
    help="How many VMs to evict, chosen fairly among the groups.",
)
@click.option("--host", metavar="NAME", help="Evict all spot VMs of this host.")
@dry_run_option
@yes_option
@wide_option
@json_option
@click.pass_context
def reclaim(context: click.Context, count: int | None, host: str | None, as_json: bool) -> None:
    """Evict spot VMs, after 30 seconds of notice.

    The next VM is always taken from the group that has lost the fewest.
    """
    from forewarn.control.bodies import ReclaimBody

    if (count is None) == (host is None):
        raise click.UsageError("say either --count N or --host NAME", context)
    confirm(f"evict the spot VMs of {host}" if host else f"evict {count} spot VMs")
    with connect(context) as client:
        result = client.reclaim_spot(ReclaimBody(count=count, host=host))
    print_choices(result.announcements, f"no spot VM stands on {host}; nothing was announced", as_json=as_json)
