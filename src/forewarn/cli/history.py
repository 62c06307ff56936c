"""``forewarn history``: query the journal by VM, group, host, event, caller or time."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING

import click

from forewarn.cli.control_commands import connect
from forewarn.cli.output import is_wide, print_table, wide_option
from forewarn.cli.root import refuse_empty, service_options
from forewarn.cli.times import past_option

if TYPE_CHECKING:
    from forewarn.audit.history_lines import HistoryLine

_PAGE = 1_000
_HEADERS = ("RECORDED", "WHO", "WHAT", "EVENT", "VMS", "GROUP", "DETAIL")
_DROP = ("GROUP", "EVENT")
_LONGEST_VMS = 30
"""Characters of VM names in a line at a terminal, unless the first name alone is longer."""


@refuse_empty
@click.command
@click.option("--vm", metavar="NAME", help="Entries about this VM, and about its events.")
@click.option("--group", metavar="NAME", help="Entries about this group or its VMs.")
@click.option("--host", metavar="NAME", help="Entries about this host.")
@click.option("--rollout", metavar="NAME", help="Decisions of this rollout.")
@click.option("--event", metavar="ID", help="One event; its id may be shortened.")
@click.option("--caller", metavar="NAME", help="Entries caused by this VM, user or token.")
@click.option(
    "--since", metavar="TIME", callback=past_option, help="From this time on: 2h (ago), 14:32 or an ISO time."
)
@click.option("--until", metavar="TIME", callback=past_option, help="Before this time.")
@click.option("--oldest-first", is_flag=True, help="Begin with the oldest.")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    metavar="N",
    help="Show at most so many entries.",
)
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")
@wide_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one line each.")
@service_options
@click.pass_context
def history(
    context: click.Context,
    vm: str | None,
    group: str | None,
    host: str | None,
    rollout: str | None,
    event: str | None,
    caller: str | None,
    since: datetime | None,
    until: datetime | None,
    oldest_first: bool,
    limit: int,
    as_csv: bool,
    as_json: bool,
) -> None:
    """Show the record: who did what, to which VM, and when.

    An entry is shown if it fits all options. The newest comes first.
    """
    if as_csv and as_json:
        raise click.UsageError("--csv and --json exclude each other", context)
    with connect(context) as client:
        found = client.history(
            vm=vm,
            group=group,
            host=host,
            rollout=rollout,
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
            print_table(_HEADERS, (_row(line) for line in lines), "nothing is on record that fits", drop=_DROP)


def _print_parts(lines: "Iterable[HistoryLine]", *, as_csv: bool) -> None:
    from forewarn.audit import history_lines as writing

    part = list(islice(lines, _PAGE))
    if as_csv:
        click.echo(writing.as_csv(part), nl=False)
        part = list(islice(lines, _PAGE))
    while part:
        click.echo(writing.as_csv(part, with_head=False) if as_csv else writing.as_json_lines(part), nl=False)
        part = list(islice(lines, _PAGE))


def _row(line: "HistoryLine") -> tuple[str, ...]:
    shown = len(line.vms) if is_wide() else 1
    while shown < len(line.vms) and len(", ".join(line.vms[: shown + 1])) <= _LONGEST_VMS:
        shown += 1
    more = f" and {len(line.vms) - shown} more" if len(line.vms) > shown else ""
    return (
        f"{line.at.astimezone():%Y-%m-%d %H:%M:%S}",
        line.by or "forewarn",
        line.fact,
        line.event or "-",
        ", ".join(line.vms[:shown]) + more or "-",
        line.group or "-",
        # The event implies its host.
        ", ".join(_words({"host": "" if line.event else line.host} | line.detail | {"from": line.origin})) or "-",
    )


_BY_VM = {"placements": "to", "left": "left", "refused": "refused"}
"""Details by VM, with their label in a line."""


def _words(detail: dict[str, object]) -> Iterator[str]:
    """Yield the readable parts of a detail."""
    for key, value in detail.items():
        if key == "changed" and isinstance(value, dict):
            yield from (f"{name}: {_shown(each['before'])} → {_shown(each['after'])}" for name, each in value.items())
        elif key in _BY_VM and isinstance(value, dict):
            yield f"{_BY_VM[key]}: {', '.join(f'{vm} {each}' for vm, each in value.items())}"
        elif isinstance(value, dict):
            yield key
        elif value not in ("", None):
            yield f"{key.replace('_', ' ')}: {_shown(value)}"


def _shown(value: object) -> str:
    """Return a value as text; empty values as a dash."""
    match value:
        case list():
            return " ".join(map(_shown, value)) or "-"
        case dict():
            return " ".join(f"{key}={_shown(each)}" for key, each in value.items()) or "-"
        case bool():
            return "true" if value else "false"
        case None | "":
            return "-"
        case _:
            return str(value)
