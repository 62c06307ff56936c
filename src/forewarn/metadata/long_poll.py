"""Long polls: requests that wait for a change of their document (``Prefer: wait``). Each costs memory only."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Protocol

from forewarn.metadata.request import MetadataRequest
from forewarn.metadata.timer_wheel import TimerWheel

_AT_ONCE = 500
"""Long polls that are answered before other requests are."""


class ResponseReceiver(Protocol):
    """Receives a response that is delivered later."""

    def deliver(self, answer: bytes) -> None:
        """Accept the delayed response; ignore it if the caller has disconnected."""


class _NoReceiver:
    def deliver(self, answer: bytes) -> None:
        pass


NO_RECEIVER = _NoReceiver()
"""Receiver of responses that are never delayed."""


class LongPoll:
    """One request that waits for the document of one group to change."""

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
        """Answer, because the wait time has passed."""
        self._owner.release(self)

    def deliver(self, answer: bytes) -> None:
        self._receiver.deliver(answer)

    def release(self) -> None:
        """Answer now."""
        self._owner.release(self)

    def cancel(self) -> None:
        """Stop waiting without an answer: the caller has disconnected."""
        self._owner.remove(self)


class LongPolls:
    """All long polls, by group."""

    def __init__(self, timer_wheel: TimerWheel, answer: Callable[[LongPoll], bytes], at_once: int = _AT_ONCE) -> None:
        self._timer_wheel = timer_wheel
        self._answer = answer
        self.at_once = at_once
        self._by_group: dict[str, dict[LongPoll, None]] = {}
        self.groups: Mapping[str, object] = self._by_group
        """The groups that long polls wait for."""

    def __len__(self) -> int:
        return sum(map(len, self._by_group.values()))

    def enter(self, group: str, request: MetadataRequest, address: str, receiver: ResponseReceiver) -> LongPoll:
        """Wait for the group's document to change, at most for the time that the request asks for."""
        # The current second has begun already, so it does not count: the wait is never shorter than requested.
        expires = self._timer_wheel.now + request.wait + 1
        long_poll = LongPoll(self, group, request, address, receiver, expires)
        self._by_group.setdefault(group, {})[long_poll] = None
        self._timer_wheel.put(long_poll)
        return long_poll

    def remove(self, long_poll: LongPoll) -> None:
        self._timer_wheel.remove(long_poll)
        long_polls = self._by_group.get(long_poll.group)
        if long_polls is not None:
            long_polls.pop(long_poll, None)
            if not long_polls:
                del self._by_group[long_poll.group]

    def release(self, long_poll: LongPoll) -> None:
        """Answer a long poll with the current document."""
        self.remove(long_poll)
        long_poll.deliver(self._answer(long_poll))

    def of(self, group: str) -> tuple[LongPoll, ...]:
        return tuple(self._by_group.get(group, ()))

    def release_group(self, group: str) -> None:
        """Answer all long polls for this group's document; many in slices, so that others are answered too."""
        waiting = self.of(group)
        for long_poll in waiting[: self.at_once]:
            self.release(long_poll)
        if len(waiting) > self.at_once:
            asyncio.get_running_loop().call_soon(self._release_rest, waiting, self.at_once)

    def _release_rest(self, waiting: tuple[LongPoll, ...], begin: int) -> None:
        for long_poll in waiting[begin : begin + self.at_once]:
            if long_poll in self._by_group.get(long_poll.group, ()):  # it may have been answered meanwhile
                self.release(long_poll)
        if len(waiting) > begin + self.at_once:
            asyncio.get_running_loop().call_soon(self._release_rest, waiting, begin + self.at_once)

    def release_all(self) -> None:
        for group in list(self._by_group):
            for long_poll in self.of(group):
                self.release(long_poll)
