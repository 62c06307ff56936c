"""Fast path: answers plain requests directly on the file descriptor, without an asyncio transport.

Creating a transport costs more than a whole response, and almost every request is plain: complete, without a body,
answered immediately. So a connection is only a watched file descriptor until other data arrives; then it is handed
off, with the received bytes, to ``http_connection.py`` and stays there.
"""

import asyncio
import os
from collections.abc import Callable
from typing import Final

import msgspec

from forewarn.metadata.connections import ConnectionRegistry
from forewarn.metadata.long_poll import NO_RECEIVER
from forewarn.metadata.responses import ThrottledResponse

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

HandOffConnection = Callable[[int, str, Handoff], None]


class FastPath:
    """Serves connections as long as only plain requests arrive on them."""

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
        else:
            self.hand_off(file, address, handoff)

    def answer(self, file: int, address: str) -> Handoff | None:
        """Answer a plain request; return what is left to do, or None if the connection must be closed."""
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
        if request is None or not request.is_plain or vm_entry is None or not vm_entry.documents.is_enrolled:
            return Handoff(received)
        # A local name is faster: the interpreter would look up ``self._answer(...)`` as a method.
        answer_request = self._answer
        answer = answer_request(request, b"", address, NO_RECEIVER)
        if type(answer) is not bytes:
            if isinstance(answer, ThrottledResponse):
                return Handoff(unsent=answer, is_last=request.is_last, is_throttled=True)
            return Handoff(received)
        try:
            sent = os.write(file, answer)
        except BlockingIOError:
            sent = 0
        except OSError:
            return None
        if sent < len(answer):
            return Handoff(unsent=answer[sent:], is_last=request.is_last)
        return None if request.is_last else NO_HANDOFF


class FastPathConnection:
    """One connection on the fast path."""

    __slots__ = ("_fast_path", "_file", "_idle", "_timer_wheel", "address", "bucket", "expires")

    def __init__(self, fast_path: FastPath, file: int, address: str) -> None:
        self._fast_path = fast_path
        self._file = file
        self._timer_wheel = fast_path.registry.service.timer_wheel
        self._idle = fast_path.registry.limits.idle
        self.address = address
        self.expires = self._timer_wheel.now + self._idle
        self.bucket = 0
        fast_path.registry.enter(self)
        self._timer_wheel.put(self)
        fast_path.loop.add_reader(file, self._ready)

    def _ready(self) -> None:
        handoff = self._fast_path.answer(self._file, self.address)
        if handoff is NO_HANDOFF:
            self.expires = self._timer_wheel.now + self._idle
        elif handoff is None:
            self.close_gracefully()
        else:
            self._leave()
            self._fast_path.hand_off(self._file, self.address, handoff)

    def _leave(self) -> None:
        self._fast_path.loop.remove_reader(self._file)
        self._timer_wheel.remove(self)
        self._fast_path.registry.leave(self)

    def close_gracefully(self) -> None:
        """Close the connection; no response is pending on the fast path."""
        self._leave()
        os.close(self._file)

    expired = abort = close_gracefully
