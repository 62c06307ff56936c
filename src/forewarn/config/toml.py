"""Parses TOML with line numbers, so that errors can name the line.

Python's parser takes most of a minute for a million plain tables; files with only ``[[table]]`` headers and ``key =
value`` lines with plain values are parsed line by line instead, ten times as fast, with the same result.
"""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from forewarn.core.errors import BadInput

_PLAIN = re.compile(
    r"""[ \t]*
    (?:
        \[\[([A-Za-z0-9_-]+)\]\]
      | ([A-Za-z0-9_-]+)[ \t]*=[ \t]*(?: "([^"\\\x00-\x1f\x7f]*)" | (-?(?:0|[1-9]\d{0,17})) | (true|false) )
    )?
    [ \t]*(?:\#[^\x00-\x08\x0a-\x1f\x7f]*)?\r?""",
    re.VERBOSE | re.ASCII,
)
_HEADER = re.compile(r"\s*(\[\[?)\s*([^\]#]+?)\s*\]\]?")
_KEY = re.compile(r"""\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*'))*)\s*=""")
_BARE = re.compile(r"""[A-Za-z0-9_-]+|"[^"]*"|'[^']*'""")
_AT = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")

PathStep = str | int
"""One step of a path: a key, or the index of a table in an array, from 0."""


class TomlFile(msgspec.Struct, frozen=True):
    """A parsed file."""

    name: str
    text: str
    tables: dict[str, object]

    def place(self, *path: PathStep) -> str:
        """Return the line of ``path``, or of its nearest parent: ``fleet.toml, line 3``."""
        best, line = 0, 0
        for number, found in _places(self.text):
            shared = next((i for i, (one, other) in enumerate(zip(path, found, strict=False)) if one != other), None)
            depth = min(len(path), len(found)) if shared is None else shared
            if depth > best:
                best, line = depth, number
            if best == len(path):
                break
        return f"{self.name}, line {line}" if line else self.name


def read(path: Path) -> TomlFile:
    """Read a file; raise BadInput that names the line if it is not TOML."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror or error}") from None
    return decode(content, str(path))


def decode(content: bytes, name: str) -> TomlFile:
    """Decode and parse a file's bytes; ``name`` is used in errors."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise BadInput(f"{name}, line {line}: this is not UTF-8 text; save the file as UTF-8") from None
    return parse(text, name)


def parse(text: str, name: str) -> TomlFile:
    """Parse a file's text; ``name`` is used in errors."""
    tables = _plain(text)
    return TomlFile(name, text, tables if tables is not None else _any(text, name))


def _any(text: str, name: str) -> dict[str, object]:
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise BadInput(f"{name}: its values are nested too deeply") from None
    except ValueError as error:
        said = str(error)
        at = _AT.search(said)
        line = (at[1] if at else None) or str(text.count("\n") + 1)
        said = said[: at.start()] if at else said
        raise BadInput(f"{name}, line {line}: {said[:1].lower()}{said[1:]}") from None


def _plain(text: str) -> dict[str, object] | None:
    """Parse a file of plain lines only; None if it has other lines or errors."""
    tables: dict[str, object] = {}
    table: dict[str, object] = tables
    arrays: dict[str, list[dict[str, object]]] = {}
    match_line = _PLAIN.fullmatch
    for line in text.split("\n"):
        match = match_line(line)
        if match is None:
            return None
        header, key, string, number, boolean = match.groups()
        if key:
            if key in table:
                return None
            table[key] = string if string is not None else int(number) if number else boolean == "true"
        elif header:
            if header not in arrays:
                if header in tables:
                    return None
                tables[header] = arrays[header] = []
            table = {}
            arrays[header].append(table)
    # A carriage return is allowed only before a line feed.
    return None if text.endswith("\r") else tables


def _places(text: str) -> Iterator[tuple[int, tuple[PathStep, ...]]]:
    """Yield the line and path of every header and key."""
    here: tuple[PathStep, ...] = ()
    counts: dict[tuple[PathStep, ...], int] = {}
    closing = ""
    for number, line in enumerate(text.split("\n"), start=1):
        if closing:
            closing = "" if line.count(closing) % 2 else closing
            continue
        if match := _HEADER.match(line):
            here = ()
            for step in _BARE.findall(match[2]):
                here = (*here, step.strip("\"'"))
                if here in counts:
                    here = (*here, counts[here])
            if match[1] == "[[":
                here = here[:-1] if here and isinstance(here[-1], int) else here
                counts[here] = counts.get(here, -1) + 1
                here = (*here, counts[here])
            yield number, here
        elif match := _KEY.match(line):
            yield number, (*here, *(step.strip("\"'") for step in _BARE.findall(match[1])))
        closing = next((mark for mark in ('"""', "'''") if line.count(mark) % 2), "")
