"""Every rule of the protocol has its test in this folder, and every test its rule; and the page tells each once."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from forewarn.conformance.rules import BY_NAME

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "reference" / "azure.md"
OF_THE_KIT = {"test_inspection.py", "test_openapi.py", "test_trials.py"}
"""Files that test the modules of the kit, and no row of the page."""
ROWS = re.findall(r"^\| `([a-z0-9-]+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


@cache
def names_of_tests() -> set[str]:
    """Return the names of the tests in the other files of this folder."""
    return {
        each.name
        for path in HERE.glob("test_*.py")
        if path.name not in {Path(__file__).name, *OF_THE_KIT}
        for each in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(each, ast.FunctionDef) and each.name.startswith("test_")
    }


@pytest.mark.parametrize("row", BY_NAME)
def test_a_row_has_its_test(row: str) -> None:
    """What the page promises is tried out, under the row's own name."""
    assert f"test_{row.replace('-', '_')}" in names_of_tests()


def test_every_test_has_its_row() -> None:
    """What is tried out here is promised on the page."""
    assert {name.removeprefix("test_").replace("_", "-") for name in names_of_tests()} == set(BY_NAME)


def test_the_page_tells_every_rule_once() -> None:
    """A name stands for one promise."""
    assert len(ROWS) == len(set(ROWS)) > 80
    assert set(ROWS) == set(BY_NAME)
