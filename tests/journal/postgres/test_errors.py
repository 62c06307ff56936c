"""What is wrong with a database is said with the remedy."""

import psycopg
import pytest

from forewarn.journal.postgres.errors import describe


@pytest.mark.parametrize(
    "said",
    [
        'connection failed: FATAL:  password authentication failed for user "forewarn"',
        "connection failed: fe_sendauth: no password supplied",
    ],
)
def test_a_wrong_or_a_missing_password_is_named(said: str) -> None:
    """Neither has a state, so that the words of the error decide."""
    assert "password" in describe(psycopg.OperationalError(said))
    assert "cannot be reached" not in describe(psycopg.OperationalError(said))
