"""A channel between the leader and one worker: messages over a pair of connected sockets, each after its length."""

import asyncio
import socket
from collections.abc import Callable
from typing import Protocol, cast

from forewarn.workers.messages import Message, encode

_LENGTH = 4


class MessageChannel(Protocol):
    """One end of a channel."""

    def send(self, message: Message) -> None:
        """Send a message; nothing happens if the other end is gone."""

    def send_encoded(self, body: bytes) -> None:
        """Send a message that was encoded before, for several channels at once."""

    def close(self) -> None:
        """Send what is still to be sent, then close."""


class SocketChannel(asyncio.Protocol):
    """One end of a channel over a socket."""

    def __init__(self, received: Callable[[bytes], None], closed: Callable[[], None]) -> None:
        self._received = received
        self._closed = closed
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def open(
        cls, opened: socket.socket, received: Callable[[bytes], None], closed: Callable[[], None]
    ) -> "SocketChannel":
        """Take over one end of a pair; ``received`` is called with each message, ``closed`` when no more can come."""
        loop = asyncio.get_running_loop()
        opened.setblocking(False)
        _, made = await loop.create_unix_connection(lambda: cls(received, closed), sock=opened)
        return made

    def send(self, message: Message) -> None:
        self.send_encoded(encode(message))

    def send_encoded(self, body: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(len(body).to_bytes(_LENGTH, "big") + body)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer
        buffer += data
        begin, end = 0, len(buffer)
        while end - begin >= _LENGTH:
            next_ = begin + _LENGTH + int.from_bytes(buffer[begin : begin + _LENGTH], "big")
            if next_ > end:
                break
            body = bytes(buffer[begin + _LENGTH : next_])
            begin = next_
            self._received(body)
        if begin:
            del buffer[:begin]

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._closed()
