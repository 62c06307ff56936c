"""How the commands tell where the agent stands: its status, and what becomes of events."""

from collections.abc import Iterator
from datetime import UTC, datetime

import click

from forewarn.agent.lines import ChangeLine
from forewarn.agent.status import EventStatusView, Status
from forewarn.cli.output import print_fields, print_table, printable, wrapped
from forewarn.cli.times import clock, countdown
from forewarn.wire.dates import read_time
from forewarn.wire.shown import ShownEvent


def show_status(status: Status) -> None:
    """Print what the agent knows and does."""
    print_fields(
        {
            "vm": status.vm or "not known yet",
            "endpoint": status.endpoint or "not found yet",
            "trouble": ". ".join(status.ailments),
            "clock": status.clock_trouble,
            "mode": "dry run: nothing is done" if status.dry_run else "",
            "since": f"{status.started_at.astimezone():%d %b %H:%M:%S}",
            "listeners": str(status.listeners),
        }
    )
    for view in status.events:
        click.echo()
        _show_event(view)
    if not status.events:
        click.echo("\nno events")


def sentence(line: ChangeLine) -> str:
    """Tell a change in one line."""
    event, now = line.event, datetime.now(UTC)
    short = printable(event.event_id[:8])
    head = f"{now.astimezone():%H:%M:%S}  {short}  {line.change:<7}  {_what(event, line.concerns_me)}"
    if line.change == "gone":
        return f"{head}: {line.ending}"
    return f"{head}: {_stage(event, now)}"


def _show_event(view: EventStatusView) -> None:
    event = view.event
    stage = "gone, and being put back" if view.is_gone else _stage(event, datetime.now(UTC))
    click.echo(wrapped(f"{_what(event, view.concerns_me)}: {stage}"))
    approval = f"{view.approval}: {view.approval_detail}" if view.approval_detail else view.approval
    fields = {"event": printable(event.event_id), "rule": view.rule or "none fits", "approval": approval}
    for name, value in fields.items():
        click.echo(wrapped(value, f"  {name:<8}  "))
    print_table(("  HANDLER", "DOES", "STATE", "SINCE", "DETAIL"), _steps(view), "  no handlers")


def _what(event: ShownEvent, is_mine: bool) -> str:
    said = f"{event.event_type} of {', '.join(event.resources)}{'' if is_mine else ', not of this VM'}"
    return printable(said)


def _stage(event: ShownEvent, now: datetime) -> str:
    """Say where the event is in its life, and how long it is until it may start."""
    if not event.not_before:
        return printable(event.event_status)
    when = read_time(event.not_before)
    return f"{printable(event.event_status)}, not before {clock(when, now)} ({countdown(when, now)})"


def _steps(view: EventStatusView) -> Iterator[tuple[str, ...]]:
    for step in view.steps:
        since = step.ended_at or step.began_at
        shown = f"{since.astimezone():%H:%M:%S}" if since else ""
        yield f"  {step.handler}", step.direction, step.state, shown, printable(step.detail)
