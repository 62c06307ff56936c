"""Templates: the event's words stand in their places and break out of none."""

import threading
from datetime import UTC, datetime

import msgspec
import pytest

from forewarn.agent.handler import Direction, Task
from forewarn.agent.handlers.template import FORM, JSON, NAMES, fill, words_of
from tests.agent.samples import REBOOT, SHOWN_ID

TASK = Task(
    event=msgspec.structs.replace(REBOOT, description='say "hi"\n& \\go', resources=("web-0", "web-1")),
    vm="web-0",
    direction=Direction.DO,
    deadline=datetime(2026, 3, 5, 7, tzinfo=UTC),
    stopping=threading.Event(),
)


def test_every_name_has_a_word() -> None:
    """What a template may name is what there is."""
    words = words_of(TASK)

    assert set(words) == set(NAMES)
    assert words["EventId"] == SHOWN_ID
    assert words["Resources"] == "web-0, web-1"
    assert words["Deadline"] == "2026-03-05T07:00:00+00:00"


@pytest.mark.parametrize("content_type", [JSON, "Application/JSON; charset=utf-8", "application/vnd.x+json"])
def test_a_word_stays_inside_its_json_string(content_type: str) -> None:
    """Quotes, newlines and backslashes are escaped."""
    filled = fill('{"text": "$EventType: ${Description}"}', words_of(TASK), content_type)

    assert msgspec.json.decode(filled) == {"text": f"Reboot: {TASK.event.description}"}


def test_a_word_stays_inside_its_form_field() -> None:
    """What would begin another field is percent-encoded."""
    assert fill("a=$Description&b=1", words_of(TASK), FORM) == "a=say+%22hi%22%0A%26+%5Cgo&b=1"


def test_plain_text_is_left_as_it_is() -> None:
    """There is nothing to break out of."""
    assert fill("costs $$1: $Description", words_of(TASK), "text/plain") == f"costs $1: {TASK.event.description}"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('"$"', r"a '\$' has no name after it"),
        ('"$EventTyp"', r"unknown name \$EventTyp \(known: \$EventId, "),
        ('{"n": $Description}', "with the values substituted it is not JSON"),
    ],
)
def test_a_wrong_template_says_what_is_wrong(text: str, sentence: str) -> None:
    """Before anything is sent."""
    with pytest.raises(ValueError, match=sentence):
        fill(text, {}, JSON)
