"""Signatures after Standard Webhooks."""

from base64 import b64encode
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.core.errors import BadInput, NotAllowed
from forewarn.signature import key_of, sign, verify

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # noqa: S105 - everybody may know it
OTHER = "whsec_" + b64encode(bytes(32)).decode()
BODY = b'{"test": 2432232314}'
AT = datetime.fromtimestamp(1614265330, UTC)
# Computed with: openssl dgst -sha256 -mac HMAC -macopt hexkey:... -binary | base64
SIGNED = {
    "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
    "webhook-timestamp": "1614265330",
    "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
}


def test_a_message_is_signed_as_others_would_sign_it() -> None:
    """The headers are those that openssl computes."""
    assert sign(SECRET, SIGNED["webhook-id"], AT, BODY) == SIGNED


def test_what_was_signed_is_verified() -> None:
    """However the headers are spelled, and beside signatures by other secrets."""
    verify(SECRET, {name.title(): value for name, value in SIGNED.items()}, BODY, AT)
    verify(SECRET, SIGNED | {"webhook-signature": f"v1a,x v1,AAAA {SIGNED['webhook-signature']}"}, BODY, AT)


@pytest.mark.parametrize(
    ("headers", "body", "secret"),
    [
        (SIGNED, b'{"test": 2432232315}', SECRET),
        (SIGNED, BODY, OTHER),
        (SIGNED | {"webhook-id": "msg_x"}, BODY, SECRET),
        (SIGNED | {"webhook-timestamp": "1614265331"}, BODY, SECRET),
        (SIGNED | {"webhook-signature": "v1,é"}, BODY, SECRET),
        (SIGNED | {"webhook-signature": ""}, BODY, SECRET),
    ],
)
def test_whatever_was_altered_is_refused(headers: dict[str, str], body: bytes, secret: str) -> None:
    """Body, id, time and secret are all part of the signature."""
    with pytest.raises(NotAllowed, match="not signed with this secret"):
        verify(secret, headers, body, AT)


@pytest.mark.parametrize("name", SIGNED)
def test_a_message_without_one_of_the_headers_is_refused(name: str) -> None:
    """All three are needed, and the missing one is named."""
    with pytest.raises(NotAllowed, match=f"no header {name}"):
        verify(SECRET, {key: value for key, value in SIGNED.items() if key != name}, BODY, AT)


@pytest.mark.parametrize("minutes", [-6, 6])
def test_a_message_that_is_not_fresh_is_refused(minutes: int) -> None:
    """Whoever recorded one cannot play it again later."""
    with pytest.raises(NotAllowed, match="too long ago"):
        verify(SECRET, SIGNED, BODY, AT + timedelta(minutes=minutes))


@pytest.mark.parametrize(
    "secret", ["", "secret", "whsec_", "whsec_AAAA", "whsec_%%%%", SECRET.removeprefix("whsec_")]
)
def test_a_secret_that_is_not_written_as_it_should_be_is_refused(secret: str) -> None:
    """With how it is written."""
    with pytest.raises(BadInput, match="whsec_ and the base64 of 24 to 64 bytes"):
        key_of(secret)


@given(st.binary(min_size=24, max_size=64), st.text(max_size=9), st.binary(max_size=99))
def test_whatever_is_signed_verifies(key: bytes, id: str, body: bytes) -> None:
    """With every key, id and body."""
    secret = "whsec_" + b64encode(key).decode()

    verify(secret, sign(secret, id, AT, body), body, AT)
