"""Callers who wait for a change of their document (``Prefer: wait``). Each costs memory only."""

from collections.abc import Callable
from typing import Protocol

from forewarn.metadata.request import Request
from forewarn.metadata.wheel import Wheel


class Asker(Protocol):
    """Somebody who is owed an answer."""

    def deliver(self, answer: bytes) -> None:
        """Take the answer that was not to be had at once; nothing is done with it if the asker has gone."""


class _Nobody:
    def deliver(self, answer: bytes) -> None:
        pass


NOBODY = _Nobody()
"""The asker of what is answered at once."""


class Waiter:
    """One caller who waits for the document of one group to change."""

    __slots__ = ("_asker", "_room", "address", "bucket", "expires", "group", "request")

    def __init__(
        self,
        room: "WaitingRoom",
        group: str,
        request: Request,
        address: str,
        asker: Asker,
        expires: int,
    ) -> None:
        self._room = room
        self.group = group
        self.request = request
        self.address = address
        self._asker = asker
        self.expires = expires
        self.bucket = 0

    def expired(self) -> None:
        """Answer: the caller would wait no longer."""
        self._room.release(self)

    def deliver(self, answer: bytes) -> None:
        self._asker.deliver(answer)

    def release(self) -> None:
        """Answer at once."""
        self._room.release(self)

    def cancel(self) -> None:
        """Wait no longer, and answer nothing: the caller has gone."""
        self._room.remove(self)


class WaitingRoom:
    """All who wait, by group."""

    def __init__(self, wheel: Wheel, answer: Callable[[Waiter], bytes]) -> None:
        self._wheel = wheel
        self._answer = answer
        self._waiters: dict[str, set[Waiter]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._waiters.values()))

    def enter(self, group: str, request: Request, address: str, asker: Asker) -> Waiter:
        """Wait for the group's document to change, as long as the request would."""
        # The present second has begun already; to wait no less than was asked, it does not count.
        expires = self._wheel.now + request.wait + 1
        waiter = Waiter(self, group, request, address, asker, expires)
        self._waiters.setdefault(group, set()).add(waiter)
        self._wheel.put(waiter)
        return waiter

    def remove(self, waiter: Waiter) -> None:
        self._wheel.remove(waiter)
        waiters = self._waiters.get(waiter.group)
        if waiters is not None:
            waiters.discard(waiter)
            if not waiters:
                del self._waiters[waiter.group]

    def release(self, waiter: Waiter) -> None:
        """Give a waiter the answer of this moment."""
        self.remove(waiter)
        waiter.deliver(self._answer(waiter))

    def of(self, group: str) -> tuple[Waiter, ...]:
        """Return those who wait for a change of this group's document."""
        return tuple(self._waiters.get(group, ()))

    def release_group(self, group: str) -> None:
        """Answer all who wait for a change of this group's document."""
        for waiter in self.of(group):
            self.release(waiter)

    def release_all(self) -> None:
        for group in list(self._waiters):
            self.release_group(group)
