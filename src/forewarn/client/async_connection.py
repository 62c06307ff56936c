"""The connection of the asyncio client; ``connection.py`` has the blocking one."""

import asyncio
from math import inf

from forewarn.client.connection import reason_of, timed_out
from forewarn.client.endpoint_url import EndpointUrl
from forewarn.client.steps import CONNECT, NoResponse, SendRequest
from forewarn.http.codec import HttpCodec, HttpResponse, MalformedResponse

_CHUNK = 65_536


class AsyncConnection:
    """A connection to the address of the last request; ``BlockingConnection`` is the blocking one."""

    def __init__(self) -> None:
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._codec = HttpCodec()
        self._endpoint: EndpointUrl | None = None
        self._is_ended = False

    async def exchange(self, request: SendRequest) -> HttpResponse | NoResponse:
        reused = self._streams is not None and self._endpoint == request.endpoint and self._codec.is_open
        reply = await self._exchange(request)
        if reused and isinstance(reply, NoResponse) and reply.in_time and not self._codec.has_received:
            reply = await self._exchange(request)
        return reply

    def end(self) -> None:
        """Close for good; a request that waits in another task ends."""
        self._is_ended = True
        self.close()

    def close(self) -> None:
        streams, self._streams = self._streams, None
        if streams is not None:
            streams[1].close()

    async def _exchange(self, request: SendRequest) -> HttpResponse | NoResponse:
        if self._streams is None or self._endpoint != request.endpoint or not self._codec.is_open:
            silence = await self._connect(request.endpoint)
            if silence:
                return silence
        try:
            async with asyncio.timeout(request.seconds) as limit:
                answer = await self._talk(request, limit)
        except TimeoutError:
            self.close()
            return timed_out(request, self._codec)
        except MalformedResponse as error:
            self.close()
            return NoResponse(str(error), garbled=True)
        except OSError as error:
            self.close()
            return NoResponse(f"broke the connection ({reason_of(error)})")
        except asyncio.CancelledError:
            # The rest of the response may still arrive; the next request must not read it.
            self.close()
            raise
        if not self._codec.is_open or isinstance(answer, NoResponse):
            self.close()
        return answer

    async def _connect(self, endpoint: EndpointUrl) -> NoResponse | None:
        self.close()
        if self._is_ended:
            return NoResponse("was let go of", connected=False)
        try:
            async with asyncio.timeout(CONNECT):
                streams = await asyncio.open_connection(endpoint.host, endpoint.port)
        except TimeoutError:
            return NoResponse("cannot be reached (timed out)", connected=False)
        except (OSError, UnicodeError) as error:
            return NoResponse(f"cannot be reached ({reason_of(error)})", connected=False)
        self._streams, self._codec, self._endpoint = streams, HttpCodec(), endpoint
        self._close_if_ended()
        return None

    def _close_if_ended(self) -> None:
        if self._is_ended:
            self.close()

    async def _talk(self, request: SendRequest, limit: asyncio.Timeout) -> HttpResponse | NoResponse:
        if self._streams is None:
            return NoResponse("was let go of")
        reader, writer = self._streams
        codec = self._codec
        writer.write(codec.encode(request.http_request))
        await writer.drain()
        while True:
            data = await reader.read(_CHUNK)
            if not codec.has_received:
                limit.reschedule(min(limit.when() or inf, asyncio.get_running_loop().time() + request.rest))
            answer = codec.feed(data)
            if answer is not None:
                return answer
            if not data:
                return NoResponse("closed the connection before its answer was whole")
