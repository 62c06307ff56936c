"""What an error says when nobody says more, and what it suggests."""

from itertools import chain

from forewarn.core.errors import Refused, Unavailable, nearest, unknown


def test_the_docstring_is_the_default_message() -> None:
    """An error is never silent."""
    assert str(Refused()) == "The rules do not allow this."
    assert str(Unavailable("the disk is full")) == "the disk is full"


def test_the_nearest_name_is_suggested() -> None:
    """Only where something is near."""
    assert str(unknown("VM", "wbe-0", ["db-0", "web-0"])) == "there is no VM 'wbe-0'; did you mean 'web-0'?"
    assert nearest("WEB-0", ["db-0", "web-0"]) == "; did you mean 'web-0'?"
    assert nearest("zebra", ["db-0", "web-0"]) == ""


def test_a_typing_error_costs_the_same_in_every_fleet() -> None:
    """Only so many names are compared."""
    many = chain((f"name-{number}" for number in range(5_000)), ["wanted"])

    assert nearest("wantde", many) == ""
