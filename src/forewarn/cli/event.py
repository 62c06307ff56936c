"""``forewarn event``: list, show, approve, postpone and cancel events, and show their timelines."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from forewarn.cli.control_commands import connected, print_events
from forewarn.cli.dry_run import dry_run_option
from forewarn.cli.flags import CaseInsensitiveChoice
from forewarn.cli.output import print_fields, print_json, print_result, wide_option, wrapped
from forewarn.cli.root import ControlCommandGroup
from forewarn.cli.times import clock, period_option, relative, span
from forewarn.cli.watching import watch, watch_option
from forewarn.control.bodies import MOST_FINISHED
from forewarn.wire.azure_names import TYPES

if TYPE_CHECKING:
    from forewarn.audit.timeline import Timeline, TimelineStep
    from forewarn.control.client import ControlClient
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
@watch_option
@wide_option
@connected
def list_events(client: "ControlClient", show_all: bool, limit: int, is_watching: bool, as_json: bool) -> None:
    """List events that are Scheduled or Started."""

    def show_events() -> None:
        events = client.events(finished=limit if show_all else 0)
        print_events(events, "no events" if show_all else "no events are coming", as_json=as_json)

    watch(show_events, is_watching=is_watching)


@event.command
@click.argument("id")
@watch_option
@connected
def show(client: "ControlClient", id: str, is_watching: bool, as_json: bool) -> None:
    """Show everything that happened to an event.

    With --watch it is shown until it has ended.
    """
    whole = client.timeline(id).id if is_watching else id  # the last event may soon be another

    def show_story() -> bool:
        timeline = client.timeline(whole)
        if as_json:
            print_json(timeline)
        else:
            print_timeline(timeline, datetime.now(UTC))
        return timeline.status not in ("Scheduled", "Started")

    watch(show_story, is_watching=is_watching)


def print_timeline(timeline: "Timeline", now: datetime) -> None:
    not_before = (
        f"{clock(timeline.not_before, now)} ({relative(timeline.not_before, now)})" if timeline.not_before else ""
    )
    print_fields(
        {
            "event": timeline.id,
            "type": f"{timeline.type}, by {timeline.operation} ({timeline.source})",
            "status": ": ".join(filter(None, (timeline.status, timeline.progress))),
            "not before": not_before,
            "vms": ", ".join(timeline.resources),
            "group": timeline.group,
            "host": timeline.host,
            "description": timeline.description,
            "announced to take": f"{timeline.duration} s" if timeline.duration >= 0 else "",
        }
    )
    click.echo()
    for step in timeline.steps:
        _print_step(step, timeline.announced_at)
    steps = {step.what for step in timeline.steps}
    if "fetched" not in steps:
        found = "The time of the first fetch is not on record" if "approved" in steps else "No fetch is on record"
        click.echo()
        click.echo(wrapped(f"{found}. Fetches are noted in batches; a crash may lose the last seconds of them."))
    if timeline.seconds:
        click.echo()
        print_fields({label: span(timeline.seconds[key]) for key, label in _SPANS.items() if key in timeline.seconds})


def _print_step(step: "TimelineStep", began: datetime) -> None:
    after = (step.at - began).total_seconds()
    when = f"{step.at.astimezone():%H:%M:%S %Z}" if after == 0 else f"+{span(after)}"
    who = f"by {step.by}" if step.by else ""
    detail = ": ".join(part for part in (who, step.detail) if part)
    click.echo(wrapped(detail, f"{when:>12}  {step.what:<10} "))


@event.command
@click.argument("id")
@dry_run_option
@connected
def approve(client: "ControlClient", id: str, as_json: bool) -> None:
    """Approve an event on behalf of its VMs, so that it may start now."""
    _print_change(client.approve(id).announcements[0], as_json=as_json)


@event.command
@click.argument("id")
@click.option(
    "--by", "seconds", metavar="DURATION", required=True, callback=period_option, help="How much more, such as 10m."
)
@click.option("--reason", metavar="TEXT", default="", help="The reason, for the record.")
@dry_run_option
@connected
def postpone(client: "ControlClient", id: str, seconds: int, reason: str, as_json: bool) -> None:
    """Ask for more time before an event.

    The group's postpone_limit is the most that all postponements of an event may add up to.
    """
    from forewarn.control.bodies import PostponeBody

    event = client.postpone(id, PostponeBody(seconds=seconds, reason=reason)).announcements[0].event
    now, when = datetime.now(UTC), event.not_before
    until = f" until {clock(when, now)} ({relative(when, now)})" if when else ""
    print_result(event, f"{event.type} of {', '.join(event.resources)} is postponed{until}", as_json=as_json)


@event.command
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option("--group", metavar="NAME", help="Only events of this group.")
@click.option("--host", metavar="NAME", help="Only events that were announced for this host.")
@click.option("--vm", metavar="NAME", help="Only events with this VM.")
@click.option("--type", "kind", type=CaseInsensitiveChoice(*TYPES.values()), help="Only events of this type.")
@click.option("--all", "all_", is_flag=True, help="All Scheduled events, or all that fit the other options.")
@dry_run_option
@connected
def cancel(
    client: "ControlClient",
    ids: tuple[str, ...],
    group: str | None,
    host: str | None,
    vm: str | None,
    kind: str | None,
    all_: bool,
    as_json: bool,
) -> None:
    """Cancel events that have not started."""
    from forewarn.control.bodies import EventCancelBody

    is_restricted = any((group, host, vm, kind))
    if bool(ids) == all_ or (is_restricted and not all_):
        raise click.UsageError("say which events: IDs, or --all, with --group, --host, --vm or --type if not all")
    if len(ids) == 1:
        _print_change(client.cancel(ids[0]).announcements[0], as_json=as_json)
        return
    result = client.cancel_events(EventCancelBody(ids=ids, group=group, host=host, vm=vm, type=kind, all=all_))
    print_events((each.event for each in result.announcements), "nothing was canceled", as_json=as_json)
    for id_, why in result.refused.items():
        click.echo(f"event {id_} was not canceled: {why}", err=True)
    if result.refused:
        raise click.exceptions.Exit(1)


def _print_change(announcement: "AnnouncementView", *, as_json: bool) -> None:
    waits = f"; approved, and waits until event {announcement.waits_for} has ended" if announcement.waits_for else ""
    if announcement.waits_until:
        now = datetime.now(UTC)
        waits = f"; approved, and waits until {clock(announcement.waits_until, now)}, when the quiet hours are over"
    vms = ", ".join(announcement.event.resources)
    print_result(
        announcement.event,
        f"{announcement.event.type} of {vms} is {announcement.event.status}{waits}",
        as_json=as_json,
    )
