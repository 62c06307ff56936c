"""One connection of a program to the local socket; bounded, so that it cannot delay other connections."""

import asyncio
from collections.abc import Callable

from forewarn.agent.decision.holds import Holder
from forewarn.agent.local.protocol import LONGEST_LINE, LocalProblem, write_line

MOST_WAITING = 512 * 1024
"""Bytes buffered for a program that does not read."""
LINES_AT_ONCE = 32
"""Lines of one connection that are processed before other connections."""
CLOSE_TIMEOUT = 2.0
"""Seconds in which a program can read the error before the connection is aborted."""


class LocalConnection(asyncio.Protocol):
    """Connection of one program; closed when a line is too long or the program does not read."""

    def __init__(
        self,
        on_connect: Callable[["LocalConnection"], None],
        on_line: Callable[["LocalConnection", bytes], None],
        on_disconnect: Callable[["LocalConnection"], None],
        close_timeout: float,
    ) -> None:
        self.is_trusted = False
        self.is_subscribed = False
        self.holders: dict[str, Holder] = {}
        self._on_connect = on_connect
        self._on_line = on_line
        self._on_disconnect = on_disconnect
        self._close_timeout = close_timeout
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._is_over = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 the server makes no other
        self._transport = transport
        transport.set_write_buffer_limits(high=MOST_WAITING)
        self._on_connect(self)

    def data_received(self, data: bytes) -> None:
        self._received += data
        self._process_lines()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_over = True
        self._transport = None
        self._received.clear()
        self._on_disconnect(self)

    def send_line(self, line: bytes) -> None:
        """Send a line, or close the connection if too many lines are unread."""
        if self._transport is None or self._is_closing():
            return
        if self._transport.get_write_buffer_size() + len(line) > MOST_WAITING:
            self.close_with_error("too much data is unread; reconnect and read faster")
        else:
            self._transport.write(line)

    def close_with_error(self, reason: str) -> None:
        """Send the reason and close the connection."""
        if self._transport is None or self._is_closing():
            return
        self._is_over = True
        self._received.clear()
        self._transport.write(write_line(LocalProblem(reason)))
        self._transport.close()
        asyncio.get_running_loop().call_later(self._close_timeout, self.abort)

    def abort(self) -> None:
        """Close the connection at once."""
        self._is_over = True
        if self._transport is not None:
            self._transport.abort()

    def _process_lines(self) -> None:
        for _ in range(LINES_AT_ONCE):
            if self._is_closing():
                return
            end = self._received.find(b"\n", 0, LONGEST_LINE + 1)
            if end < 0:
                if len(self._received) > LONGEST_LINE:
                    self.close_with_error(f"a line is longer than {LONGEST_LINE} bytes")
                else:
                    self._resume_reading()
                return
            line = bytes(self._received[:end])
            del self._received[: end + 1]
            if line.strip():
                self._on_line(self, line)
        if self._transport is not None and not self._is_closing():
            self._transport.pause_reading()
            asyncio.get_running_loop().call_soon(self._process_lines)

    def _is_closing(self) -> bool:
        """Return whether nothing more can be sent, as after a write to a closed connection."""
        return self._is_over or self._transport is None or self._transport.is_closing()

    def _resume_reading(self) -> None:
        if self._transport is not None and not self._transport.is_reading():
            self._transport.resume_reading()
