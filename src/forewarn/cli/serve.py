"""``forewarn serve``: the service, and its settings as flags."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

from forewarn.config.settings import KEYS, Settings, load
from forewarn.config.values import Endpoint

_Command = TypeVar("_Command", bound=Callable[..., object])


def _settings_options(command: _Command) -> _Command:
    """Give a command a flag for every setting; what is left out is looked for elsewhere."""
    usual = Settings()
    for name, key in reversed(KEYS.items()):
        default = getattr(usual, name)
        shown = f" [default: {_shown(default)}]" if default else ""
        flag = f"--{name.replace('_', '-')}"
        command = click.option(flag, name, metavar=key.kind.metavar, help=key.help + shown)(command)
    return command


def _shown(default: object) -> str:
    from datetime import timedelta

    from forewarn.config.durations import show_duration

    match default:
        case timedelta():
            return show_duration(default)
        case float():
            return f"{default:g}"
        case Path() | Endpoint() | str() | int():
            return str(default)
        case _:
            raise TypeError(f"no help shows {default!r}")


@click.command
@click.option(
    "--config", metavar="FILE", help="A file of settings. [default: FOREWARN_CONFIG, else ./forewarn.toml if present]"
)
@_settings_options
@click.pass_context
def serve(context: click.Context, /, config: str | None, **flags: str | None) -> None:
    """Run the service.

    Every flag is also a variable and a key of the file: --rate-limit, FOREWARN_RATE_LIMIT, rate_limit. A flag goes
    before the environment, the environment before the file.
    """
    flags["data"] = flags["data"] or context.find_root().obj.data
    settings = load(flags, os.environ, Path(config) if config else None)
    from forewarn.serving import serve as run

    run(settings)
