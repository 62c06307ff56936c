"""What a conversation asks of whoever moves the bytes, and what it is told. Nothing here touches the world.

A conversation is a generator: it yields the next step, is sent what came of it, and returns what it was for.
"""

from collections.abc import Callable, Generator, Iterator
from typing import TypeAlias, TypeVar

import msgspec

from forewarn.client.endpoint_url import EndpointUrl
from forewarn.http.codec import HttpRequest

_Result = TypeVar("_Result")

CONNECT = 3.0
"""Seconds until a connection must stand: the service is never far away."""

REST = 5.0
"""Seconds in which an answer that has begun must be whole: services may think for long, but they speak fast."""


GLANCE = 0.25
"""Seconds after which a pause looks whether it is over early."""


class NoResponse(msgspec.Struct, frozen=True):
    """No answer came."""

    why: str
    """What was seen of it, as part of a sentence: "refuses the connection"."""
    connected: bool = True
    in_time: bool = True
    """False when time ran out; else the connection ended, or never stood."""
    garbled: bool = False
    """Something came, but no HTTP."""


class SendRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Send a request; the reply is an Answer or Silence."""

    endpoint: EndpointUrl
    method: str = "GET"
    target: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    seconds: float
    """How long the answer may take once the connection stands; once it has begun, it has ``REST`` at most."""

    @property
    def http_request(self) -> HttpRequest:
        """The request with the headers that every service wants; services ignore the content type."""
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
    """Do nothing for so long, or until something holds, which is looked at every ``GLANCE``; the reply is None."""

    seconds: float
    until: Callable[[], bool] | None = None

    def slices(self, seconds: Callable[[], float]) -> Iterator[float]:
        """Yield how long to wait next, until the pause is over."""
        end = seconds() + self.seconds
        while (left := end - seconds()) > 0 and not (self.until and self.until()):
            yield min(left, GLANCE) if self.until else left


class CallBlocking(msgspec.Struct, frozen=True):
    """Call something that takes time and does not converse, such as reading files; the reply is what it returns."""

    call: Callable[[], object]


SessionStep: TypeAlias = SendRequest | Pause | CallBlocking
StepResult: TypeAlias = object
Steps: TypeAlias = Generator[SessionStep, StepResult, _Result]
