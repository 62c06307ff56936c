"""Operations on several VMs or hosts at once: prints the result of each.

The service selects. Before what cannot be undone the command asks it which are meant, shows their names, and then
operates on exactly these.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click
import msgspec

from forewarn.cli.confirmation import confirm, describe_names, is_confirmed
from forewarn.cli.output import print_json_list, print_table
from forewarn.cli.times import relative

if TYPE_CHECKING:
    from forewarn.audit.timeline import EventView
    from forewarn.control.bodies import HostBulkBody, VmBulkBody
    from forewarn.control.client import ControlClient
    from forewarn.control.views import CommandResult


def operate_vms(client: "ControlClient", body: "VmBulkBody", *, as_json: bool, is_final: bool = False) -> None:
    """Operate on VMs; ``is_final``: it cannot be undone."""
    from forewarn.control.bodies import VmSelectorBody

    if is_final and not is_confirmed():
        meant = _preview(client, body)
        confirm(f"{body.operation} {describe_names(meant, 'VMs')}")
        body = msgspec.structs.replace(body, select=VmSelectorBody(names=meant))
    print_bulk(client.operate_vms(body), "vm", as_json=as_json)


def operate_hosts(client: "ControlClient", body: "HostBulkBody", *, as_json: bool, is_final: bool = False) -> None:
    """Operate on hosts; ``is_final``: it cannot be undone."""
    from forewarn.control.bodies import HostSelectorBody

    if is_final and not is_confirmed():
        meant = _preview(client, body)
        confirm(f"{body.operation} {describe_names(meant, 'hosts')}")
        body = msgspec.structs.replace(body, select=HostSelectorBody(names=meant))
    print_bulk(client.operate_hosts(body), "host", as_json=as_json)


def _preview(client: "ControlClient", body: "VmBulkBody | HostBulkBody") -> tuple[str, ...]:
    """Return what a selector means at the moment."""
    from forewarn.control.bodies import VmBulkBody

    with client.dry_run():
        tried = client.operate_vms(body) if isinstance(body, VmBulkBody) else client.operate_hosts(body)
    return tried.selected


def print_bulk(result: "CommandResult", kind: str, *, as_json: bool) -> None:
    """Print what became of each; exit with 1 if some were refused."""
    found = list(_results(result, kind))
    if as_json:
        print_json_list({kind: name, "events": events, "refused": why or None} for name, events, why in found)
    else:
        now = datetime.now(UTC)
        rows = [(name, _describe(events, why, now)) for name, events, why in found]
        print_table((kind.upper(), "RESULT"), rows, "nothing was selected")
    if result.refused:
        done = len(result.selected) - len(result.refused)
        click.echo(f"{len(result.refused)} refused, {done} done", err=True)
        raise click.exceptions.Exit(1)


def _results(result: "CommandResult", kind: str) -> Iterator[tuple[str, list["EventView"], str]]:
    events: dict[str, list[EventView]] = {}
    for each in result.announcements:
        for name in (each.host,) if kind == "host" else each.event.resources:
            events.setdefault(name, []).append(each.event)
    for name in result.selected:
        yield name, events.get(name, []), result.refused.get(name, "")


def _describe(events: list["EventView"], refused: str, now: datetime) -> str:
    if refused:
        return f"refused: {refused}"
    if not events:
        return "done"
    return "; ".join(
        f"{event.type} {event.status}"
        + (f" {relative(event.not_before, now)}" if event.not_before else "")
        + f", event {event.id}"
        for event in events
    )
