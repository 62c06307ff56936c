"""Callers who wait for a change of their document (``Prefer: wait``). Each costs memory only."""

from collections.abc import Callable
from typing import Protocol

from forewarn.metadata.request import MetadataRequest
from forewarn.metadata.timer_wheel import TimerWheel


class ResponseReceiver(Protocol):
    """Somebody who is owed an answer."""

    def deliver(self, answer: bytes) -> None:
        """Take the answer that was not to be had at once; nothing is done with it if the asker has gone."""


class _NoReceiver:
    def deliver(self, answer: bytes) -> None:
        pass


NO_RECEIVER = _NoReceiver()
"""The asker of what is answered at once."""


class LongPoll:
    """One caller who waits for the document of one group to change."""

    __slots__ = ("_owner", "_receiver", "address", "bucket", "expires", "group", "request")

    def __init__(
        self,
        owner: "LongPolls",
        group: str,
        request: MetadataRequest,
        address: str,
        receiver: ResponseReceiver,
        expires: int,
    ) -> None:
        self._owner = owner
        self.group = group
        self.request = request
        self.address = address
        self._receiver = receiver
        self.expires = expires
        self.bucket = 0

    def expired(self) -> None:
        """Answer: the caller would wait no longer."""
        self._owner.release(self)

    def deliver(self, answer: bytes) -> None:
        self._receiver.deliver(answer)

    def release(self) -> None:
        """Answer at once."""
        self._owner.release(self)

    def cancel(self) -> None:
        """Wait no longer, and answer nothing: the caller has gone."""
        self._owner.remove(self)


class LongPolls:
    """All who wait, by group."""

    def __init__(self, timer_wheel: TimerWheel, answer: Callable[[LongPoll], bytes]) -> None:
        self._timer_wheel = timer_wheel
        self._answer = answer
        self._by_group: dict[str, set[LongPoll]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._by_group.values()))

    def enter(self, group: str, request: MetadataRequest, address: str, receiver: ResponseReceiver) -> LongPoll:
        """Wait for the group's document to change, as long as the request would."""
        # The present second has begun already; to wait no less than was asked, it does not count.
        expires = self._timer_wheel.now + request.wait + 1
        long_poll = LongPoll(self, group, request, address, receiver, expires)
        self._by_group.setdefault(group, set()).add(long_poll)
        self._timer_wheel.put(long_poll)
        return long_poll

    def remove(self, long_poll: LongPoll) -> None:
        self._timer_wheel.remove(long_poll)
        long_polls = self._by_group.get(long_poll.group)
        if long_polls is not None:
            long_polls.discard(long_poll)
            if not long_polls:
                del self._by_group[long_poll.group]

    def release(self, long_poll: LongPoll) -> None:
        """Give a waiter the answer of this moment."""
        self.remove(long_poll)
        long_poll.deliver(self._answer(long_poll))

    def of(self, group: str) -> tuple[LongPoll, ...]:
        """Return those who wait for a change of this group's document."""
        return tuple(self._by_group.get(group, ()))

    def release_group(self, group: str) -> None:
        """Answer all who wait for a change of this group's document."""
        for long_poll in self.of(group):
            self.release(long_poll)

    def release_all(self) -> None:
        for group in list(self._by_group):
            self.release_group(group)
