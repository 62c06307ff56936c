"""``forewarn event``: list, show, approve, postpone and cancel events, and show their timelines."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from forewarn.cli.control_commands import connect, print_events
from forewarn.cli.output import json_option, print_fields, print_json, wide_option, wrapped
from forewarn.cli.root import ControlCommandGroup
from forewarn.cli.times import clock, period_option, relative, span
from forewarn.control.bodies import MOST_FINISHED

if TYPE_CHECKING:
    from forewarn.audit.timeline import Timeline, TimelineStep
    from forewarn.control.views import AnnouncementView

_SPANS = {
    "until_fetched": "first fetched after",
    "until_approved": "approved after",
    "until_started": "started after",
    "impact": "impact took",
    "whole": "whole life",
}


@click.group(cls=ControlCommandGroup)
def event() -> None:
    """List and show events; approve, postpone and cancel them.

    An ID may be shortened to its first characters, in any case; 'last' is the event announced last.
    """


@event.command("list")
@click.option("--all", "show_all", is_flag=True, help="Show finished events too, before the unfinished ones.")
@click.option(
    "--limit",
    type=click.IntRange(1, MOST_FINISHED),
    default=100,
    show_default=True,
    metavar="N",
    help="Show at most so many finished events, the newest.",
)
@wide_option
@json_option
@click.pass_context
def list_events(context: click.Context, show_all: bool, limit: int, as_json: bool) -> None:
    """List events that are Scheduled or Started."""
    with connect(context) as client:
        events = client.events(finished=limit if show_all else 0)
        print_events(events, "no events" if show_all else "no events are coming", as_json=as_json)


@event.command
@click.argument("id")
@json_option
@click.pass_context
def show(context: click.Context, id: str, as_json: bool) -> None:
    """Show everything that happened to an event."""
    with connect(context) as client:
        story = client.story(id)
    if as_json:
        print_json(story)
    else:
        print_timeline(story, datetime.now(UTC))


def print_timeline(story: "Timeline", now: datetime) -> None:
    not_before = f"{clock(story.not_before, now)} ({relative(story.not_before, now)})" if story.not_before else ""
    print_fields(
        {
            "event": story.id,
            "type": f"{story.type}, by {story.operation} ({story.source})",
            "status": ": ".join(filter(None, (story.status, story.progress))),
            "not before": not_before,
            "vms": ", ".join(story.resources),
            "group": story.group,
            "host": story.host,
            "description": story.description,
            "announced to take": f"{story.duration} s" if story.duration >= 0 else "",
        }
    )
    click.echo()
    for step in story.steps:
        _print_step(step, story.announced_at)
    steps = {step.what for step in story.steps}
    if "fetched" not in steps:
        found = "The time of the first fetch is not on record" if "approved" in steps else "No fetch is on record"
        click.echo()
        click.echo(wrapped(f"{found}. Fetches are noted in batches; a crash may lose the last seconds of them."))
    if story.seconds:
        click.echo()
        print_fields({label: span(story.seconds[key]) for key, label in _SPANS.items() if key in story.seconds})


def _print_step(step: "TimelineStep", began: datetime) -> None:
    after = (step.at - began).total_seconds()
    when = f"{step.at.astimezone():%H:%M:%S %Z}" if after == 0 else f"+{span(after)}"
    who = f"by {step.by}" if step.by else ""
    told = ": ".join(part for part in (who, step.detail) if part)
    click.echo(wrapped(told, f"{when:>12}  {step.what:<10} "))


@event.command
@click.argument("id")
@json_option
@click.pass_context
def approve(context: click.Context, id: str, as_json: bool) -> None:
    """Approve an event on behalf of its VMs, so that it may start now."""
    with connect(context) as client:
        told = client.approve(id)
    _print_change(told.announcements[0], as_json=as_json)


@event.command
@click.argument("id")
@click.option(
    "--by", "seconds", metavar="DURATION", required=True, callback=period_option, help="How much more, such as 10m."
)
@click.option("--reason", metavar="TEXT", default="", help="The reason, for the record.")
@json_option
@click.pass_context
def postpone(context: click.Context, id: str, seconds: int, reason: str, as_json: bool) -> None:
    """Ask for more time before an event.

    The group's postpone_limit is the most that all postponements of an event may add up to.
    """
    from forewarn.control.bodies import PostponeBody

    with connect(context) as client:
        told = client.postpone(id, PostponeBody(seconds=seconds, reason=reason))
    announcement = told.announcements[0]
    if as_json:
        print_json(announcement.event)
        return
    now = datetime.now(UTC)
    when = announcement.event.not_before
    until = f" until {clock(when, now)} ({relative(when, now)})" if when else ""
    click.echo(f"{announcement.event.type} of {', '.join(announcement.event.resources)} is postponed{until}")


@event.command
@click.argument("id")
@json_option
@click.pass_context
def cancel(context: click.Context, id: str, as_json: bool) -> None:
    """Cancel an event that has not started."""
    with connect(context) as client:
        told = client.cancel(id)
    _print_change(told.announcements[0], as_json=as_json)


def _print_change(told: "AnnouncementView", *, as_json: bool) -> None:
    if as_json:
        print_json(told.event)
        return
    waits = f"; approved, and waits until event {told.waits_for} has ended" if told.waits_for else ""
    if told.waits_until:
        now = datetime.now(UTC)
        waits = f"; approved, and waits until {clock(told.waits_until, now)}, when the quiet hours are over"
    vms = ", ".join(told.event.resources)
    click.echo(f"{told.event.type} of {vms} is {told.event.status}{waits}")
