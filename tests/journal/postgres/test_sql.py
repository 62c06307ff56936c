"""The files of SQL: every query has a name and a description, and is used."""

import re
from pathlib import Path

from forewarn.journal.postgres import sql

PACKAGE = Path(sql.__file__).parent


def test_every_query_is_named_described_and_used() -> None:
    """A query that no code names is deleted."""
    code = "".join(path.read_text("utf-8") for path in PACKAGE.glob("*.py"))
    for path in (PACKAGE / "queries").glob("*.sql"):
        text = path.read_text("utf-8")
        names = re.findall(r"^-- name: (\w+)\n-- [A-Z]", text, re.MULTILINE)
        assert len(names) == len(re.findall(r";$", text, re.MULTILINE)), path
        for name in names:
            assert sql.query(name)
            assert f'"{name}"' in code, name


def test_scripts_make_one_format_after_another() -> None:
    """The formats of the schema have no gap."""
    assert [number for number, _ in sql.migrations()] == list(range(1, len(sql.migrations()) + 1))
