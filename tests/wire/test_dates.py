"""Times on the wire."""

import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.wire.dates import read_time, show_time

MOMENT = datetime(2016, 9, 19, 18, 29, 47, tzinfo=UTC)
moments = st.datetimes(timezones=st.just(UTC))


def test_a_time_is_shown_as_azure_shows_it() -> None:
    """Two-digit day, English names, GMT."""
    assert show_time(MOMENT) == "Mon, 19 Sep 2016 18:29:47 GMT"
    assert show_time(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)) == "Fri, 02 Jan 2026 03:04:05 GMT"


@given(moments)
def test_every_time_is_shown_as_the_standard_library_would(moment: datetime) -> None:
    """Our own spelling is only faster."""
    assert show_time(moment) == format_datetime(moment, usegmt=True)


@given(moments)
def test_what_is_shown_reads_back_to_the_second_and_never_later(moment: datetime) -> None:
    """A fraction is dropped, so nothing starts before the time that was shown."""
    assert read_time(show_time(moment)) == moment.replace(microsecond=0) <= moment


@given(moments)
def test_iso_reads_back_exactly(moment: datetime) -> None:
    """With or without a fraction."""
    assert read_time(moment.isoformat()) == moment


@pytest.mark.parametrize(
    "text",
    [
        "Mon, 19 Sep 2016 18:29:47 GMT",
        " 19 sep 2016 18:29:47 UTC ",
        "Mon, 19 Sep 2016 20:29:47 +0200",
        "Monday, 19-Sep-2016 18:29:47 GMT",
        "Monday, 19-Sep-16 18:29:47 GMT",
        "Mon Sep 19 18:29:47 2016",
        "mon, 19 sep 2016 18:29:47 gmt",
        "2016-09-19T18:29:47Z",
        "2016-09-19T18:29:47",
        "2016-09-19 18:29:47.0000000Z",
        "2016-09-19T20:29:47+02:00",
    ],
)
def test_every_spelling_seen_in_the_wild_is_one_moment(text: str) -> None:
    """RFC 1123 and ISO 8601, with and without zone or fraction."""
    assert read_time(text) == MOMENT
    assert read_time(text).utcoffset() == timedelta(0)


def test_digits_may_be_left_out() -> None:
    """Of the day, the hour, the seconds."""
    assert read_time("Fri, 2 Sep 2016 8:05 GMT") == datetime(2016, 9, 2, 8, 5, tzinfo=UTC)
    assert read_time("Fri Sep  2 08:05:00 2016") == datetime(2016, 9, 2, 8, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "soon",
        "Mon, 31 Feb 2016 18:29:47 GMT",
        "Mon, 19 Foo 2016 18:29:47 GMT",
        "Mon, 19 Sep 2016 25:00:00 GMT",
        "Mon, 19 Sep 2016 18:29:47 CEST",
        "0001-01-01T00:00:00+05:00",
        "9999-12-31T23:59:59-05:00",
    ],
)
def test_what_is_no_time_is_a_value_error(text: str) -> None:
    """Whatever is wrong with it."""
    with pytest.raises(ValueError):  # noqa: PT011 - the standard library's words differ between releases
        read_time(text)


@given(st.text())
def test_no_text_raises_anything_else(text: str) -> None:
    """Neither a missing zone nor the end of time."""
    with suppress(ValueError):
        assert read_time(text).tzinfo is UTC


def test_a_time_without_a_zone_is_utc_wherever_the_reader_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    """The zone of the machine is never asked for."""
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        read = read_time("2016-09-19T18:29:47")
    time.tzset()
    assert read == MOMENT
