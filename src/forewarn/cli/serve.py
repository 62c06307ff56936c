"""``forewarn serve``: run the service; each setting is also a flag."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import click

from forewarn.cli.output import json_log_option
from forewarn.config.settings import KEYS, Settings, find_file, load
from forewarn.config.values import BOOLEAN, ListenAddress

_Command = TypeVar("_Command", bound=Callable[..., object])


def _settings_options(command: _Command) -> _Command:
    """Add a flag for every setting to a command."""
    usual = Settings()
    for name, key in reversed(KEYS.items()):
        default = getattr(usual, name)
        shown = f" [default: {_shown(default)}]" if default else ""
        flag = f"--{name.replace('_', '-')}"
        option = partial(click.option, flag, name, metavar=key.kind.metavar, help=key.help + shown)
        # --strict without a value means --strict true.
        command = (option(is_flag=False, flag_value="true") if key.kind is BOOLEAN else option())(command)
    return command


def _shown(default: object) -> str:
    from datetime import timedelta

    from forewarn.config.durations import show_duration

    match default:
        case timedelta():
            return show_duration(default)
        case float():
            return f"{default:g}"
        case Path() | ListenAddress() | str() | int():
            return str(default)
        case _:
            raise TypeError(f"no help shows {default!r}")


@click.command
@click.option(
    "--config", metavar="FILE", help="A file of settings. [default: FOREWARN_CONFIG, else ./forewarn.toml if present]"
)
@_settings_options
@json_log_option
@click.pass_context
def serve(context: click.Context, /, config: str | None, as_json: bool, **flags: str | None) -> None:
    """Run the service.

    Every flag is also a variable and a key of the file: --rate-limit, FOREWARN_RATE_LIMIT, rate_limit. A flag goes
    before the environment, the environment before the file.
    """
    from forewarn.signals import Signals

    signals = Signals()  # before anything that takes time: a SIGHUP must not end the process
    flags["data"] = flags["data"] or context.find_root().obj.data
    flags["log_format"] = "json" if as_json else flags["log_format"]
    environment = dict(os.environ)

    file = Path(config) if config else None

    def read() -> Settings:
        nonlocal file
        # Every reload needs the file of the start: without it, its settings would fall back to the defaults.
        file = file or find_file(environment)
        return load(flags, environment, file)

    read()
    from forewarn.serving import serve as run

    run(read, signals=signals)
