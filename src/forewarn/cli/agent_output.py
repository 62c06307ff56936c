"""Prints the agent's status and the changes of events."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import click

from forewarn.agent.local.protocol import ChangeLine
from forewarn.agent.observation.status import AgentStatus, EventStatusView
from forewarn.cli.output import print_fields, print_table, printable, wrapped
from forewarn.cli.times import clock, countdown
from forewarn.wire.dates import read_time
from forewarn.wire.event_json import EventJson

_GUESS = " (a guess from the host name; set name in the configuration if it is wrong)"


def show_status(status: AgentStatus) -> None:
    print_fields(
        {
            "vm": (status.vm or "not known yet") + (_GUESS if status.vm_is_guess else ""),
            "endpoint": status.endpoint or "not found yet",
            "trouble": ". ".join(status.unhealthy_reasons),
            "clock": status.clock_trouble,
            "ignored": _ignored(status),
            "mode": "dry run: nothing is done" if status.dry_run else "",
            "since": f"{status.started_at.astimezone():%d %b %H:%M:%S}",
            "listeners": str(status.listeners),
        }
    )
    for view in status.events:
        click.echo()
        _show_event(view, datetime.now(UTC) + timedelta(seconds=status.clock_offset))
    if not status.events:
        click.echo("\nno events")


def _ignored(status: AgentStatus) -> str:
    said = [f"{status.unreadable} cannot be read (see the log)"] if status.unreadable else []
    said += [f"{status.ignored} are too many"] if status.ignored else []
    return f"of the events shown, {' and '.join(said)}" if said else ""


def describe_change(line: ChangeLine) -> str:
    event, now = line.event, datetime.now(UTC)
    id_ = printable(event.event_id)
    head = f"{now.astimezone():%H:%M:%S}  {id_}  {line.change:<7}  {_what(event, line.concerns_me)}"
    if line.change == "gone":
        return f"{head}: {line.ending}"
    return f"{head}: {_stage(event, now)}"


def _show_event(view: EventStatusView, now: datetime) -> None:
    event = view.event
    stage = "gone, and being put back" if view.is_gone else _stage(event, now)
    click.echo(wrapped(f"{_what(event, view.concerns_me)}: {stage}"))
    approval = f"{view.approval}: {view.approval_detail}" if view.approval_detail else view.approval
    fields = {"event": printable(event.event_id), "rule": view.rule or "none fits", "approval": approval}
    for name, value in fields.items():
        click.echo(wrapped(value, f"  {name:<8}  "))
    print_table(
        ("  HANDLER", "DOES", "STATE", "SINCE", "DETAIL"), _steps(view), "  no handlers", drop=("SINCE", "DOES")
    )


def _what(event: EventJson, is_mine: bool) -> str:
    said = f"{event.event_type} of {', '.join(event.resources)}{'' if is_mine else ', not of this VM'}"
    return printable(said)


def _stage(event: EventJson, now: datetime) -> str:
    """Return the event's status and the time until it may start."""
    if not event.not_before:
        return printable(event.event_status)
    when = read_time(event.not_before)
    return f"{printable(event.event_status)}, not before {clock(when, now)} ({countdown(when, now)})"


def _steps(view: EventStatusView) -> Iterator[tuple[str, ...]]:
    for step in view.steps:
        since = step.ended_at or step.began_at
        shown = f"{since.astimezone():%H:%M:%S}" if since else ""
        yield f"  {step.handler}", step.direction, step.state, shown, printable(step.detail)
