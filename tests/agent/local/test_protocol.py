"""What programs say on the local socket is read strictly, and refused in a sentence."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as some

from forewarn.agent.local.protocol import HoldRequest, LocalRequest, LocalSuccess, read_request, write_line
from forewarn.core.errors import BadInput


@pytest.mark.parametrize(
    ("line", "request_"),
    [
        (b'{"subscribe": true}', LocalRequest(subscribe=True)),
        (
            b'{"hold": {"name": "database", "within": "120s"}}',
            LocalRequest(hold=HoldRequest("database", "120s")),
        ),
        (b'{"ready": "F020", "name": "database"}', LocalRequest(ready="F020", name="database")),
        (b'{"status": true}', LocalRequest(status=True)),
        (b'{"token": "secret"}', LocalRequest(token="secret")),  # noqa: S106 it opens nothing
        (b'{"token": "secret", "status": true}', LocalRequest(token="secret", status=True)),  # noqa: S106
    ],
)
def test_every_wish_can_be_said(line: bytes, request_: LocalRequest) -> None:
    """The lines of the page, and the token alone or beside a wish."""
    assert read_request(line) == request_


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (b"hello", "one JSON object per line"),
        (b"\xff\xfe", "one JSON object per line"),
        (b'{"x":' * 10_000, "invalid request"),
        (b"[]", "invalid request"),
        (b'{"subscribe": 1}', r"invalid request.*\$\.subscribe"),
        (b'{"subcribe": true}', "subcribe"),
        (b"{}", "the request is empty"),
        (b'{"subscribe": false}', "the request is empty"),
        (b'{"subscribe": true, "status": true}', "several of subscribe"),
        (b'{"hold": {"name": "a"}}', "within"),
    ],
)
def test_what_cannot_be_understood_is_refused(line: bytes, sentence: str) -> None:
    """Garbage, wrong types, unknown keys, nothing, and two requests at once."""
    with pytest.raises(BadInput, match=sentence):
        read_request(line)


@given(some.binary(max_size=200))
def test_no_line_brings_anything_but_a_sentence(line: bytes) -> None:
    """Whatever the bytes."""
    with suppress(BadInput):
        read_request(line)


def test_what_is_not_said_is_left_out() -> None:
    """An answer is as short as it can be."""
    assert write_line(LocalSuccess(ok=True)) == b'{"ok":true}\n'
    assert write_line(LocalSuccess(ok=True, held=())) == b'{"ok":true,"held":[]}\n'
