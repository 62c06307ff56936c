"""How drivers and handlers read their settings: each mistake is one sentence that names the key."""

from datetime import timedelta
from enum import StrEnum
from typing import Literal

import msgspec
import pytest

from forewarn.config.tables import read_table
from forewarn.core.errors import BadInput


class Colour(StrEnum):
    """Something of which there are few."""

    GREEN = "green"
    BLUE = "blue"


class Example(msgspec.Struct):
    """A driver's settings."""

    boot: float = 30.0
    words: dict[str, str] = {}
    wait: timedelta = timedelta(0)
    colour: Colour = Colour.GREEN
    to: Literal["file", "screen"] = "file"


class Demanding(msgspec.Struct):
    """Settings of which one must be given."""

    program: str
    boot: float = 30.0


def test_what_must_be_given_is_asked_for() -> None:
    """By its name."""
    with pytest.raises(BadInput, match=r"^driver 'example' needs the setting 'program'$"):
        read_table("driver 'example'", {"boot": 1}, Demanding)


def test_settings_become_a_record() -> None:
    """What is given replaces the defaults."""
    assert read_table("driver 'example'", {"boot": 2}, Example) == Example(boot=2.0)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            {"bot": 1},
            "driver 'example' has no setting 'bot' (it has boot, words, wait, colour, to); did you mean 'boot'?",
        ),
        ({"boot": "x"}, "setting 'boot' of driver 'example': expected `float`, got `str`"),
        ({"words": {"a": 1}}, "setting 'words[...]' of driver 'example': expected `str`, got `int`"),
        ({"wait": "x"}, "setting 'wait' of driver 'example': expected a duration such as 90s or 15m, got 'x'"),
        (
            {"colour": "gren"},
            "setting 'colour' of driver 'example': expected one of green, blue, got 'gren'; did you mean 'green'?",
        ),
        ({"to": "paper"}, "setting 'to' of driver 'example': expected one of file, screen, got 'paper'"),
        ({"colour": 5}, "setting 'colour' of driver 'example': expected one of green, blue, got 5"),
        ({"wait": True}, "setting 'wait' of driver 'example': expected a duration such as 90s or 15m, got True"),
    ],
)
def test_a_mistake_is_one_sentence(given: dict[str, object], sentence: str) -> None:
    """The sentence names the driver, the key and what it may be."""
    with pytest.raises(BadInput) as refused:
        read_table("driver 'example'", given, Example)

    assert str(refused.value) == sentence


@pytest.mark.parametrize("given", ["90s", "1m30s", 90, 90.0, "PT90S"])
def test_a_duration_is_written_as_everywhere(given: object) -> None:
    """People write ``90s``, or seconds as a number."""
    assert read_table("driver 'example'", {"wait": given}, Example).wait == timedelta(seconds=90)
