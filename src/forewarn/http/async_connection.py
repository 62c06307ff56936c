"""An asyncio HTTP connection over TCP or TLS: kept open, one request at a time, bodies whole or in pieces."""

import asyncio
from asyncio import create_task
from collections.abc import AsyncIterator
from math import inf
from typing import TYPE_CHECKING

from forewarn.http.codec import HttpCodec, HttpRequest, HttpResponse
from forewarn.http.connection import ConnectionEnded

if TYPE_CHECKING:
    import ssl

_CHUNK = 65_536


class AsyncHttpConnection:
    """A connection to one host. After an error, or a request that was left in the middle, it must be closed.

    Every method raises OSError where the network fails, and MalformedResponse where the answer is no HTTP.
    """

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, largest: int | None = None
    ) -> None:
        self.codec = HttpCodec(largest)
        self._reader = reader
        self._writer = writer
        self._is_whole = True
        self._is_spoiled = False
        """Whether a request was not sent whole."""
        self.has_received = False
        """Whether the server ever answered anything."""

    @classmethod
    async def open(
        cls, host: str, port: int, tls: "ssl.SSLContext | None", seconds: float, largest: int | None = None
    ) -> "AsyncHttpConnection":
        """Connect within so many seconds. Without a limit of bodies in bytes they are to be read in pieces."""
        async with asyncio.timeout(seconds):
            return cls(*await asyncio.open_connection(host, port, ssl=tls), largest)

    @property
    def is_reusable(self) -> bool:
        """Whether another request may be sent: the last response is whole, and the server has not hung up."""
        is_free = self._is_whole and self.codec.is_open and not self._is_spoiled
        return is_free and not self._reader.at_eof() and not self._writer.is_closing()

    async def exchange(self, request: HttpRequest, seconds: float, rest: float) -> HttpResponse:
        """Send a request, and return its whole response: within ``seconds``, and ``rest`` after its first byte."""
        self._is_whole = False
        async with asyncio.timeout(seconds) as limit:
            self._writer.write(self.codec.encode(request))
            await self._writer.drain()
            response = await self._receive()
            limit.reschedule(min(limit.when() or inf, asyncio.get_running_loop().time() + rest))
            while response is None:
                response = await self._receive()
        return response

    async def start(self, request: HttpRequest, body: AsyncIterator[bytes] | None = None) -> int:
        """Send a request, and return the status of its response.

        With ``body`` the request's headers say how it is framed: ``Transfer-Encoding: chunked``, or its length.
        The server may answer before it has read all of the body; the rest is then not sent.
        """
        self._is_whole = False
        self._writer.write(self.codec.encode(request))
        if body is None:
            return await self._receive_head()
        sending, receiving = create_task(self._send(request, body)), create_task(self._receive_head())
        try:
            await asyncio.wait({sending, receiving}, return_when=asyncio.FIRST_COMPLETED)
            if not receiving.done():
                await sending
            return await receiving
        finally:
            self._is_spoiled = not sending.done()
            sending.cancel()
            receiving.cancel()

    async def read(self) -> bytes:
        """Return what comes next of the body of the response; nothing at its end."""
        while not (data := self.codec.take_body()) and not self._is_whole:
            await self._receive()
        return data

    def close(self) -> None:
        """Close at once: the server is owed nothing."""
        self._writer.transport.abort()

    async def _send(self, request: HttpRequest, body: AsyncIterator[bytes]) -> None:
        is_chunked = any(name.lower() == "transfer-encoding" for name, _ in request.headers)
        async for data in body:
            if data:
                self._writer.write(b"%x\r\n%b\r\n" % (len(data), data) if is_chunked else data)
                await self._writer.drain()
        if is_chunked:
            self._writer.write(b"0\r\n\r\n")

    async def _receive_head(self) -> int:
        while not self.codec.status:
            await self._receive()
        return self.codec.status

    async def _receive(self) -> HttpResponse | None:
        data = await self._reader.read(_CHUNK)
        self.has_received |= bool(data)
        response = self.codec.feed(data)
        self._is_whole = response is not None
        if not data and not self._is_whole:
            raise ConnectionEnded("closed the connection before its answer was whole")
        return response
