"""Azure's spellings."""

from hypothesis import given
from hypothesis import strategies as st

from forewarn.core.model import EventSource, EventStatus, EventType
from forewarn.wire import azure_names


def test_every_member_has_a_word_that_reads_back() -> None:
    """No type, source or status is without its word."""
    assert {azure_names.read_type(azure_names.TYPES[each]) for each in EventType} == set(EventType)
    assert {azure_names.read_source(azure_names.SOURCES[each]) for each in EventSource} == set(EventSource)
    assert {azure_names.read_status(azure_names.STATUSES[each]) for each in EventStatus} == set(EventStatus)


def test_words_are_read_in_any_case() -> None:
    """A mock that writes them otherwise is understood, and the member itself comes back."""
    assert azure_names.read_type("FREEZE") is EventType.FREEZE
    assert azure_names.read_status("started") is EventStatus.STARTED
    assert azure_names.read_source("uSER") is EventSource.USER


def test_an_unknown_word_is_kept_as_it_came() -> None:
    """A client outlives a word it was not taught."""
    assert azure_names.read_type("HibernatE") == "HibernatE"
    assert azure_names.read_status("Postponed") == "Postponed"
    assert azure_names.read_source("Weather") == "Weather"


@given(st.uuids())
def test_an_id_is_shown_in_upper_case_and_read_in_any(id: object) -> None:
    """Clients send back either case."""
    assert azure_names.show_id(str(id)) == str(id).upper()
    assert azure_names.read_id(azure_names.show_id(str(id))) == azure_names.read_id(str(id)) == str(id)


def test_the_id_of_an_operation_is_shown_as_a_guid() -> None:
    """Those of the service itself are recorded without hyphens; what is no GUID is shown as it is."""
    bare = "0123456789abcdef0123456789abcdef"

    assert azure_names.show_command_id(bare) == "01234567-89AB-CDEF-0123-456789ABCDEF"
    assert (
        azure_names.show_command_id("01234567-89ab-cdef-0123-456789abcdef") == "01234567-89AB-CDEF-0123-456789ABCDEF"
    )
    assert azure_names.show_command_id(bare + "0") == (bare + "0").upper()
    assert azure_names.show_command_id("g" * 32) == "G" * 32
    assert azure_names.show_command_id("a" * 31 + "g") == "A" * 31 + "G"


def test_a_type_a_status_and_a_source_have_one_spelling_each() -> None:
    """By the table that they are in."""
    for words in (azure_names.TYPES, azure_names.STATUSES, azure_names.SOURCES):
        assert {member: azure_names.show_name(member) for member in words} == words
