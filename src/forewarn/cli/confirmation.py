"""Questions before what cannot be undone; ``--yes`` answers them."""

import sys
from collections.abc import Callable, Sequence
from typing import TypeVar

import click

from forewarn.cli.dry_run import is_dry_run
from forewarn.cli.output import is_watched

_Command = TypeVar("_Command", bound=Callable[..., object])
_YES = "forewarn.yes"
_SHOWN_NAMES = 10


def yes_option(command: _Command) -> _Command:
    def keep(context: click.Context, _: click.Parameter, is_given: bool) -> None:
        context.meta[_YES] = is_given

    help_text = "Do not ask. Without a terminal it is required."
    return click.option("--yes", "-y", is_flag=True, expose_value=False, callback=keep, help=help_text)(command)


def is_confirmed() -> bool:
    """Return whether no question is needed: with --yes, and in a dry run."""
    context = click.get_current_context()
    return bool(context.meta.get(_YES)) or is_dry_run(context)


def confirm(what: str) -> None:
    """Ask before something that cannot be undone; without a terminal refuse it."""
    if is_confirmed():
        return
    if not (is_watched(sys.stdin) and is_watched(sys.stderr)):
        raise click.UsageError(f"{what}: this cannot be undone, and there is no terminal to ask; give --yes")
    click.confirm(f"{what}? This cannot be undone.", abort=True, err=True)


def describe_names(names: Sequence[str], kind: str) -> str:
    """Return the names for a question; many are counted."""
    if len(names) <= 1:
        return ", ".join(names)
    more = f" and {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else ""
    return f"{len(names)} {kind} ({', '.join(names[:_SHOWN_NAMES])}{more})"
