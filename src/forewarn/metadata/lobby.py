"""Plain requests are answered here, straight from the file of their connection.

Building a transport costs more than a whole answer, and nearly every request is a plain one: whole, without a body,
answered at once. So a connection is no more than a watched file until something else arrives on it; then it is handed
over, with what has arrived, for the rest of its life.
"""

import asyncio
import os
from collections.abc import Callable
from typing import Final

import msgspec

from forewarn.metadata.answers import Rebuff
from forewarn.metadata.edge import Edge
from forewarn.metadata.waiting import NOBODY

_READ = 2048


class Left(msgspec.Struct, frozen=True):
    """What is left to do on a connection."""

    received: bytes = b""
    """Bytes to look at more closely."""
    unsent: bytes = b""
    """Bytes that the caller has not taken yet."""
    is_last: bool = False
    """The connection closes after those."""
    is_rebuffed: bool = False
    """What comes next waits a little."""


NOTHING: Final = Left()
"""To wait for the next request."""

HandOver = Callable[[int, str, Left], None]


class Lobby:
    """Serves connections for as long as all that arrives on them is plain."""

    def __init__(self, edge: Edge, hand_over: HandOver) -> None:
        self.edge = edge
        self.hand_over = hand_over
        self.loop = asyncio.get_running_loop()
        self._young = edge.memo.young
        self._seats = edge.service.seats
        self._answer = edge.answer

    def take_in(self, file: int, address: str) -> None:
        """Serve a new connection."""
        left = self.answer(file, address)
        if left is None:
            os.close(file)
        elif left is NOTHING:
            Guest(self, file, address)
        else:
            self.hand_over(file, address, left)

    def answer(self, file: int, address: str) -> Left | None:
        """Answer a plain request; return what is left to do, or None when the connection is to be closed."""
        try:
            received = os.read(file, _READ)
        except BlockingIOError:
            return NOTHING
        except OSError:
            return None
        if not received:
            return None
        request = self._young.get(received) or self.edge.read_alone(received)
        seat = self._seats.get(address)
        if request is None or not request.is_plain or seat is None or not seat.board.is_enrolled:
            return Left(received)
        # By way of a name of its own: the interpreter looks up ``self._answer(...)`` as a method, and slowly.
        give = self._answer
        answer = give(request, b"", address, NOBODY)
        if type(answer) is not bytes:
            if isinstance(answer, Rebuff):
                return Left(unsent=answer, is_last=request.is_last, is_rebuffed=True)
            return Left(received)
        try:
            sent = os.write(file, answer)
        except BlockingIOError:
            sent = 0
        except OSError:
            return None
        if sent < len(answer):
            return Left(unsent=answer[sent:], is_last=request.is_last)
        return None if request.is_last else NOTHING


class Guest:
    """One connection in the lobby."""

    __slots__ = ("_file", "_idle", "_lobby", "_wheel", "address", "bucket", "expires")

    def __init__(self, lobby: Lobby, file: int, address: str) -> None:
        self._lobby = lobby
        self._file = file
        self._wheel = lobby.edge.service.wheel
        self._idle = lobby.edge.limits.idle
        self.address = address
        self.expires = self._wheel.now + self._idle
        self.bucket = 0
        lobby.edge.enter(self)
        self._wheel.put(self)
        lobby.loop.add_reader(file, self._ready)

    def _ready(self) -> None:
        left = self._lobby.answer(self._file, self.address)
        if left is NOTHING:
            self.expires = self._wheel.now + self._idle
        elif left is None:
            self.wind_up()
        else:
            self._leave()
            self._lobby.hand_over(self._file, self.address, left)

    def _leave(self) -> None:
        self._lobby.loop.remove_reader(self._file)
        self._wheel.remove(self)
        self._lobby.edge.leave(self)

    def wind_up(self) -> None:
        """Close: there is nothing to finish."""
        self._leave()
        os.close(self._file)

    expired = abort = wind_up
