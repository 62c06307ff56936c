"""Reads the files of SQL beside it: each query has a name and a description.

-- name: read_head
-- The last entry, and who may append the next.
SELECT ...;
"""

import re
from functools import cache
from pathlib import Path
from typing import LiteralString

_DIRECTORY = Path(__file__).parent
_QUERY = re.compile(r"^-- name: (\w+)\n((?:--[^\n]*\n)+)(.*?);\n", re.MULTILINE | re.DOTALL)


@cache
def _queries() -> dict[str, LiteralString]:
    found: dict[str, LiteralString] = {}
    for path in sorted((_DIRECTORY / "queries").glob("*.sql")):
        for name, _, text in _QUERY.findall(path.read_text("utf-8")):
            if name in found:
                raise LookupError(f"{path} has a second query {name}")
            found[name] = text
    return found


def query(name: str) -> LiteralString:
    """Return the text of a query."""
    return _queries()[name]


def migrations() -> list[tuple[int, LiteralString]]:
    """Return the scripts that make each format of the schema of the one before it, in order."""
    scripts = (_DIRECTORY / "migrations").glob("*.sql")
    return sorted((int(path.stem), path.read_text("utf-8")) for path in scripts)
