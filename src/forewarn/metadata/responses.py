"""Serialization of HTTP responses. Header lines that all responses of one second share are rendered once a second."""

from datetime import datetime

from forewarn.metadata.request import CLOSE, KEEP_ALIVE, OPEN
from forewarn.wire.bodies import JSON
from forewarn.wire.error_responses import REASONS, ErrorResponse

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"

_CONNECTION = {
    OPEN: b"",
    CLOSE: b"Connection: close\r\n",
    KEEP_ALIVE: b"Connection: keep-alive\r\n",
}


class ThrottledResponse(bytes):
    """Response to a throttled or unknown caller; delays its next request."""

    __slots__ = ()
    pause = 0.05
    """Delay in seconds."""


class CommonHeaders:
    """Header lines common to all responses, rendered for the current second."""

    documents: tuple[bytes, ...]
    """The head of a document up to its tag, by the request's ``ending``."""
    not_modified: tuple[bytes, ...]
    """The head of a 304 up to its tag, by the request's ``ending``."""

    def __init__(self, now: datetime) -> None:
        self.is_closing = False
        self.refusals: dict[int, int] = {}
        """Number of error responses since the start, by status."""
        self.stamp(now)

    def stamp(self, now: datetime) -> None:
        """Render the header lines for the current second."""
        # Azure: Content-Type, Server and Date are in this order.
        self._dated = b"Server: Forewarn\r\nDate: " + http_date(now).encode() + b"\r\n"
        endings = (_CONNECTION[CLOSE],) * len(_CONNECTION) if self.is_closing else _CONNECTION.values()
        document, not_modified = _OK + self._dated, _NOT_MODIFIED + self._dated
        self.documents = tuple(b'%b%bETag: "' % (document, ending) for ending in endings)
        self.not_modified = tuple(b'%b%bETag: "' % (not_modified, ending) for ending in endings)

    def close_all(self, now: datetime) -> None:
        """Send ``Connection: close`` in every response from now on."""
        self.is_closing = True
        self.stamp(now)

    def answer(self, status: int, body: bytes, ending: int, content_type: str = "", extra: bytes = b"") -> bytes:
        """Render a response; ``extra`` holds further header lines, each with its line end."""
        return b"%b%bContent-Length: %d\r\n\r\n%b" % (
            self._head(status, ending, content_type),
            extra,
            len(body),
            body,
        )

    def refusal(self, problem: ErrorResponse, ending: int, extra: bytes = b"") -> bytes:
        self.refusals[problem.status] = self.refusals.get(problem.status, 0) + 1
        return self.answer(problem.status, problem.body, ending, JSON, extra)

    def _head(self, status: int, ending: int, content_type: str = "") -> bytes:
        return _begin(status, content_type) + self._dated + _CONNECTION[CLOSE if self.is_closing else ending]


def http_date(now: datetime) -> str:
    """Return a time in UTC as HTTP writes it."""
    date = f"{_DAYS[now.weekday()]}, {now.day:02} {_MONTHS[now.month - 1]} {now.year:04}"
    return f"{date} {now.hour:02}:{now.minute:02}:{now.second:02} GMT"


def _begin(status: int, content_type: str = "") -> bytes:
    """Render the head of a response up to the lines that all responses of one second share."""
    return b"HTTP/1.1 %d %b\r\n%b" % (
        status,
        REASONS[status].encode(),
        b"Content-Type: %b\r\n" % content_type.encode() if content_type else b"",
    )


_OK = _begin(200, JSON)
_NOT_MODIFIED = _begin(304)


def without_body(answer: bytes) -> bytes:
    """Return the response to HEAD, given the response to GET."""
    return answer[: answer.index(b"\r\n\r\n") + 4]
