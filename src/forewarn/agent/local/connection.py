"""One connection of a program to the local socket; bounded, so that it cannot delay other connections."""

import asyncio
from collections.abc import Callable

from forewarn.agent.decision.holds import Holder
from forewarn.agent.local.protocol import LONGEST_LINE, LocalProblem, write_line

MOST_WAITING = 512 * 1024
"""Bytes buffered for a program that does not read."""
LINES_AT_ONCE = 32
"""Lines of one connection that are processed before other connections."""
LAST_WORDS = 2.0
"""Seconds in which a program can read the error before the connection is aborted."""


class LocalConnection(asyncio.Protocol):
    """Connection of one program; closed when a line is too long or the program does not read."""

    def __init__(
        self,
        enter: Callable[["LocalConnection"], None],
        hear: Callable[["LocalConnection", bytes], None],
        leave: Callable[["LocalConnection"], None],
    ) -> None:
        self.is_trusted = False
        self.is_subscribed = False
        self.holders: dict[str, Holder] = {}
        self._enter = enter
        self._hear = hear
        self._leave = leave
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._is_over = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 the server makes no other
        self._transport = transport
        transport.set_write_buffer_limits(high=MOST_WAITING)
        self._enter(self)

    def data_received(self, data: bytes) -> None:
        self._received += data
        self._hear_some()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_over = True
        self._transport = None
        self._received.clear()
        self._leave(self)

    def say(self, line: bytes) -> None:
        """Send a line, or close the connection if too many lines are unread."""
        if self._transport is None or self._is_deaf():
            return
        if self._transport.get_write_buffer_size() + len(line) > MOST_WAITING:
            self.dismiss("too much data is unread; reconnect and read faster")
        else:
            self._transport.write(line)

    def dismiss(self, reason: str) -> None:
        """Send the reason and close the connection."""
        if self._transport is None or self._is_deaf():
            return
        self._is_over = True
        self._received.clear()
        self._transport.write(write_line(LocalProblem(reason)))
        self._transport.close()
        asyncio.get_running_loop().call_later(LAST_WORDS, self.abort)

    def abort(self) -> None:
        """Close the connection at once."""
        self._is_over = True
        if self._transport is not None:
            self._transport.abort()

    def _hear_some(self) -> None:
        for _ in range(LINES_AT_ONCE):
            if self._is_deaf():
                return
            end = self._received.find(b"\n", 0, LONGEST_LINE + 1)
            if end < 0:
                if len(self._received) > LONGEST_LINE:
                    self.dismiss(f"a line is longer than {LONGEST_LINE} bytes")
                else:
                    self._listen_on()
                return
            line = bytes(self._received[:end])
            del self._received[: end + 1]
            if line.strip():
                self._hear(self, line)
        if self._transport is not None and not self._is_deaf():
            self._transport.pause_reading()
            asyncio.get_running_loop().call_soon(self._hear_some)

    def _is_deaf(self) -> bool:
        """Tell whether nothing more can be sent, as after a write to a closed connection."""
        return self._is_over or self._transport is None or self._transport.is_closing()

    def _listen_on(self) -> None:
        if self._transport is not None and not self._transport.is_reading():
            self._transport.resume_reading()
