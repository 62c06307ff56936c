"""What the bench writes down."""

from bench.__main__ import PARTS
from bench.figures import Figure, Result, spread_of
from bench.remarks import METHODS, SHORTFALLS
from bench.report import document, line

SHORT = Figure(name="a ratio", asked="at least 0.9", limit=0.9, measured=0.5, spread=spread_of([0.4, 0.5, 0.6]))
MET = Figure(name="another", asked="at least 0.9", limit=0.9, measured=1.0)


def page(*figures: Figure) -> str:
    return document([Result("commands", "2026-01-01", False, {"CPU": "2 cores"}, figures)])


def test_what_falls_short_is_said_so() -> None:
    """On the terminal and on the page, with the spread beside it and the reason below."""
    assert "NOT MET" in line(SHORT)
    assert SHORTFALLS["commands"] in page(SHORT)
    assert "| a ratio | at least 0.9 | **falls short** 0.50 | 0.40 to 0.60 |" in page(SHORT)


def test_what_is_met_is_not_commented_on() -> None:
    """The figure speaks for itself."""
    assert "falls short" not in page(MET)
    assert SHORTFALLS["commands"] not in page(MET)


def test_the_page_names_the_machine_and_the_method() -> None:
    """A reader can compare it with their own."""
    assert "2 cores" in page(MET)
    assert METHODS["commands"] in page(MET)


def test_only_the_sections_of_what_was_measured_are_written_anew() -> None:
    """The others stay as they are, and every section stands where its part does."""
    before = document([Result(part, "2026-01-01", False, {}, (SHORT,)) for part in ("commands", "crowd", "agent")])
    after = document([Result("crowd", "2027-01-01", False, {}, (MET,))], before)

    assert [line for line in after.splitlines() if line.startswith("## ")] == ["## commands", "## crowd", "## agent"]
    assert document([], before) == before
    assert after.partition("## crowd")[0] == before.partition("## crowd")[0]
    assert after.partition("## agent")[2] == before.partition("## agent")[2]
    assert "Measured on 2027-01-01" in after.partition("## crowd")[2].partition("## agent")[0]


def test_every_part_is_explained() -> None:
    """In the order in which the parts are measured, so that the page has the same."""
    assert list(METHODS) == list(PARTS)
