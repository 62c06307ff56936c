"""The connection of the blocking client: returns a response, or the reason why there is none."""

import os
from functools import partial

from forewarn.client.endpoint_url import EndpointUrl
from forewarn.client.steps import CONNECT, NoResponse, SendRequest
from forewarn.http.codec import HttpCodec, HttpResponse, MalformedResponse
from forewarn.http.connection import ConnectionEnded, HttpClientConnection, TimeLimits, open_tcp


class BlockingConnection:
    """A connection to the address of the last request. It never uses a proxy: the service is on the VM's host."""

    def __init__(self) -> None:
        self._connection: HttpClientConnection | None = None
        self._endpoint: EndpointUrl | None = None
        self._is_ended = False

    def exchange(self, request: SendRequest) -> HttpResponse | NoResponse:
        connection = self._connection_to(request.endpoint)
        try:
            return connection.exchange(
                request.http_request, TimeLimits(connect=CONNECT, total=request.seconds, rest=request.rest)
            )
        except (OSError, UnicodeError, MalformedResponse) as error:
            if not connection.is_connected:
                return NoResponse(f"cannot be reached ({reason_of(error)})", connected=False)
            return explain_failure(error, request, connection.codec)

    def end(self) -> None:
        """Close for good; a request that waits in another thread ends."""
        self._is_ended = True
        if self._connection is not None:
            self._connection.end()
            self._connection.close()

    def _connection_to(self, endpoint: EndpointUrl) -> HttpClientConnection:
        if self._connection is None or self._endpoint != endpoint:
            if self._connection is not None:
                self._connection.close()
            self._endpoint = endpoint
            self._connection = HttpClientConnection(partial(open_tcp, endpoint.host, endpoint.port))
            if self._is_ended:
                self._connection.end()
        return self._connection


def explain_failure(error: Exception, request: SendRequest, codec: HttpCodec) -> NoResponse:
    """Return why a request that was sent has no response."""
    if isinstance(error, MalformedResponse):
        return NoResponse(str(error), garbled=True)
    if isinstance(error, TimeoutError):
        return _timed_out(request, codec)
    if isinstance(error, ConnectionEnded):
        return NoResponse(str(error))
    return NoResponse(f"broke the connection ({reason_of(error)})")


def _timed_out(request: SendRequest, codec: HttpCodec) -> NoResponse:
    if codec.has_received:
        return NoResponse(
            f"has not finished its answer within {min(request.rest, request.seconds):g} s", in_time=False
        )
    return NoResponse(f"has not answered within {request.seconds:g} s", in_time=False)


def reason_of(error: Exception) -> str:
    """Return the system's text for an error, in lower case."""
    if isinstance(error, ConnectionError) and error.errno:
        # Some errors have a text of asyncio instead of the system's.
        return os.strerror(error.errno).lower()
    said = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return said[:1].lower() + said[1:]
