"""Refusals: exact bytes, and what a client reads in them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.wire import error_responses
from forewarn.wire.error_responses import ErrorResponse, bad_request, read_error, version_invalid
from forewarn.wire.versions import SCHEDULED_EVENTS

EVERY = {name: each for name, each in vars(error_responses).items() if isinstance(each, ErrorResponse)}


def test_the_missing_header_is_answered_as_recorded() -> None:
    """With the odd colon, blank and full stop, and blanks inside the braces."""
    assert (
        ErrorResponse(400, b'{ "error": "Bad request: . Required metadata header not specified" }')
        == error_responses.METADATA_HEADER_MISSING
    )


def test_a_bad_version_is_answered_as_recorded() -> None:
    """Without blanks, and with the route's own three newest."""
    assert version_invalid(SCHEDULED_EVENTS.newest) == ErrorResponse(
        400,
        b'{"error":"Bad request. api-version is invalid or was not specified in the request. For more'
        b' information refer to aka.ms/azureimds","newest-versions":["2020-07-01","2019-08-01","2019-04-01"]}',
    )


@pytest.mark.parametrize(
    ("name", "status", "begins"),
    [
        ("METADATA_HEADER_MISSING", 400, "Bad request"),
        ("FORWARDED", 400, "Bad request"),
        ("DUPLICATE_PARAMETER", 400, "Bad request"),
        ("LEAF_AS_JSON", 400, "Bad request"),
        ("FORMAT_UNKNOWN", 400, "Bad request"),
        ("MALFORMED", 400, "Bad request"),
        ("HOST_NOT_ALLOWED", 403, "Forbidden. "),
        ("FORBIDDEN", 403, "Forbidden. "),
        ("DEALLOCATED", 403, "Forbidden. "),
        ("NOT_FOUND", 404, "Not found"),
        ("METHOD_NOT_ALLOWED", 405, "Method not allowed"),
        ("TIMEOUT", 408, "Request timeout"),
        ("GONE", 410, "Gone"),
        ("BODY_TOO_LARGE", 413, "Content too large"),
        ("URI_TOO_LONG", 414, "URI too long"),
        ("EXPECTATION_FAILED", 417, "Expectation failed"),
        ("TOO_MANY_REQUESTS", 429, "Too many requests"),
        ("HEADERS_TOO_LARGE", 431, "Request header fields too large"),
        ("INTERNAL_ERROR", 500, "Internal server error"),
        ("NOT_IMPLEMENTED", 501, "Not implemented"),
        ("UNAVAILABLE", 503, "Service unavailable"),
        ("HTTP_VERSION_UNSUPPORTED", 505, "HTTP version not supported"),
    ],
)
def test_every_refusal_has_its_status_and_says_so(name: str, status: int, begins: str) -> None:
    """In Azure's shape, with the reason that belongs to the status."""
    problem = EVERY[name]
    assert problem.status == status
    assert problem.body.startswith(b'{ "error": "' + begins.encode())
    assert problem.body.endswith(b'" }')
    assert problem.reason.lower().startswith(begins.rstrip(". ").lower())


def test_the_list_above_is_complete() -> None:
    """A new refusal needs its line there."""
    assert len(EVERY) == 22


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_reason_is_quoted_safely_and_read_back(why: str) -> None:
    """What a caller sent may stand in the answer."""
    assert read_error(bad_request(why).body) == f"Bad request. {why}"


@given(st.binary())
def test_a_refusal_from_elsewhere_is_read_as_it_is(body: bytes) -> None:
    """A proxy's page is better than nothing."""
    assert isinstance(read_error(body), str)


def test_what_has_no_error_is_read_as_it_is() -> None:
    """A page of HTML, another shape, or nothing that can be read."""
    assert read_error(b" <h1>Bad gateway</h1>\n") == "<h1>Bad gateway</h1>"
    assert read_error(b'{"error":5}') == '{"error":5}'
    assert read_error(b'{"x":' + b"[" * 60_000).startswith('{"x":[[[')


def test_a_bad_request_has_its_status() -> None:
    """Whatever the reason."""
    assert bad_request("why").status == 400


def test_answers_that_refuse_nothing_have_their_reasons_too() -> None:
    """As RFC 9110 names them."""
    assert (error_responses.REASONS[200], error_responses.REASONS[304]) == ("OK", "Not Modified")
