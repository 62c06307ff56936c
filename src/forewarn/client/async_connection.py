"""The connection of the asyncio client; ``connection.py`` has the blocking one."""

from forewarn.client.connection import explain_failure, reason_of
from forewarn.client.endpoint_url import EndpointUrl
from forewarn.client.steps import CONNECT, NoResponse, SendRequest
from forewarn.http.async_connection import AsyncHttpConnection
from forewarn.http.codec import LARGEST_BODY, HttpResponse, MalformedResponse


class AsyncConnection:
    """A connection to the address of the last request; ``BlockingConnection`` is the blocking one."""

    def __init__(self) -> None:
        self._connection: AsyncHttpConnection | None = None
        self._endpoint: EndpointUrl | None = None
        self._is_ended = False

    async def exchange(self, request: SendRequest) -> HttpResponse | NoResponse:
        if (known := self._connection) is not None and self._endpoint == request.endpoint:
            reply = await self._exchange(known, request)
            is_silent = isinstance(reply, NoResponse) and reply.in_time and not known.codec.has_received
            if not is_silent:  # else the service closed the idle connection
                return reply
        opened = await self._open(request.endpoint)
        return opened if isinstance(opened, NoResponse) else await self._exchange(opened, request)

    def end(self) -> None:
        """Close for good; a request that waits in another task ends."""
        self._is_ended = True
        self._close()

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    async def _open(self, endpoint: EndpointUrl) -> AsyncHttpConnection | NoResponse:
        self._close()
        if self._is_ended:
            return NoResponse("was let go of", connected=False)
        try:
            opened = await AsyncHttpConnection.open(endpoint.host, endpoint.port, None, CONNECT, LARGEST_BODY)
        except TimeoutError:
            return NoResponse("cannot be reached (timed out)", connected=False)
        except (OSError, UnicodeError) as error:
            return NoResponse(f"cannot be reached ({reason_of(error)})", connected=False)
        self._connection, self._endpoint = opened, endpoint
        return self._ended() or opened

    def _ended(self) -> NoResponse | None:
        """Return why there is no response, where the client was closed while the connection was opened."""
        if not self._is_ended:
            return None
        self._close()
        return NoResponse("was let go of")

    async def _exchange(self, connection: AsyncHttpConnection, request: SendRequest) -> HttpResponse | NoResponse:
        is_kept = False
        try:
            response = await connection.exchange(request.http_request, request.seconds, request.rest)
            is_kept = connection.codec.is_open
        except (OSError, MalformedResponse) as error:
            return explain_failure(error, request, connection.codec)
        finally:
            # After a cancelation the rest of the response may still arrive; the next request must not read it.
            if not is_kept:
                self._close()
        return response
