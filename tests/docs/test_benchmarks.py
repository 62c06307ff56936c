"""The page of benchmarks, and pages that quote it."""

import re
from pathlib import Path

import pytest

from bench.remarks import METHODS, SHORTFALLS, STANDING

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "benchmarks.md").read_text("utf-8")


def numbers(text: str) -> set[str]:
    return set(re.findall(r"\d(?:[\d,.]*\d)?", text))


@pytest.mark.parametrize("part", re.findall("^## (.*)$", PAGE, re.MULTILINE))
def test_the_page_says_of_each_part_what_the_bench_says_of_it(part: str) -> None:
    """How it measures, and why a figure falls short, without a new measurement."""
    section = PAGE.partition(f"\n## {part}\n")[2].partition("\n## ")[0]
    falls_short = [SHORTFALLS[part]] if part in SHORTFALLS and "**falls short**" in section else []
    remarks = [STANDING[part]] if part in STANDING else []
    before, _, table = section.strip().partition("\n\n| figure")
    assert before == METHODS[part]
    assert table.split("\n\n")[1:-1] == remarks + falls_short


@pytest.mark.parametrize("page", ["scale.md", "operate/sizing.md"])
def test_figures_that_are_called_measured_are_on_the_page_of_benchmarks(page: str) -> None:
    """In rows of tables, and in sentences."""
    text = (DOCS / page).read_text("utf-8")
    quoted = re.findall(r"^\| .* \| (.*) \| measured \|$", text, re.MULTILINE)
    quoted += [each for each in re.split(r"(?<=[.:;])\s", text) if "(measured)" in each]
    quoted += re.findall(r"\(measured: (.*?)\)", text)
    assert quoted
    assert {each for each in quoted if not numbers(each) <= numbers(PAGE)} == set()
