"""Header lines of responses."""

from datetime import UTC, datetime
from email.utils import format_datetime

from hypothesis import given
from hypothesis import strategies as st

from forewarn.metadata.responses import http_date


@given(st.datetimes(timezones=st.just(UTC)))
def test_a_date_is_written_as_http_has_it(now: datetime) -> None:
    """In English, whatever the locale, and without fractions of a second."""
    assert http_date(now) == format_datetime(now, usegmt=True)
