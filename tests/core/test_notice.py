"""The durations that the rules go by, and texts of one line."""

from datetime import timedelta

import msgspec
import pytest

from forewarn.core.errors import Refused
from forewarn.core.model import EventType
from forewarn.core.notice import Rules, check_line, whole_second
from tests.core.harness import NOON


def test_a_hurry_divides_every_duration() -> None:
    """No duration is forgotten, and no limit is touched."""
    rules = Rules(user_operation_limit=7)
    hurried = rules.hurried(60)
    durations = {key for key, value in msgspec.structs.asdict(rules).items() if isinstance(value, timedelta)}

    assert {key: getattr(hurried, key) for key in durations} == {key: getattr(rules, key) / 60 for key in durations}
    assert hurried.notices == {type_: notice / 60 for type_, notice in rules.notices.items()}
    assert hurried.minimum(EventType.TERMINATE, 300) == timedelta(seconds=5)
    assert hurried.user_operation_limit == 7


def test_a_time_is_rounded_up_to_what_is_shown() -> None:
    """A whole second stays; a fraction becomes the next one."""
    assert whole_second(NOON) == NOON
    assert whole_second(NOON + timedelta(microseconds=1)) == NOON + timedelta(seconds=1)


@pytest.mark.parametrize("text", ["two\nlines", "a\tb", "\x7f", "x" * 501])
def test_a_line_is_one_line(text: str) -> None:
    """Control characters and long texts are refused."""
    with pytest.raises(Refused, match="a description is one line"):
        check_line("a description", text)


def test_a_line_has_up_to_five_hundred_characters() -> None:
    """And no character that would end it."""
    check_line("a reason", "x" * 500)
    for text in ("x" * 501, "two\nlines"):
        with pytest.raises(Refused, match="a reason is one line of at most 500 characters"):
            check_line("a reason", text)


def test_a_group_without_terminate_notice_is_deleted_without_any() -> None:
    """Its users asked for none."""
    assert Rules().minimum(EventType.TERMINATE) == timedelta()
