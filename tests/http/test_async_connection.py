"""The asyncio HTTP connection: whole bodies, bodies in pieces in both directions, and when it can be used again."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from forewarn.http.async_connection import AsyncHttpConnection
from forewarn.http.codec import HttpRequest, MalformedResponse
from forewarn.http.connection import ConnectionEnded
from tests.metadata.harness import on_both_loops

CHUNKED = HttpRequest(method="POST", target="/", host="h", headers=(("Transfer-Encoding", "chunked"),))
Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def connected(talk: Talk, largest: int | None = None) -> AsyncIterator[AsyncHttpConnection]:
    """Connect to a server that talks like this."""
    over = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError):
            await talk(reader, writer)
            await reader.read()
        writer.close()
        over.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        connection = await AsyncHttpConnection.open("127.0.0.1", port, None, 5, largest)
        try:
            yield connection
        finally:
            connection.close()
            await over.wait()


async def pieces(*given: bytes) -> AsyncIterator[bytes]:
    for each in given:
        yield each


@on_both_loops
async def test_a_body_is_sent_in_chunks_and_read_in_pieces() -> None:
    """Then the connection can be used again."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await reader.readuntil(b"\r\n\r\n")
            assert await reader.readuntil(b"0\r\n\r\n") == b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"
            writer.write(b"HTTP/1.1 201 Created\r\nA: b\r\nContent-Length: 4\r\n\r\ndone")

    async with connected(talk) as connection:
        for _ in range(2):
            assert await connection.start(CHUNKED, pieces(b"one", b"", b"two")) == 201
            assert connection.codec.fields[0] == ("A", "b")
            assert await connection.read() == b"done"
            assert await connection.read() == b""
            assert connection.is_reusable


@on_both_loops
async def test_an_answer_before_the_whole_body_ends_the_sending() -> None:
    """The connection cannot be used again: the server still waits for the rest."""

    async def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 421 No\r\nContent-Length: 0\r\n\r\n")

    async def endless() -> AsyncIterator[bytes]:
        yield b"one"
        await asyncio.Future()

    async with connected(talk) as connection:
        assert await connection.start(CHUNKED, endless()) == 421
        assert await connection.read() == b""
        assert not connection.is_reusable


@on_both_loops
async def test_a_body_that_fails_ends_the_request() -> None:
    """Whoever sent it has gone: nobody waits for an answer."""

    async def talk(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    async def broken() -> AsyncIterator[bytes]:
        yield b"one"
        raise ValueError("gone")

    async with connected(talk) as connection:
        with pytest.raises(ValueError, match="gone"):
            await connection.start(CHUNKED, broken())
        assert not connection.is_reusable


@on_both_loops
async def test_a_server_that_hangs_up_has_not_answered() -> None:
    """The caller learns that nothing came."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.close()

    async with connected(talk) as connection:
        with pytest.raises(ConnectionEnded):
            await connection.start(HttpRequest(target="/", host="h"))
        assert not connection.has_received
        assert not connection.is_reusable


@on_both_loops
async def test_a_response_is_read_whole() -> None:
    """The connection can be used again; a body beyond the limit is refused."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for length in (4, 4, 5):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % length + b"x" * length)

    async with connected(talk, largest=4) as connection:
        for _ in range(2):
            assert (await connection.exchange(HttpRequest(target="/", host="h"), 5, 5)).body == b"xxxx"
            assert connection.is_reusable
        with pytest.raises(MalformedResponse):
            await connection.exchange(HttpRequest(target="/", host="h"), 5, 5)


@on_both_loops
async def test_the_rest_of_a_response_has_a_limit_of_its_own() -> None:
    """A server that stops in the middle has stopped."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nx")

    async with connected(talk) as connection:
        with pytest.raises(TimeoutError):
            await connection.exchange(HttpRequest(target="/", host="h"), 600, 0.05)
