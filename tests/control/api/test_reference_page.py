"""The page that describes the API to people."""

import pytest

from forewarn.control.api.reference_page import _limits


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"minimum": 1, "maximum": 9_999}, ", 1 to 9999"),
        ({"minimum": 1, "maximum": 10_000}, ", 1 to 10,000"),
        ({"minimum": 0.5, "maximum": 2.5}, ", 0.5 to 2.5"),
        ({"maxLength": 80}, ", up to 80 characters"),
        ({"minimum": 1}, ""),
    ],
)
def test_limits_are_written_for_people(schema: dict[str, float], text: str) -> None:
    """Numbers of five digits and more are grouped."""
    assert _limits(schema) == text
