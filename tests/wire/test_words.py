"""Azure's spellings."""

from hypothesis import given
from hypothesis import strategies as st

from forewarn.core.model import EventSource, EventStatus, EventType
from forewarn.wire import words


def test_every_member_has_a_word_that_reads_back() -> None:
    """No type, source or status is without its word."""
    assert {words.read_type(words.TYPES[each]) for each in EventType} == set(EventType)
    assert {words.read_source(words.SOURCES[each]) for each in EventSource} == set(EventSource)
    assert {words.read_status(words.STATUSES[each]) for each in EventStatus} == set(EventStatus)


def test_words_are_read_in_any_case() -> None:
    """A mock that writes them otherwise is understood, and the member itself comes back."""
    assert words.read_type("FREEZE") is EventType.FREEZE
    assert words.read_status("started") is EventStatus.STARTED
    assert words.read_source("uSER") is EventSource.USER


def test_an_unknown_word_is_kept_as_it_came() -> None:
    """A client outlives a word it was not taught."""
    assert words.read_type("HibernatE") == "HibernatE"
    assert words.read_status("Postponed") == "Postponed"
    assert words.read_source("Weather") == "Weather"


@given(st.uuids())
def test_an_id_is_shown_in_upper_case_and_read_in_any(id: object) -> None:
    """Clients send back either case."""
    assert words.show_id(str(id)) == str(id).upper()
    assert words.read_id(words.show_id(str(id))) == words.read_id(str(id)) == str(id)
