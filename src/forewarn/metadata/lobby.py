"""Connections on which nothing is going on: nobody has asked yet, or the one request was answered.

Most callers ask once and close. A transport would cost them more than their answer, so until they ask again their
connection is no more than a file that is watched.
"""

import asyncio
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from forewarn.metadata.edge import Edge


class Guest:
    """One connection that is watched, and no more."""

    __slots__ = ("_call", "_edge", "_file", "_loop", "address", "bucket", "expires", "has_asked")

    def __init__(
        self, edge: "Edge", file: int, address: str, *, has_asked: bool, call: "Callable[[int, Guest], None]"
    ) -> None:
        self._edge = edge
        self._file = file
        self._call = call
        self._loop = asyncio.get_running_loop()
        self.address = address
        self.has_asked = has_asked
        self.expires = edge.service.wheel.now + edge.limits.idle
        self.bucket = 0
        edge.enter(self)
        edge.service.wheel.put(self)
        self._loop.add_reader(file, self._ready)

    def _ready(self) -> None:
        """Let go of the connection, on which something has arrived."""
        self._leave()
        self._call(self._file, self)

    def _leave(self) -> None:
        self._loop.remove_reader(self._file)
        self._edge.service.wheel.remove(self)
        self._edge.leave(self)

    def wind_up(self) -> None:
        """Close: there is nothing to finish."""
        self._leave()
        os.close(self._file)

    expired = abort = wind_up
