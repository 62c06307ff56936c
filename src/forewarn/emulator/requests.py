"""What callers really sent: every request as it arrived, with what it was answered."""

from collections import deque
from collections.abc import Callable
from datetime import datetime
from urllib.parse import parse_qsl, urlsplit

import msgspec

from forewarn.wire import approval
from forewarn.wire.bodies import BadBody

_KEPT = 10_000


class SentRequest(msgspec.Struct, kw_only=True):
    """One request, word for word."""

    at: datetime
    vm: str
    """The VM in whose name it came."""
    method: str
    target: str
    headers: dict[str, str]
    """By name in lower case; those that came several times are joined by commas."""
    body: bytes = b""
    status: int = 0
    """What it was answered; 0 while it was not."""
    faults: tuple[str, ...] = ()
    """The faults that befell it."""

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def api_version(self) -> str:
        query = {key.lower(): value for key, value in parse_qsl(urlsplit(self.target).query)}
        return query.get("api-version", "")

    @property
    def approves(self) -> tuple[str, ...]:
        """The ids of the events it approves, in lower case; none where it is no approval."""
        try:
            return approval.parse(self.body).events if self.method == "POST" else ()
        except BadBody:
            return ()


class RequestLog:
    """The requests since the start, the latest last."""

    def __init__(self) -> None:
        self.sent: deque[SentRequest] = deque(maxlen=_KEPT)
        self.changed: Callable[[SentRequest], None] = lambda _: None
        """Called when a request has come, and when one was answered."""

    def arrived(self, request: SentRequest) -> None:
        self.sent.append(request)
        self.changed(request)

    def answered(self, request: SentRequest, status: int) -> None:
        request.status = status
        self.changed(request)


def read_headers(head: bytes) -> dict[str, str]:
    """Return the headers of a head that is known to be well-formed."""
    headers: dict[str, str] = {}
    for line in head.split(b"\r\n")[1:]:
        name, colon, value = line.decode("latin-1").partition(":")
        if colon:
            key = name.lower()
            headers[key] = f"{headers[key]}, {value.strip()}" if key in headers else value.strip()
    return headers
