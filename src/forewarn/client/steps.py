"""Steps of a session, and their results. No I/O.

The methods of a session are generators: they yield the next step, receive its result, and return the final result.
"""

from collections.abc import Callable, Generator, Iterator
from typing import TypeAlias, TypeVar

import msgspec

from forewarn.client.endpoint_url import EndpointUrl
from forewarn.http.codec import HttpRequest

_Result = TypeVar("_Result")

CONNECT = 3.0
"""Time limit in seconds for opening a connection: the service is close."""

REST = 5.0
"""Time limit in seconds for the rest of a response that has begun."""


GLANCE = 0.25
"""Interval in seconds at which a pause checks whether it can end early."""


class NoResponse(msgspec.Struct, frozen=True):
    """There is no response."""

    why: str
    """The reason as a predicate: "refuses the connection"."""
    connected: bool = True
    in_time: bool = True
    """False after a timeout; else the connection was closed or never opened."""
    garbled: bool = False
    """The response is not HTTP."""


class SendRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Send a request; the result is a response or NoResponse."""

    endpoint: EndpointUrl
    method: str = "GET"
    target: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    seconds: float
    """Time limit in seconds for the beginning of the response."""
    rest: float = REST
    """Time limit in seconds for the rest of the response."""

    @property
    def http_request(self) -> HttpRequest:
        """The request with the headers that every service requires; services ignore the content type."""
        is_post = self.method == "POST"
        content = (("Content-Type", "application/json"),) if is_post else ()
        return HttpRequest(
            method=self.method,
            target=self.target,
            host=self.endpoint.authority,
            headers=(("Metadata", "true"), ("User-Agent", "forewarn"), *self.headers, *content),
            body=self.body if is_post else None,
        )


class Pause(msgspec.Struct, frozen=True):
    """Wait, or until a condition is true, which is checked every ``GLANCE``; the result is None."""

    seconds: float
    until: Callable[[], bool] | None = None

    def slices(self, seconds: Callable[[], float]) -> Iterator[float]:
        """Yield the next waiting times until the pause is over."""
        end = seconds() + self.seconds
        while (left := end - seconds()) > 0 and not (self.until and self.until()):
            yield min(left, GLANCE) if self.until else left


class CallBlocking(msgspec.Struct, frozen=True):
    """Call a blocking function, such as reading files; the result is its return value."""

    call: Callable[[], object]


SessionStep: TypeAlias = SendRequest | Pause | CallBlocking
StepResult: TypeAlias = object
Steps: TypeAlias = Generator[SessionStep, StepResult, _Result]
