"""How commands print: JSON, tables without borders, and plain sentences.

At a terminal a table has colours and fits the window: its last column, which tells most, is broken between words or
stands below its row, and others are cut. Elsewhere it is plain text, and nothing is cut.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, TextIO, TypeVar

import click
import msgspec

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

_Command = TypeVar("_Command", bound=Callable[..., object])
_Value = TypeVar("_Value")
_SLICE = 1_000
_GAP = 2
_WHOLE = 19
"""Characters of a cell that are cut last; a time has so many."""
_LEGIBLE = 30
"""Fewer characters than these are no column to break a text in."""
_BELOW = 4
"""How far what stands below its row is set in."""
_STYLES = {
    "Scheduled": "yellow",
    "Started": "bold magenta",
    "Completed": "green",
    "Canceled": "dim",
    "Failed": "bold red",
    "kept": "green",
    "breach": "bold red",
    "differs": "yellow",
    "not seen": "dim",
    "deallocated": "dim",
}


def json_option(command: _Command) -> _Command:
    """Give a command the flag that everything that prints has."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def print_json(value: object) -> None:
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2))


def print_json_list(values: Iterable[object]) -> None:
    """Print an array of one line each, as the values come."""
    began = False
    for part in _slices(values):
        lines = ",\n".join(msgspec.json.encode(value).decode() for value in part)
        click.echo(f",\n{lines}" if began else f"[\n{lines}", nl=False)
        began = True
    click.echo("\n]" if began else "[]")


def print_table(headers: Sequence[str], rows: Iterable[Sequence[str]], empty: str) -> None:
    """Print rows as they come; or the sentence ``empty`` when there are none."""
    shown = headers
    widths = [len(header) for header in headers]
    for part in _slices(rows):
        if _is_at_terminal():
            _print_rich(shown, part)
        else:
            widths = [max(width, *(len(row[number]) for row in part)) for number, width in enumerate(widths)]
            click.echo("\n".join(_plain(row, widths) for row in ((shown, *part) if shown else part)))
        shown = ()
    if shown:
        click.echo(empty)


def _plain(row: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def console() -> "Console":
    """Return a console of the terminal's width."""
    from rich.console import Console

    return Console(highlight=False, emoji=False, markup=False)


def is_watched(stream: TextIO | None) -> bool:
    """Tell whether what is written there is seen at a terminal."""
    return stream is not None and stream.isatty()


def _is_at_terminal() -> bool:
    return is_watched(sys.stdout)


def _print_rich(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    shown = console()
    table = (headers, *rows) if headers else rows
    *widths, last = (max(len(row[number]) for row in table) for number in range(len(rows[0])))
    room = shown.width - sum(widths) - _GAP * len(widths)
    if last <= max(room, _WHOLE) or room >= _LEGIBLE:
        shown.print(_table(headers, rows))
        return
    from rich.padding import Padding
    from rich.segment import Segments

    lines = shown.render_lines(_table(headers[:-1], [row[:-1] for row in rows]), new_lines=True)
    if headers:
        shown.print(Segments(lines.pop(0)))
    for line, (*_, below) in zip(lines, rows, strict=True):
        shown.print(Segments(line))
        if below != "-":
            shown.print(Padding(_cell(below), (0, 0, 0, _BELOW), expand=False))


def _table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> "Table":
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="dim", show_header=bool(headers))
    for number in range(len(rows[0])):
        header = headers[number] if headers else ""
        # Where it gets narrow, columns that may wrap give way first.
        width = max(len(header), *(len(row[number]) for row in rows))
        table.add_column(header, no_wrap=width <= _WHOLE)
    for row in rows:
        table.add_row(*(_cell(cell, is_cut=True) for cell in row[:-1]), _cell(row[-1]))
    return table


def _cell(cell: str, *, is_cut: bool = False) -> "Text":
    from rich.text import Text

    return Text(cell, style=_STYLES.get(cell, ""), no_wrap=is_cut, overflow="ellipsis" if is_cut else "fold")


def print_line(word: str, rest: str) -> None:
    """Print a line that begins with a word in its colour."""
    if _is_at_terminal():
        from rich.text import Text

        console().print(Text.assemble(_cell(word), rest), soft_wrap=True)
    else:
        click.echo(word + rest)


def _slices(values: Iterable[_Value]) -> Iterator[list[_Value]]:
    rest = iter(values)
    while part := list(islice(rest, _SLICE)):
        yield part


def print_fields(fields: dict[str, str]) -> None:
    """Print names and values, leaving out what is empty."""
    fields = {name: value for name, value in fields.items() if value}
    width = max(map(len, fields), default=0)
    for name, value in fields.items():
        click.echo(wrapped(value, f"{name:<{width}}  "))


def printable(text: str) -> str:
    """Return others' words such that they neither end a line nor speak to the terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def wrapped(text: str, lead: str = "") -> str:
    """Let a text follow its lead, broken between words where the terminal's window ends."""
    if not _is_at_terminal():
        return (lead + text).rstrip()
    import shutil
    import textwrap

    width = max(shutil.get_terminal_size().columns, len(lead) + 20)
    lines = textwrap.wrap(text, width - len(lead), break_long_words=False, break_on_hyphens=False) or [""]
    return "\n".join(
        f"{lead if number == 0 else ' ' * len(lead)}{line}".rstrip() for number, line in enumerate(lines)
    )
