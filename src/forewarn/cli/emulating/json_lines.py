"""The emulator for programs: one JSON object per line, from the first line with the addresses to the last.

``listening``, then ``activity`` for each thing that happens, then ``result``, ``stopped`` or ``error``.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime

import click
import msgspec

from forewarn.cli.emulating.activity import ActivityLine
from forewarn.cli.output import print_live


def print_json_line(type_: str, at: datetime | None = None, **fields: object) -> None:
    """Print one object, at once."""
    print_live(msgspec.json.encode({"type": type_, "at": at or datetime.now(UTC), **fields}).decode())


def print_listening(urls: Mapping[str, str], scenario: str = "") -> None:
    """Say where the VMs ask; ``url`` is the first one's."""
    print_json_line("listening", url=next(iter(urls.values()), ""), urls=urls, scenario=scenario)


def print_activity(line: ActivityLine) -> None:
    print_json_line("activity", line.at, text=line.text)


@contextmanager
def last_line(*, as_json: bool) -> Iterator[None]:
    """With ``as_json``, print what ends the command early as its last line, too; it is raised all the same."""
    try:
        yield
    except click.exceptions.Exit:
        raise
    except KeyboardInterrupt:
        if as_json:
            print_json_line("stopped")
        raise
    except Exception as error:
        if as_json:
            said = error.format_message() if isinstance(error, click.ClickException) else str(error)
            print_json_line("error", error=said or type(error).__name__)
        raise
