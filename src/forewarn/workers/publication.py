"""Publication in two steps: every worker holds a commit before any of them, or the leader, shows it.

    durable entries ──▶ to every member ──▶ all have applied it ──▶ the shown revision rises ──▶ Show
                                    │
                                    └──▶ silent for a second: killed; shown when the process is gone

A worker that is not a member answers no request. So whatever a VM was shown by one worker, it is shown by all.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, MutableSequence, Sequence
from datetime import timedelta
from typing import Protocol

from forewarn.clocks import Clock
from forewarn.core.facts import Entry
from forewarn.node.followed_entries import changed_records
from forewarn.node.large_change import LargeChangeSizes
from forewarn.workers.messages import Entries, ReadTo, Show, encode

log = logging.getLogger(__name__)

_KEPT = 256
"""Commits that are kept in memory for workers that join; others read the journal."""
_LARGEST = 256 * 1024
"""Bytes of a commit that a worker decodes on its event loop."""
_LATE = 0.5
"""Seconds by which a check of the members may be late: later, the leader itself was stopped, or very busy."""


class Member(Protocol):
    """A worker that is asked to apply what is published."""

    known: int
    """The last revision that it has applied."""

    def send_encoded(self, body: bytes) -> None:
        """Send it a message."""

    def kill(self, reason: str) -> None:
        """End its process; ``Publication.remove`` is called when that is gone."""


class Publication:
    """Publishes the commits of the leader to the workers that joined."""

    def __init__(
        self, shown: MutableSequence[int] | memoryview, clock: Clock, revision: int, time_limit: float = 1.0
    ) -> None:
        """``shown`` has one item, the shown revision. ``time_limit``: seconds of silence that a worker may take."""
        self.revision = revision
        """The last revision that was sent to the members."""
        self.on_shown: Callable[[], None] = lambda: None
        self._shown = shown
        self._clock = clock
        self._time_limit = time_limit
        self.sizes = LargeChangeSizes()
        """From how many records on a commit is read from the journal."""
        self._members: list[Member] = []
        self._recent: deque[tuple[int, int, bytes]] = deque(maxlen=_KEPT)
        """Revision before, last revision and message of the last commits."""
        self._awaited: dict[int, float] = {}
        """The members that have not applied the present commit, by identity, and when each is given up."""
        self._killed: dict[int, float] = {}
        """Those of them that were killed, and when."""
        self._complete: asyncio.Future[None] | None = None
        shown[0] = revision

    @property
    def shown(self) -> int:
        """The revision that may be shown."""
        return self._shown[0]

    @property
    def stuck_for(self) -> float:
        """Seconds since a member was killed that has not ended, and that the present commit waits for; 0 if none."""
        return self._clock.seconds() - min(self._killed.values()) if self._killed else 0.0

    async def publish(self, revision: int, entries: Sequence[Entry] = ()) -> None:
        """Return once every member has applied what is durable up to ``revision``, or is gone."""
        body = self._encoded(entries)
        if body:
            self._recent.append((self.revision, revision, body))
        else:
            self._recent.clear()
            body = encode(ReadTo(revision))
        self.revision = revision
        until = self._clock.seconds() + self._time_limit
        behind = [member for member in self._members if member.known < revision]
        for member in behind:
            self._awaited[id(member)] = until
            member.send_encoded(body)
        if behind:
            self._complete = asyncio.get_running_loop().create_future()
            self._check_after(self._time_limit)
            await self._complete
            self._complete = None
            self._timer.cancel()
        self._shown[0] = revision
        for member in self._members:
            member.send_encoded(_SHOW)
        self.on_shown()

    def join(self, member: Member) -> None:
        """Count a worker from now on; send it what it lacks."""
        self._members.append(member)
        if member.known < self.revision:
            for body in self._missing(member.known):
                member.send_encoded(body)

    def remove(self, member: Member) -> None:
        """Forget a worker that has ended."""
        self._members = [each for each in self._members if each is not member]
        self._settle(member)

    def note_applied(self, member: Member) -> None:
        """Note that a member has applied what it says to know."""
        if member.known >= self.revision:
            self._settle(member)

    def note_busy(self, member: Member) -> None:
        """Give a member more time that takes in a large change."""
        if id(member) in self._awaited:
            self._awaited[id(member)] = self._clock.seconds() + self._time_limit

    def _settle(self, member: Member) -> None:
        self._killed.pop(id(member), None)
        if self._awaited.pop(id(member), None) is not None and not self._awaited and self._complete:
            self._complete.set_result(None)

    def _check(self) -> None:
        """Kill the members that were silent for too long."""
        now = self._clock.seconds()
        if now - self._due > _LATE:  # this process was stopped: what members said meanwhile is not read yet
            self._awaited = {member: max(until, now + self._time_limit) for member, until in self._awaited.items()}
        for member in list(self._members):
            until = self._awaited.get(id(member))
            if until is not None and until <= now + _EXACT:
                self._awaited[id(member)] = float("inf")  # until it is gone
                self._killed[id(member)] = now
                member.kill(f"it had not applied revision {self.revision} after {self._time_limit:g} s")
        left = [until for until in self._awaited.values() if until != float("inf")]
        if left:
            self._check_after(max(min(left) - now, 0.01))

    def _check_after(self, delay: float) -> None:
        self._due = self._clock.seconds() + delay
        self._timer = self._clock.call_later(timedelta(seconds=delay), self._check)

    def _encoded(self, entries: Sequence[Entry]) -> bytes:
        """Return the commit as a message; nothing if it is large: then a thread of the worker reads the journal."""
        if not entries or changed_records(entries) >= self.sizes.decided_aside:
            return b""
        body = encode(Entries(tuple(entries)))
        return body if len(body) <= _LARGEST else b""

    def _missing(self, known: int) -> list[bytes]:
        kept = [(before, body) for before, _, body in self._recent if before >= known]
        if kept and kept[0][0] == known:
            return [body for _, body in kept]
        return [encode(ReadTo(self.revision))]


_SHOW = encode(Show())
_EXACT = 0.001
"""Seconds; times in floating point are not more precise."""
