"""One HTTP connection: parses received bytes, sends responses in order. ``fast_path.py`` serves plain requests.

    receiving --a complete request--> answering --answered--> receiving
        |                                 |
        +--not HTTP, or too slow----------+--last response--> closing: lets the caller read, then closes

Most requests are answered immediately; the state "answering" is then skipped.
"""

import asyncio
from enum import IntEnum
from typing import TYPE_CHECKING, cast

from forewarn.metadata.fast_path import NO_HANDOFF, Handoff
from forewarn.metadata.http_grammar import (
    BODY_LIMIT,
    HEAD_LIMIT,
    NO_BODY,
    Refusal,
    RequestBody,
    body_of,
    find_end,
    skip_empty_lines,
)
from forewarn.metadata.long_poll import LongPoll
from forewarn.metadata.request import CLOSE, MetadataRequest
from forewarn.metadata.responses import CONTINUE, ThrottledResponse
from forewarn.metadata.timer_wheel import NEVER
from forewarn.wire import error_responses
from forewarn.wire.error_responses import ErrorResponse

if TYPE_CHECKING:
    from forewarn.metadata.connections import ConnectionRegistry

_AHEAD = BODY_LIMIT + HEAD_LIMIT
"""Bytes of later requests that are buffered while an earlier one is being answered."""
_IN_A_ROW = 32
"""Requests of one connection that are answered before other connections are served."""
_UNREAD = 64 * 1024
"""Unread response bytes beyond which no further request is answered."""


class HttpConnectionState(IntEnum):
    """State of a connection."""

    RECEIVING = 0
    ANSWERING = 1
    CLOSING = 2


