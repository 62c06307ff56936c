"""What commands that announce something have in common: their options, and how they tell what will happen."""

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar

import click

from forewarn.cli.output import print_json, print_json_list, print_table
from forewarn.cli.times import clock, not_before_option, relative

if TYPE_CHECKING:
    from forewarn.control.client import Client
    from forewarn.control.views import Announcement, EventView

_Command = TypeVar("_Command", bound=Callable[..., object])
_LONGEST_DESCRIPTION = 512

_SENTENCES = {
    "Reboot": ("will restart", "restarts now"),
    "Redeploy": ("will be redeployed", "is redeployed now"),
    "Freeze": ("will freeze", "freezes now"),
    "Preempt": ("will be evicted", "is evicted now"),
    "Terminate": ("will be deleted", "is deleted now"),
}


def connect(context: click.Context) -> "Client":
    """Reach the service that the command line names."""
    from forewarn.cli.logins import choose

    return choose(context)


def announcing_options(command: _Command) -> _Command:
    """Give a command the options of everything that announces an event."""
    for option in (
        click.option("--description", metavar="TEXT", callback=_check_description, help="What its VMs will read."),
        click.option(
            "--duration",
            type=click.IntRange(min=-1, max=2**31 - 1),
            metavar="S",
            help="The seconds of interruption to announce; -1 when not known.",
        ),
        click.option(
            "--not-before",
            metavar="TIME",
            callback=not_before_option,
            help="When it may begin: +20m, 14:32 (local) or an ISO time. [default: as soon as the notice allows]",
        ),
    ):
        command = option(command)
    return command


def _check_description(context: click.Context, parameter: click.Parameter, given: str | None) -> str | None:
    if given is not None and len(given) > _LONGEST_DESCRIPTION:
        raise click.BadParameter(f"it is longer than {_LONGEST_DESCRIPTION} characters", context, parameter)
    return given


def print_announcement(told: "Announcement", *, as_json: bool) -> None:
    """Print one event that an operation announced."""
    if as_json:
        print_json(told.event)
        return
    click.echo(sentence(told, datetime.now(UTC)))
    click.echo(f"event {told.event.id}")


def sentence(told: "Announcement", now: datetime) -> str:
    """Say what will happen to the VM, and who might let it happen earlier."""
    event = told.event
    name = " and ".join(event.resources)
    later, at_once = _SENTENCES[event.type]
    if event.status == "Started":
        return f"{name} {at_once}" + (f": {told.without_notice}" if told.without_notice else "")
    if event.not_before is None:
        return f"{name}: {event.type} {event.status}"
    if told.without_notice:
        return f"{name} {later} as soon as the event it is under has ended: {told.without_notice}"
    when = f"{name} {later} at {clock(event.not_before, now)} unless approved"
    if told.asked_by and told.asked_at:
        return f"{when}; {told.asked_by} polled {relative(told.asked_at, now)}"
    return f"{when}; no VM of {told.group} has polled since the service started"


def print_choices(told: "Iterable[Announcement]", empty: str, *, as_json: bool) -> None:
    """Print the events of VMs that were chosen, and why just these."""
    if as_json:
        print_json_list({**_fields(each.event), "reason": each.reason} for each in told)
        return
    now = datetime.now(UTC)
    rows = (
        (
            each.event.id[:8],
            each.event.type,
            each.event.status,
            relative(each.event.not_before, now) if each.event.not_before else "-",
            _names(each.event.resources),
            each.reason,
        )
        for each in told
    )
    print_table(("EVENT", "TYPE", "STATUS", "NOT BEFORE", "VM", "WHY"), rows, empty)


def _fields(event: "EventView") -> dict[str, object]:
    from msgspec.structs import asdict

    return asdict(event)


def print_events(events: "Iterable[EventView]", empty: str, *, as_json: bool) -> None:
    if as_json:
        print_json_list(events)
    else:
        print_table(("EVENT", "TYPE", "STATUS", "NOT BEFORE", "VMS"), _rows(events), empty)


def _rows(events: "Iterable[EventView]") -> Iterator[tuple[str, ...]]:
    now = datetime.now(UTC)
    for event in events:
        when = relative(event.not_before, now) if event.not_before else "-"
        yield event.id[:8], event.type, event.status, when, _names(event.resources)


def _names(names: tuple[str, ...], shown: int = 4) -> str:
    rest = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + rest
