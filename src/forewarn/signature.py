"""Signatures after Standard Webhooks, by which a receiver knows that a message is ours, whole and fresh.

    webhook-id: 4711-0
    webhook-timestamp: 1767225600
    webhook-signature: v1,<base64 of HMAC-SHA256(key, "4711-0.1767225600." + body)>

A secret is written ``whsec_`` and the base64 of its 24 to 64 bytes.
"""

import hmac
from base64 import b64decode, b64encode
from collections.abc import Mapping
from datetime import datetime, timedelta

from forewarn.core.errors import BadInput, NotAllowed

PREFIX = "whsec_"
_SHORTEST, _LONGEST = 24, 64
FORMAT = f"{PREFIX} and the base64 of {_SHORTEST} to {_LONGEST}"
"""How a secret is written; the word for the bytes follows."""
_TOLERANCE = timedelta(minutes=5)


def key_of(secret: str) -> bytes:
    """Return the bytes that a secret stands for; raise BadInput when it is not written as it should be."""
    try:
        key = b64decode(secret.removeprefix(PREFIX), validate=True)
    except ValueError:
        key = b""
    if not secret.startswith(PREFIX) or not _SHORTEST <= len(key) <= _LONGEST:
        raise BadInput(f"a signing secret is {FORMAT} bytes; leave it out, and one is drawn")
    return key


def sign(secret: str, id: str, at: datetime, body: bytes) -> dict[str, str]:
    """Return the headers that a message is sent with."""
    timestamp = str(int(at.timestamp()))
    return {
        "webhook-id": id,
        "webhook-timestamp": timestamp,
        "webhook-signature": _signature(key_of(secret), id, timestamp, body),
    }


def verify(
    secret: str, headers: Mapping[str, str], body: bytes, now: datetime, tolerance: timedelta = _TOLERANCE
) -> None:
    """Raise NotAllowed unless the message is what the owner of the secret sent, just now."""
    given = {name.lower(): value for name, value in headers.items()}
    try:
        id_, timestamp, signatures = (given[f"webhook-{name}"] for name in ("id", "timestamp", "signature"))
    except KeyError as missing:
        raise NotAllowed(f"the message has no header {missing.args[0]}") from None
    expected = _signature(key_of(secret), id_, timestamp, body).encode()
    # Several stand there while a secret is being replaced.
    if not any(hmac.compare_digest(expected, each.encode()) for each in signatures.split(" ")):
        raise NotAllowed("the message is not signed with this secret")
    if not timestamp.isascii() or not timestamp.isdigit():
        raise NotAllowed("the message's timestamp is not a number")
    if abs(int(now.timestamp()) - int(timestamp)) > tolerance.total_seconds():
        raise NotAllowed("the message was sent too long ago, or its sender's clock is wrong")


def _signature(key: bytes, id: str, timestamp: str, body: bytes) -> str:
    digest = hmac.digest(key, f"{id}.{timestamp}.".encode() + body, "sha256")
    return f"v1,{b64encode(digest).decode()}"
