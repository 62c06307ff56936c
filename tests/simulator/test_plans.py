"""Failures that were shrunk and saved do not come back; stories written by hand keep every promise too."""

from pathlib import Path

import pytest

from forewarn.simulator.plan import parse_plan
from forewarn.simulator.seeds import run_plan

PLANS = sorted((Path(__file__).parent / "plans").glob("*.txt"))


@pytest.mark.end_to_end
@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_a_saved_plan_keeps_every_promise(path: Path) -> None:
    """What its first lines tell was mended, or holds."""
    assert run_plan(parse_plan(path.read_text("utf-8"))).problems == []
