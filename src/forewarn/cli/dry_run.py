"""``--dry-run``: prints what an operation would do, and does nothing.

The service decides the operation on a draft of the fleet. Every command that changes the fleet through the control
API gets this from the option alone: its first write returns the preview, which is printed instead of its result.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NoReturn, TypeVar

import click

from forewarn.cli.output import print_json, wrapped
from forewarn.cli.times import clock

if TYPE_CHECKING:
    from forewarn.control.views import AnnouncementView, CommandResult

_Command = TypeVar("_Command", bound=Callable[..., object])
_DRY_RUN = "forewarn.dry_run"


class PreviewShown(Exception):
    """The service returned a preview; the command ends."""

    def __init__(self, result: "CommandResult") -> None:
        super().__init__()
        self.result = result


def dry_run_option(command: _Command) -> _Command:
    def keep(context: click.Context, _: click.Parameter, is_given: bool) -> None:
        context.meta[_DRY_RUN] = is_given

    help_text = "Print what would be announced, to which VMs, when, and what would wait; do nothing."
    return click.option("--dry-run", is_flag=True, expose_value=False, callback=keep, help=help_text)(command)


def is_dry_run(context: click.Context) -> bool:
    return bool(context.meta.get(_DRY_RUN))


def stop_at_preview(result: "CommandResult") -> None:
    """Raise PreviewShown: the command has nothing more to do."""
    raise PreviewShown(result)


def print_preview(result: "CommandResult", *, as_json: bool) -> NoReturn:
    """Print what an operation would do, and end the command; with 1 if some of it would be refused."""
    if as_json:
        print_json(result)
    else:
        for line in _lines(result) if has_effect(result) else ("nothing would change",):
            click.echo(wrapped(line))
        click.echo("dry run: nothing was changed")
    raise click.exceptions.Exit(1 if result.refused else 0)


def has_effect(result: "CommandResult") -> bool:
    return bool(
        result.announcements or result.canceled or any(result.changed.values()) or result.refused or result.selected
    )


def _lines(result: "CommandResult") -> Iterator[str]:
    now = datetime.now(UTC)
    canceled = set(result.canceled)
    for each in result.announcements:
        if each.event.id not in canceled:
            yield _announcement(each, now)
    announced = {name for each in result.announcements for name in (*each.event.resources, each.host)}
    for name in result.selected:
        if name not in announced and name not in result.refused and name not in canceled:
            yield f"{name}: would be changed, nothing would be announced"
    for id_ in result.canceled:
        yield f"event {id_} would be canceled"
    for key, count in result.changed.items():
        if count:
            verb = "removed" if key.startswith("removed_") else "declared"
            yield f"{key.removeprefix('removed_')} {verb}: {count}"
    for vm, why in result.left.items():
        yield f"{vm} would stay: {why}"
    for name, why in result.refused.items():
        yield f"{name} would be refused: {why}"


def _announcement(each: "AnnouncementView", now: datetime) -> str:
    from forewarn.cli.control_commands import describe_announcement

    behind = f"; its turn comes after {', '.join(each.turn_after)}" if each.turn_after else ""
    waits = f"; waits until event {each.waits_for} has ended" if each.waits_for else ""
    if each.waits_until:
        waits = f"; waits until {clock(each.waits_until, now)}, when quiet hours end"
    return f"{each.event.type}: {describe_announcement(each, now)}{behind}{waits}"