class HttpConnection(asyncio.Protocol):
    """One connection with one caller; it may start with bytes received or bytes to send (``Handoff``)."""

    # fmt: off
    __slots__ = (
        "_answer",
        "_body",
        "_handoff",
        "_idle",
        "_is_choked",
        "_is_ended",
        "_is_free",
        "_is_hurried",
        "_is_resting",
        "_long_poll",
        "_read_single",
        "_received",
        "_registry",
        "_request",
        "_seen",
        "_state",
        "_timer_wheel",
        "_transport",
        "_write",
        "_young",
        "address",
        "bucket",
        "expires",
    )
    # fmt: on
    _transport: asyncio.Transport

    def __init__(self, registry: "ConnectionRegistry", address: str, handoff: Handoff = NO_HANDOFF) -> None:
        self._registry = registry
        self.address = address
        self._answer = registry.answer
        self._young = registry.request_cache.young
        self._read_single = registry.read_single
        self._timer_wheel = registry.service.timer_wheel
        self._received = bytearray(handoff.received)
        self._seen = 0
        """Number of received bytes already searched for the end of a head."""
        self._handoff = handoff
        self._body: RequestBody | None = None
        self._request: MetadataRequest | None = None
        """The request with a body still arriving, or the one being answered."""
        self._long_poll: LongPoll | None = None
        self._state = HttpConnectionState.RECEIVING
        self._is_free = not handoff.received
        """Idle: no request is partly received, partly answered or delayed, so new bytes begin a new request."""
        self._is_choked = False
        """The caller does not read its responses."""
        self._is_resting = handoff.is_throttled
        """The next request is delayed to let other connections be served."""
        self._is_ended = False
        """The caller has closed its sending side."""
        self._is_hurried = False
        """A request has begun to arrive and must be complete before the deadline."""
        self._idle = registry.limits.idle
        self.expires = self._timer_wheel.now + self._idle
        self.bucket = 0
        registry.enter(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast("asyncio.Transport", transport)
        self._write = transport.write
        transport.set_write_buffer_limits(high=_UNREAD)
        self._timer_wheel.put(self)
        handoff, self._handoff = self._handoff, NO_HANDOFF
        if handoff.unsent:
            transport.write(handoff.unsent)
        if handoff.is_last:
            self._leave()
        elif self._is_resting:
            self._rest(ThrottledResponse.pause)
        elif self._received:
            self._proceed()

    def data_received(self, data: bytes) -> None:
        if self._is_free:
            request = self._young.get(data) or self._read_single(data)
            if request is not None:
                answer = self._answer(request, b"", self.address, self)
                if type(answer) is bytes and not request.is_last:
                    self.expires = self._timer_wheel.now + self._idle
                    self._write(answer)
                else:
                    self._take(request, answer)
                return
        if self._state is not HttpConnectionState.CLOSING:
            self._received += data
            self._proceed()

    def _proceed(self) -> None:
        """Answer as many of the received requests as possible now."""
        served = 0
        try:
            while self._state is HttpConnectionState.RECEIVING and not self._is_choked and not self._is_resting:
                if not self._receive():
                    break
                served += 1
                if served == _IN_A_ROW and self._received:
                    self._rest()
        except Refusal as refusal:
            self._refuse(refusal.problem)
        if self._state is HttpConnectionState.CLOSING:
            return
        is_waiting = self._state is HttpConnectionState.ANSWERING or self._is_choked or self._is_resting
        self._is_free = not (is_waiting or self._received or self._body)
        if not is_waiting and self._is_ended:
            self._transport.close()
        elif is_waiting and len(self._received) > _AHEAD:
            self._transport.pause_reading()

    def _rest(self, seconds: float = 0.0) -> None:
        """Let other connections be served before the next of many requests."""
        self._is_resting = True
        self._is_free = False
        asyncio.get_running_loop().call_later(seconds, self._awake)

    def _awake(self) -> None:
        self._is_resting = False
        if self._state is not HttpConnectionState.CLOSING:
            self._transport.resume_reading()
            self._proceed()

    def _receive(self) -> bool:
        """Take one request from the received bytes and answer it; return whether a complete one was there."""
        if self._body is None and not self._receive_head():
            return False
        if self._body is not None:
            body = self._body.take(self._received)
            if body is None:
                return False
            self._body = None
        else:
            body = b""
        assert self._request is not None  # noqa: S101 - its head was just read
        self._take(self._request, self._answer(self._request, body, self.address, self))
        return True

    def _receive_head(self) -> bool:
        received = self._received
        if received.startswith(b"\r\n"):
            skip_empty_lines(received)
            self._seen = 0
        end = find_end(received, self._seen)
        if not end:
            self._seen = len(received)
            if received:
                self._hurry()
            return False
        self._seen = 0
        block = bytes(received[:end])
        del received[:end]
        self._request, head = self._registry.request_cache.read(block)
        if head is not None and head.length != NO_BODY:
            self._body = body_of(head.length)
            self._is_hurried = False
            self._hurry()
            if head.expects_continue and not received:
                self._write(CONTINUE)
        return True

    def _hurry(self) -> None:
        """Set the deadline for the head or the body; more bytes do not extend it."""
        if not self._is_hurried:
            self._is_hurried = True
            self.expires = self._timer_wheel.now + self._registry.limits.arrival
            self._timer_wheel.put(self)

    def _take(self, request: MetadataRequest, answer: bytes | LongPoll | None) -> None:
        """Send the response, or keep its position in the order until it is delivered."""
        self._request = request
        self._is_hurried = False
        if isinstance(answer, bytes):
            self._send(answer)
            if isinstance(answer, ThrottledResponse) and self._state is HttpConnectionState.RECEIVING:
                self._rest(ThrottledResponse.pause)
        else:
            self._state = HttpConnectionState.ANSWERING
            self._is_free = False
            self._long_poll = answer
            self.expires = NEVER

    def deliver(self, answer: bytes) -> None:
        """Send a delayed response and continue with the requests received after it."""
        if self._state is HttpConnectionState.ANSWERING:
            self._state = HttpConnectionState.RECEIVING
            self._long_poll = None
            self._send(answer)
            self._transport.resume_reading()
            self._proceed()

    def _send(self, answer: bytes) -> None:
        # Set the timeout before sending: ``pause_writing`` may be called and set another one.
        self.expires = self._timer_wheel.now + self._idle
        self._write(answer)
        assert self._request is not None  # noqa: S101 - it was just answered
        if self._request.is_last or self._registry.is_closing:
            self._leave()
        elif self.bucket == 0:
            self._timer_wheel.put(self)

    def _refuse(self, problem: ErrorResponse) -> None:
        """Send an error and close: the start of the next request is not known."""
        self._write(self._registry.service.common_headers.refusal(problem, CLOSE))
        self._leave(is_sending=True)

    def _leave(self, *, is_sending: bool = False) -> None:
        """Close once the responses are sent; read on while the caller is still sending, so that it can read them."""
        self._state = HttpConnectionState.CLOSING
        self._is_free = False
        limits = self._registry.limits
        is_unsent = self._transport.get_write_buffer_size() > 0
        self.expires = self._timer_wheel.now + (limits.arrival if is_unsent else limits.linger)
        self._timer_wheel.put(self)
        if (is_sending or self._received) and not self._is_ended:
            self._received.clear()
            try:
                self._transport.write_eof()
            except OSError:  # the caller has disconnected already
                self._transport.abort()
        else:
            self._transport.close()

    def close_gracefully(self) -> None:
        """Close now, or after the current request: the service is stopping."""
        if self._state is HttpConnectionState.RECEIVING and not self._received and self._body is None:
            self._state = HttpConnectionState.CLOSING
            self._transport.close()
        self._is_free = False

    def abort(self) -> None:
        self._transport.abort()

    def expired(self) -> None:
        self.expires = NEVER
        if self._state is HttpConnectionState.CLOSING or self._is_choked:
            self._transport.abort()
        elif self._is_hurried:
            self._refuse(error_responses.TIMEOUT)
        else:
            self._state = HttpConnectionState.CLOSING
            self._transport.close()

    def pause_writing(self) -> None:
        self._is_choked = True
        self._is_free = False
        self._transport.pause_reading()
        self.expires = self._timer_wheel.now + self._registry.limits.arrival
        self._timer_wheel.put(self)

    def resume_writing(self) -> None:
        self._is_choked = False
        if self._state is not HttpConnectionState.CLOSING:
            self.expires = (
                NEVER if self._state is HttpConnectionState.ANSWERING else self._timer_wheel.now + self._idle
            )
            self._transport.resume_reading()
            self._proceed()

    def eof_received(self) -> bool:
        """Return whether a response is still pending; an incomplete request gets none."""
        self._is_ended = True
        if self._state is HttpConnectionState.CLOSING:
            return False
        if self._long_poll is not None:
            self._long_poll.release()  # most callers that stop sending are gone; the others get the current document
            return True
        return (
            self._state is HttpConnectionState.ANSWERING
            or self._is_choked
            or (self._is_resting and bool(self._received))
        )

    def connection_lost(self, exc: Exception | None) -> None:
        self._state = HttpConnectionState.CLOSING
        self._is_free = False
        self._timer_wheel.remove(self)
        if self._long_poll is not None:
            self._long_poll.cancel()
            self._long_poll = None
        self._registry.leave(self)
