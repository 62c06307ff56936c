"""Every story under ``tests/scenarios`` still goes the way it is told there."""

from pathlib import Path

import pytest

from tests.core.transcript import SCENARIOS, retell


@pytest.mark.parametrize("path", sorted(SCENARIOS.glob("*.txt")), ids=lambda path: path.stem)
def test_the_story_goes_as_it_is_told(path: Path) -> None:
    """The rules make of each command exactly the facts that stand below it."""
    story = path.read_text(encoding="utf-8")

    assert retell(story) == story


def test_there_are_stories() -> None:
    """The folder of stories was found."""
    assert len(list(SCENARIOS.glob("*.txt"))) > 20


def test_a_story_that_goes_another_way_is_told_differently() -> None:
    """What stands below the line is what the rules say, not what the story says."""
    story = "12:00:00 ann starts web-0\n----\nweb-0 runs again\n"

    assert retell(story) == "12:00:00 ann starts web-0\n----\nrefused: there is no VM 'web-0'\n"
