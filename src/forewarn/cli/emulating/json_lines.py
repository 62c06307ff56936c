"""JSON output of the emulator: one object per line, the first with the addresses.

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
    """Print the URLs of the VMs; ``url`` is that of the first."""
    print_json_line("listening", url=next(iter(urls.values()), ""), urls=urls, scenario=scenario)


def print_activity(line: ActivityLine) -> None:
    print_json_line("activity", line.at, text=line.text)


@contextmanager
def last_line(*, as_json: bool) -> Iterator[None]:
    """With ``as_json``, also print an exception as the last line; it is raised again."""
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
