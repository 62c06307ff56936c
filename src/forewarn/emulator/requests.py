"""Log of the requests that callers sent, with the status of each response."""

from collections import deque
from collections.abc import Callable
from datetime import datetime
from urllib.parse import parse_qsl, urlsplit

import msgspec

from forewarn.wire import approval
from forewarn.wire.bodies import BadBody

_KEPT = 10_000


class SentRequest(msgspec.Struct, kw_only=True):
    """One request as it was received."""

    at: datetime
    vm: str
    """The VM that sent it."""
    method: str
    target: str
    headers: dict[str, str]
    """By name in lower case; repeated headers are joined by commas."""
    body: bytes = b""
    status: int = 0
    """Status of the response; 0 before it."""
    faults: tuple[str, ...] = ()
    """The faults that were injected."""

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def api_version(self) -> str:
        query = {key.lower(): value for key, value in parse_qsl(urlsplit(self.target).query)}
        return query.get("api-version", "")

    @property
    def approves(self) -> tuple[str, ...]:
        """The ids of the events it approves, in lower case; empty if it is not an approval."""
        try:
            return approval.parse(self.body).events if self.method == "POST" else ()
        except BadBody:
            return ()


class RequestLog:
    """The latest requests, in order."""

    def __init__(self) -> None:
        self.sent: deque[SentRequest] = deque(maxlen=_KEPT)
        self.changed: Callable[[SentRequest], None] = lambda _: None
        """Called when a request has arrived, and when it was answered."""

    def arrived(self, request: SentRequest) -> None:
        self.sent.append(request)
        self.changed(request)

    def answered(self, request: SentRequest, status: int) -> None:
        request.status = status
        self.changed(request)


def read_headers(head: bytes) -> dict[str, str]:
    """Return the headers of a well-formed head."""
    headers: dict[str, str] = {}
    for line in head.split(b"\r\n")[1:]:
        name, colon, value = line.decode("latin-1").partition(":")
        if colon:
            key = name.lower()
            headers[key] = f"{headers[key]}, {value.strip()}" if key in headers else value.strip()
    return headers
