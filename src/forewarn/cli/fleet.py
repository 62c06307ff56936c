"""``forewarn fleet``: the whole fleet, as a file."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from forewarn.cli.operating import connect
from forewarn.cli.output import json_option, print_json
from forewarn.cli.root import Ordered

if TYPE_CHECKING:
    from forewarn.control.bodies import DeclaredPage
    from forewarn.control.difference import Declared
    from forewarn.control.views import Told

_WORDS = {"hosts": ("host", "hosts"), "groups": ("group", "groups"), "vms": ("VM", "VMs")}


@click.group(cls=Ordered)
def fleet() -> None:
    """Apply a fleet file, or show the fleet as one."""


@fleet.command
@click.argument("file", metavar="FILE")
@click.option("--cancel-events", is_flag=True, help="Cancel what is Scheduled for VMs that go, instead of refusing.")
@json_option
@click.pass_context
def apply(context: click.Context, file: str, cancel_events: bool, as_json: bool) -> None:
    """Make the fleet what FILE says.

    All of it, or nothing at all.

    VMs that are not in FILE are removed. What happened at run time (deallocated, moved to another host) stays,
    unless FILE changes that very key.
    """
    from forewarn.control.difference import difference
    from forewarn.control.views import Told
    from forewarn.control.wish import read

    wish = read(Path(file))
    with connect(context) as client:
        pages = list(client.declared())
        change = difference(wish, _whole(pages))
        # What changed between two pages makes the last one's number another, and the change is refused.
        seen = pages[0].changes
        told = client.change_fleet(change, cancel_events=cancel_events, seen=seen) if change else Told()
    if as_json:
        counts = {key: told.changed.get(key, 0) for key in change.__struct_fields__}
        print_json({**counts, "canceled": told.canceled})
    else:
        click.echo(_summary(file, told))


def _summary(file: str, told: "Told") -> str:
    if not any(told.changed.values()):
        return f"the fleet is as {file} says already; nothing was changed"
    said = [
        f"{_counted(told.changed, prefix)} {verb}"
        for prefix, verb in (("", "declared"), ("removed_", "removed"))
        if any(told.changed.get(prefix + key) for key in _WORDS)
    ]
    canceled = [f"{len(told.canceled)} {'event' if len(told.canceled) == 1 else 'events'} canceled"]
    return "; ".join(said + (canceled if told.canceled else []))


def _counted(changed: dict[str, int], prefix: str) -> str:
    counted = [
        f"{count} {words[count != 1]}" for key, words in _WORDS.items() if (count := changed.get(prefix + key, 0))
    ]
    return counted[0] if len(counted) == 1 else f"{', '.join(counted[:-1])} and {counted[-1]}"


@fleet.command
@json_option
@click.pass_context
def show(context: click.Context, as_json: bool) -> None:
    """Print the fleet as a fleet file."""
    with connect(context) as client:
        declared = _whole(list(client.declared()))
    if as_json:
        print_json({key: list(getattr(declared, key).values()) for key in _WORDS})
        return
    from forewarn.control.fleetfile import lines

    for part in _chunks(lines(declared)):
        click.echo(part)


def _chunks(lines: Iterator[str], size: int = 1_000) -> Iterator[str]:
    from itertools import islice

    while part := list(islice(lines, size)):
        yield "\n".join(part)


def _whole(pages: "list[DeclaredPage]") -> "Declared":
    from forewarn.control.difference import Declared

    return Declared(
        hosts={host.name: host for part in pages for host in part.hosts},
        groups={terms.name: terms for part in pages for terms in part.groups},
        vms={vm.name: vm for part in pages for vm in part.vms},
    )
