"""Fast path: answers usual requests directly on the file descriptor, without an asyncio transport.

Creating a transport costs more than a whole response, and almost every request is one of three: a plain GET, a long
poll, an approval; complete, and alone. So a connection is only a watched file descriptor until other data arrives;
then it is handed off, with the received bytes, to ``http_connection.py`` and stays there.
"""

import asyncio
import os
from collections.abc import Callable
from typing import Final

import msgspec

from forewarn.metadata.connections import ConnectionRegistry
from forewarn.metadata.long_poll import NO_RECEIVER, LongPoll
from forewarn.metadata.request import MetadataRequest
from forewarn.metadata.responses import ThrottledResponse
from forewarn.metadata.timer_wheel import NEVER

_READ = 2048


class Handoff(msgspec.Struct, frozen=True):
    """State of a connection that the fast path passes on."""

    received: bytes = b""
    """Bytes received and not yet parsed."""
    unsent: bytes = b""
    """Bytes of the response not yet sent."""
    is_last: bool = False
    """The connection closes after ``unsent``."""
    is_throttled: bool = False
    """The next request is delayed."""


NO_HANDOFF: Final = Handoff()
"""Nothing to hand off: wait for the next request."""

PENDING: Final = Handoff()
"""Nothing to hand off: the response is delivered later."""

HandOffConnection = Callable[[int, str, Handoff], None]


class FastPath:
    """Serves connections as long as only usual requests arrive on them."""

    def __init__(self, registry: ConnectionRegistry, hand_off: HandOffConnection) -> None:
        self.registry = registry
        self.hand_off = hand_off
        self.loop = asyncio.get_running_loop()
        self._young = registry.request_cache.young
        self._service = registry.service
        self._answer = registry.answer

    def accept(self, file: int, address: str) -> None:
        handoff = self.answer(file, address)
        if handoff is None:
            os.close(file)
        elif handoff is NO_HANDOFF:
            FastPathConnection(self, file, address)
        elif handoff is not PENDING:
            self.hand_off(file, address, handoff)

    def answer(self, file: int, address: str, connection: "FastPathConnection | None" = None) -> Handoff | None:
        """Answer a usual request; return what is left to do, or None if the connection must be closed."""
        try:
            received = os.read(file, _READ)
        except BlockingIOError:
            return NO_HANDOFF
        except OSError:
            return None
        if not received:
            return None
        request = self._young.get(received) or self.registry.read_single(received)
        vm_entry = self._service.vm_entries.get(address)
        if vm_entry is None or not vm_entry.documents.is_enrolled:
            return Handoff(received)
        if request is None or not request.is_plain:
            return self._answer_later(file, address, received, request, connection)
        # A local name is faster: the interpreter would look up ``self._answer(...)`` as a method.
        answer_request = self._answer
        answer = answer_request(request, b"", address, NO_RECEIVER)
        if type(answer) is not bytes:
            if isinstance(answer, ThrottledResponse):
                return Handoff(unsent=answer, is_last=request.is_last, is_throttled=True)
            return Handoff(received)
        return self.send(file, answer, is_last=request.is_last)

    def _answer_later(
        self,
        file: int,
        address: str,
        received: bytes,
        request: MetadataRequest | None,
        connection: "FastPathConnection | None",
    ) -> Handoff | None:
        """Answer an approval or a long poll, or hand off what is neither."""
        body = b""
        if request is None:
            if (found := self.registry.request_cache.read_post(received)) is None:
                return Handoff(received)
            request, body = found
        elif not request.wait:
            return Handoff(received)
        connection = connection or FastPathConnection(self, file, address)
        answer = self._answer(request, body, address, connection)
        if not isinstance(answer, bytes):
            connection.wait(request, answer)
            return PENDING
        if isinstance(answer, ThrottledResponse):
            left: Handoff | None = Handoff(unsent=answer, is_last=request.is_last, is_throttled=True)
        else:
            left = self.send(file, answer, is_last=request.is_last)
        connection.proceed(left)
        return PENDING

    def send(self, file: int, answer: bytes, *, is_last: bool) -> Handoff | None:
        """Send a response; return what is left to do, or None if the connection must be closed."""
        try:
            sent = os.write(file, answer)
        except BlockingIOError:
            sent = 0
        except OSError:
            return None
        if sent < len(answer):
            return Handoff(unsent=answer[sent:], is_last=is_last)
        return None if is_last else NO_HANDOFF


