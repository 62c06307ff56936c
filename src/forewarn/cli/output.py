"""Prints JSON, tables and sentences.

At a terminal a table has colours and fits the window. No cell is cut:

1. The last column is broken between words, or stands below its row, unless it may be left out.
2. Columns that may be left out are left out in the order that the command states; a last line names them.
3. A row that is still too wide is wrapped by the terminal.

With ``--wide``, and in a pipe or file, every column is printed and each row is one line.
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
_Row = Sequence[str]
_WIDE = "forewarn.wide"
_Value = TypeVar("_Value")
_SLICE = 1_000
_GAP = 2
_LEGIBLE = 30
"""Least width of a column in which text is wrapped."""
_BELOW = 4
"""How far what stands below its row is set in."""
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
json_log_option = click.option("--json", "as_json", is_flag=True, help="Log in JSON: short for log_format json.")
"""For commands that run until they are stopped."""
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


def print_live(text: str) -> None:
    """Print a line at once; ignore a closed output."""
    try:
        click.echo(text)
        sys.stdout.flush()
    except BrokenPipeError:
        from forewarn.cli.root import discard_buffered

        discard_buffered(sys.stdout)


def print_json(value: object) -> None:
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2))


def print_result(value: object, sentence: str, *, as_json: bool) -> None:
    """Print the value as JSON, or the sentence."""
    if as_json:
        print_json(value)
    else:
        click.echo(sentence)


def print_json_list(values: Iterable[object]) -> None:
    """Print a JSON array with one value per line, as the values arrive."""
    began = False
    for part in _slices(values):
        lines = ",\n".join(msgspec.json.encode(value).decode() for value in part)
        click.echo(f",\n{lines}" if began else f"[\n{lines}", nl=False)
        began = True
    click.echo("\n]" if began else "[]")


def print_list(
    values: Iterable[_Value],
    headers: _Row,
    row: Callable[[_Value], _Row],
    empty: str,
    *,
    as_json: bool,
    drop: Sequence[str] = (),
) -> None:
    """Print values as a JSON array, or as the table of their rows."""
    if as_json:
        print_json_list(values)
    else:
        print_table(headers, map(row, values), empty, drop=drop)


def wide_option(command: _Command) -> _Command:
    def keep(context: click.Context, _: click.Parameter, is_given: bool) -> None:
        context.meta[_WIDE] = is_given

    help_text = "Show all columns, and do not wrap lines."
    return click.option("--wide", is_flag=True, expose_value=False, callback=keep, help=help_text)(command)


def is_wide() -> bool:
    """Return whether all columns are shown and no line is wrapped: with --wide, or without a terminal."""
    context = click.get_current_context(silent=True)
    return not _is_at_terminal() or bool(context and context.meta.get(_WIDE))


def print_table(headers: _Row, rows: Iterable[_Row], empty: str, *, drop: Sequence[str] = ()) -> None:
    """Print rows as they come; or the sentence ``empty`` when there are none.

    ``drop`` names the columns that are left out where the terminal is too narrow, the first one first.
    """
    shown = headers
    widths = [0] * len(headers)
    left_out: list[str] = []
    for part in _slices(rows):
        widths = [max(width, *(len(row[number]) for row in part)) for number, width in enumerate(widths)]
        if not _is_at_terminal():
            widths = list(map(max, widths, map(len, headers)))
            click.echo("\n".join(_plain(row, widths) for row in ((shown, *part) if shown else part)))
        else:
            before = len(left_out)
            left_out = [] if is_wide() else _left_out(headers, widths, drop)
            kept = [number for number, header in enumerate(headers) if header not in left_out]
            table = [[row[number] for number in kept] for row in part]
            _print_rich([headers[number] for number in kept] if shown or len(left_out) > before else (), table)
        shown = ()
    if shown:
        click.echo(empty)
    if left_out:
        click.echo(f"left out: {', '.join(left_out)}; --wide shows all columns")


def _left_out(headers: _Row, widths: Sequence[int], drop: Sequence[str]) -> list[str]:
    """Return the columns to drop, in the command's order of preference."""
    left = {header: max(len(header), width) for header, width in zip(headers, widths, strict=True)}
    if headers[-1] not in drop:
        left.popitem()  # it is broken, or stands below its row
    room = console().width
    gone: list[str] = []
    for header in drop:
        if sum(left.values()) + _GAP * (len(left) - 1) <= room:
            break
        gone.append(header)
        del left[header]
    return gone


def _plain(row: _Row, widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def console(least: int = 0) -> "Console":
    """Return a console of the terminal's width, or of ``least`` columns."""
    from rich.console import Console

    usual = Console(highlight=False, emoji=False, markup=False)
    return usual if usual.width >= least else Console(highlight=False, emoji=False, markup=False, width=least)


def is_watched(stream: TextIO | None) -> bool:
    """Return whether the stream is a terminal."""
    return stream is not None and stream.isatty()


def _is_at_terminal() -> bool:
    return is_watched(sys.stdout)


def _print_rich(headers: _Row, rows: Sequence[_Row]) -> None:
    from rich.cells import cell_len

    table = (headers, *rows) if headers else rows
    *widths, last = (max(cell_len(row[number]) for row in table) for number in range(len(rows[0])))
    others = sum(width + _GAP for width in widths)
    room = console().width - others
    if is_wide() or last <= room or not widths:
        console(others + last).print(_table(headers, rows))
        return
    if room >= _LEGIBLE:
        console().print(_table(headers, rows))
        return
    from rich.padding import Padding
    from rich.segment import Segments

    shown = console(others)
    lines = shown.render_lines(_table(headers[:-1], [row[:-1] for row in rows]), new_lines=True)
    if headers:
        shown.print(Segments(lines.pop(0)))
    for line, (*_, below) in zip(lines, rows, strict=True):
        shown.print(Segments(line))
        if below != "-":
            console().print(Padding(_cell(below), (0, 0, 0, _BELOW), expand=False))


def _table(headers: _Row, rows: Sequence[_Row]) -> "Table":
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="dim", show_header=bool(headers))
    for number in range(len(rows[0])):
        table.add_column(headers[number] if headers else "", no_wrap=number < len(rows[0]) - 1)
    for row in rows:
        table.add_row(*map(_cell, row))
    return table


def _cell(cell: str) -> "Text":
    from rich.text import Text

    return Text(cell, style=_STYLES.get(cell, ""), overflow="fold")


def styled(text: str, *, color: str | None = None, is_bold: bool = False, is_dim: bool = False) -> str:
    """Return a styled text; unstyled if NO_COLOR is set."""
    import os

    if os.environ.get("NO_COLOR"):
        return text
    return click.style(text, fg=color, bold=is_bold or None, dim=is_dim or None)


def print_line(word: str, rest: str) -> None:
    """Print a line that begins with a coloured word."""
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
    """Print names and values without empty ones."""
    fields = {name: value for name, value in fields.items() if value}
    width = max(map(len, fields), default=0)
    for name, value in fields.items():
        click.echo(wrapped(value, f"{name:<{width}}  "))


def printable(text: str) -> str:
    """Replace control characters in foreign text."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def wrapped(text: str, lead: str = "") -> str:
    """Return the lead and the text, wrapped at the terminal's width."""
    if is_wide():
        return (lead + text).rstrip()
    import shutil
    import textwrap

    width = max(shutil.get_terminal_size().columns, len(lead) + 20)
    lines = textwrap.wrap(text, width - len(lead), break_long_words=False, break_on_hyphens=False) or [""]
    return "\n".join(
        f"{lead if number == 0 else ' ' * len(lead)}{line}".rstrip() for number, line in enumerate(lines)
    )
