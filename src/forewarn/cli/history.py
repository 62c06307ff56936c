"""``forewarn history``: what the record holds of a VM, a group, a host, an event, a caller or a time."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING

import click

from forewarn.cli.operating import connect
from forewarn.cli.output import print_table
from forewarn.cli.times import past_option

if TYPE_CHECKING:
    from forewarn.control.lines import Line

_PAGE = 1_000
_HEADERS = ("RECORDED", "WHO", "WHAT", "EVENT", "VMS", "GROUP", "DETAIL")
_SHOWN_VMS = 3


@click.command
@click.option("--vm", metavar="NAME", help="What names this VM, and the lives of its events.")
@click.option("--group", metavar="NAME", help="What concerned this group or its VMs.")
@click.option("--host", metavar="NAME", help="What happened on this host.")
@click.option("--event", metavar="ID", help="One event; its id may be shortened.")
@click.option("--caller", metavar="NAME", help="What this VM, user or token caused.")
@click.option(
    "--since", metavar="TIME", callback=past_option, help="From this time on: 2h (ago), 14:32 or an ISO time."
)
@click.option("--until", metavar="TIME", callback=past_option, help="Before this time.")
@click.option("--oldest-first", is_flag=True, help="Begin with the oldest.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=100, show_default=True, metavar="N", help="So many lines at most."
)
@click.option("--csv", "as_csv", is_flag=True, help="Print a table for other programs.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one line each.")
@click.pass_context
def history(
    context: click.Context,
    vm: str | None,
    group: str | None,
    host: str | None,
    event: str | None,
    caller: str | None,
    since: datetime | None,
    until: datetime | None,
    oldest_first: bool,
    limit: int,
    as_csv: bool,
    as_json: bool,
) -> None:
    """Look back: who did what to whom, and when.

    All that is given must fit. The newest comes first.
    """
    if as_csv and as_json:
        raise click.UsageError("--csv and --json exclude each other", context)
    with connect(context) as client:
        found = client.history(
            vm=vm,
            group=group,
            host=host,
            event=event,
            caller=caller,
            since=since and since.isoformat(),
            until=until and until.isoformat(),
            order="oldest" if oldest_first else "newest",
            limit=min(limit, _PAGE),
        )
        lines = islice(found, limit)
        if as_csv or as_json:
            _print_parts(lines, as_csv=as_csv)
        else:
            print_table(_HEADERS, (_row(line) for line in lines), "nothing is on record that fits")


def _print_parts(lines: "Iterable[Line]", *, as_csv: bool) -> None:
    from forewarn.control import lines as writing

    part = list(islice(lines, _PAGE))
    if as_csv:
        click.echo(writing.as_csv(part), nl=False)
        part = list(islice(lines, _PAGE))
    while part:
        click.echo(writing.as_csv(part, with_head=False) if as_csv else writing.as_json_lines(part), nl=False)
        part = list(islice(lines, _PAGE))


def _row(line: "Line") -> tuple[str, ...]:
    more = f" and {len(line.vms) - _SHOWN_VMS} more" if len(line.vms) > _SHOWN_VMS else ""
    return (
        f"{line.at.astimezone():%Y-%m-%d %H:%M:%S}",
        line.by or "forewarn",
        line.fact,
        line.event[:8] or "-",
        ", ".join(line.vms[:_SHOWN_VMS]) + more or "-",
        line.group or "-",
        ", ".join(_words(line.detail | {"from": line.origin})) or "-",
    )


def _words(detail: dict[str, object]) -> Iterator[str]:
    """Say the parts of a detail that one can read in a line."""
    for key, value in detail.items():
        if isinstance(value, dict):
            yield key
        elif value not in ("", None):
            yield f"{key.replace('_', ' ')}: {value}"