class FastPathConnection:
    """One connection on the fast path. It receives one response at a time that is delivered later."""

    __slots__ = (
        *("_fast_path", "_file", "_idle", "_is_ended", "_long_poll", "_received", "_request", "_timer_wheel"),
        *("address", "bucket", "expires"),
    )

    def __init__(self, fast_path: FastPath, file: int, address: str) -> None:
        self._fast_path = fast_path
        self._file = file
        self._timer_wheel = fast_path.registry.service.timer_wheel
        self._idle = fast_path.registry.limits.idle
        self._request: MetadataRequest | None = None
        """The request whose response is delivered later."""
        self._long_poll: LongPoll | None = None
        self._received = b""
        """What arrived after it."""
        self._is_ended = False
        """The caller has closed its sending side."""
        self.address = address
        self.expires = self._timer_wheel.now + self._idle
        self.bucket = 0
        fast_path.registry.enter(self)
        self._timer_wheel.put(self)
        fast_path.loop.add_reader(file, self._ready)

    def wait(self, request: MetadataRequest, long_poll: LongPoll | None) -> None:
        """Wait for the response, which is delivered later."""
        self._request = request
        self._long_poll = long_poll
        self.expires = NEVER

    def deliver(self, answer: bytes) -> None:
        """Send the response, and continue with what was received after the request."""
        request, self._request, self._long_poll = self._request, None, None
        if request is None:
            return  # the caller has gone
        is_last = request.is_last or self._fast_path.registry.is_closing
        left = self._fast_path.send(self._file, answer, is_last=is_last)
        if left and self._received:
            left = Handoff(self._received, left.unsent, left.is_last)
        elif left is NO_HANDOFF and self._is_ended:
            left = None
        self.proceed(left)

    def proceed(self, handoff: Handoff | None) -> None:
        """Wait for the next request, close, or hand off."""
        if handoff is NO_HANDOFF:
            self.expires = self._timer_wheel.now + self._idle
            if self.bucket == 0:
                self._timer_wheel.put(self)
        elif handoff is None:
            self.abort()
        elif handoff is not PENDING:
            file = self._leave()
            self._fast_path.hand_off(file, self.address, handoff)

    def _ready(self) -> None:
        if self._request is None:
            self.proceed(self._fast_path.answer(self._file, self.address, self))
        else:
            self._read_ahead()

    def _read_ahead(self) -> None:
        """Notice what the caller does while it waits; what it sends then is dealt with after the response."""
        self._fast_path.loop.remove_reader(self._file)
        try:
            self._received = os.read(self._file, _READ)
        except BlockingIOError:
            self._fast_path.loop.add_reader(self._file, self._ready)
            return
        except OSError:
            self.abort()
            return
        self._is_ended = not self._received
        if self._is_ended and self._long_poll is not None:
            self._long_poll.release()  # most callers that stop sending are gone; the others get the current document

    def _leave(self) -> int:
        file, self._file = self._file, -1
        self._fast_path.loop.remove_reader(file)
        self._timer_wheel.remove(self)
        self._fast_path.registry.leave(self)
        return file

    def close_gracefully(self) -> None:
        """Close the connection; a pending response is sent before."""
        if self._request is None:
            self.abort()

    def abort(self) -> None:
        """Close the connection."""
        if self._file < 0:
            return
        self._request = None
        if self._long_poll is not None:
            self._long_poll.cancel()
            self._long_poll = None
        os.close(self._leave())

    expired = abort
