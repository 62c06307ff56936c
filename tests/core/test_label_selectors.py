"""Label selectors: what they match, how versions compare, and what is refused."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.core.errors import BadInput, Refused
from forewarn.core.label_selectors import MOST_LABELS, check_labels, compare_versions, parse_selector

LABELS = {"rack": "r1", "version": "1.4.2", "a.b/c": "x"}


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ("rack=r1", True),
        ("rack==r1", True),
        ("rack = r2", False),
        ("zone=1", False),
        ("rack!=r1", False),
        ("rack!=r2", True),
        ("zone!=1", True),
        ("rack in (r1, r2)", True),
        ("rack in(r2)", False),
        ("zone in (1)", False),
        ("rack notin (r1)", False),
        ("rack notin (r2)", True),
        ("zone notin (1)", True),
        ("rack", True),
        ("zone", False),
        ("!zone", True),
        ("! rack", False),
        ("version<1.10", True),
        ("version<1.4.2", False),
        ("version<=1.4.2", True),
        ("version>1.4", True),
        ("version>=1.4.3", False),
        ("zone<1", False),
        ("zone>=0", False),
        ("rack=r1,version<2", True),
        (" rack=r1 , version<1 ", False),
        ("a.b/c=x", True),
        ("in in (in)", False),
    ],
)
def test_a_selector_matches_what_it_says(selector: str, *, matches: bool) -> None:
    """A label that is absent is not equal, not in a set, and not lower or higher than anything."""
    assert parse_selector(selector).matches(LABELS) is matches


@pytest.mark.parametrize(
    ("selector", "place", "expected"),
    [
        ("", 1, "the key of a label"),
        ("=r1", 1, "the key of a label"),
        ("rack=", 6, "a value"),
        ("rack=r1,", 9, "the key of a label"),
        ("rack=r1 zone", 9, "',' or the end"),
        ("rack in r1", 9, "values in parentheses"),
        ("rack in (r1", 12, "',' or ')'"),
        ("rack in ()", 10, "a value"),
        ("rack=r1;zone=1", 8, "',' or the end"),
        ("!", 2, "the key of a label"),
    ],
)
def test_an_error_names_the_character_and_what_is_expected(selector: str, place: int, expected: str) -> None:
    """And how to write it."""
    with pytest.raises(BadInput, match=re.escape(f"character {place}: expected {expected}")) as error:
        parse_selector(selector)

    assert "write it like rack=r1" in str(error.value)


def test_a_selector_has_a_largest_length() -> None:
    """So that none costs more to read than it is worth."""
    with pytest.raises(BadInput, match="at most 2000 characters; this one has 2001"):
        parse_selector("a" * 2001)


@pytest.mark.parametrize(
    ("lower", "higher"), [("1.9", "1.10"), ("1.4-rc1", "1.4"), ("1.4", "1.4.1"), ("6.1.0-18", "6.1.0-20"), ("a", "1")]
)
def test_versions_compare_by_their_parts(lower: str, higher: str) -> None:
    """Numbers as numbers; a word, as of a release candidate, is lower than nothing."""
    assert compare_versions(lower, higher) < 0 < compare_versions(higher, lower)


def test_missing_parts_of_a_version_count_as_zero() -> None:
    """1.4 and 1.4.0 are one version."""
    assert compare_versions("1.4", "1.4.0") == 0 == compare_versions("v1.4", "V1-4")


VERSIONS = st.text("019.ab-", min_size=1, max_size=6)


@given(VERSIONS, VERSIONS, VERSIONS)
def test_versions_have_an_order(one: str, two: str, three: str) -> None:
    """Else a rollout to a version could skip a host, or never end."""
    assert (compare_versions(one, two) < 0) == (compare_versions(two, one) > 0)
    if compare_versions(one, two) <= 0 and compare_versions(two, three) <= 0:
        assert compare_versions(one, three) <= 0


@pytest.mark.parametrize(
    "labels", [{"": "x"}, {"-a": "x"}, {"a-": "x"}, {"a b": "x"}, {"a=b": "x"}, {"a": ""}, {"a": "x,y"}, {"a": "ä"}]
)
def test_labels_that_no_selector_could_name_are_refused(labels: dict[str, str]) -> None:
    """With what is possible."""
    with pytest.raises(Refused, match=r"host 'h1': .* use"):
        check_labels("host 'h1'", labels)


def test_a_record_has_a_largest_number_of_labels() -> None:
    """So that no record is larger than its machine deserves."""
    labels = {f"k{number}": "x" for number in range(MOST_LABELS + 1)}
    with pytest.raises(Refused, match="has 51 labels; 50 are possible"):
        check_labels("VM 'web-0'", labels)
