"""Stream of committed facts as server-sent events, serialized once for all listeners of the same rights.

    id: 4711.0                      the revision, and the index of the fact in its entry
    event: announced                the kind of fact
    data: {"revision":4711,...}

A listener that reconnects with the id of its last message gets the missed ones from the journal. A listener that
reads too slowly is disconnected and can reconnect. Owners get the facts of their groups. Heartbeats are comments, or
events for listeners that ask for them.
"""

import asyncio
import re
from collections import deque
from collections.abc import AsyncIterator, Iterable

import msgspec

from forewarn.audit.serialization import make_messages
from forewarn.core.access import Principal
from forewarn.core.errors import BadInput
from forewarn.core.facts import Entry, EventChanged, Fetched, TokenRevoked
from forewarn.core.fleet import Fleet
from forewarn.core.subjects import event_groups, subject_of_event
from forewarn.journal.port import Journal
from forewarn.node.feed import Commit
from forewarn.node.node import Node

_MOST_WAITING = 4 * 1024 * 1024
"""Pending bytes beyond which a listener is too slow."""
_HEARTBEAT = 15.0
_BATCH = 200
_WHOLE = 2**31
"""Position after the last fact of an entry."""
_ID = re.compile(r"(\d{1,18})(?:\.(\d{1,9}))?")
_BEAT = b": still here\n\n"
_BEAT_EVENT = b"event: beat\ndata: {}\n\n"
"""A heartbeat that scripts in a browser see; it has no id, because it marks no position."""


class StreamPosition(msgspec.Struct, frozen=True, order=True):
    """A position in the stream: after a fact of an entry."""

    revision: int
    fact: int

    @classmethod
    def read(cls, written: str) -> "StreamPosition":
        found = _ID.fullmatch(written.strip())
        if not found:
            raise BadInput(f"{written!r} is not an id of a change; use the id of the last change, such as 4711.0")
        return cls(int(found[1]), int(found[2]) if found[2] else _WHOLE)


class PositionTooOld(Exception):
    """The changes after the requested position are no longer kept, or never existed."""

    def __init__(self, oldest: int, newest: int) -> None:
        super().__init__(oldest, newest)
        self.oldest = oldest
        self.newest = newest

    def message(self) -> bytes:
        """Return the message that tells a listener to start again."""
        detail = "the following changes are no longer kept; read the current state, and continue from here"
        data = msgspec.json.encode({"oldest": self.oldest, "newest": self.newest, "detail": detail})
        return b"id: %d\nevent: reset\ndata: %s\n\n" % (self.newest, data)


class ChangeListener:
    """One listener and its pending messages."""

    def __init__(
        self,
        principal: Principal,
        most_waiting: int = _MOST_WAITING,
        heartbeat: float = _HEARTBEAT,
        beat: bytes = _BEAT,
    ) -> None:
        self.principal = principal
        self._heartbeat = heartbeat
        self._beat = beat
        self._most_waiting = most_waiting
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._something = asyncio.Event()
        self.is_over = False

    def put(self, message: bytes) -> None:
        self._waiting.append(message)
        self._size += len(message)
        if self._size > self._most_waiting:
            self.end()
        self._something.set()

    def end(self) -> None:
        """Stop serving it; it can reconnect and continue."""
        self.is_over = True
        self._waiting.clear()
        self._something.set()

    async def take(self) -> bytes:
        """Wait for messages and return them; a heartbeat if none arrive for long."""
        try:
            async with asyncio.timeout(self._heartbeat):
                await self._something.wait()
        except TimeoutError:
            return self._beat
        self._something.clear()
        taken = b"".join(self._waiting)
        self._waiting.clear()
        self._size = 0
        return taken


class ChangeStream:
    """Distributes commits to listeners."""

    def __init__(self, node: Node, journal: Journal, *, heartbeat: float = _HEARTBEAT, batch: int = _BATCH) -> None:
        self._node = node
        self._journal = journal
        self._heartbeat = heartbeat
        self._batch = batch
        self._listeners: set[ChangeListener] = set()

    @property
    def listeners(self) -> int:
        return len(self._listeners)

    def load(self, fleet: Fleet) -> None:
        """Start again; listeners reconnect and read from the journal what became durable without a commit."""
        self.close()

    def publish(self, commit: Commit) -> None:
        if self._listeners:
            self._distribute(commit)

    def close(self) -> None:
        for listener in self._listeners:
            listener.end()

    async def listen(self, principal: Principal, written: str, *, beats: bool = False) -> AsyncIterator[bytes]:
        """Return the changes after a position, and all from now on; raise PositionTooOld.

        ``beats``: heartbeats are events instead of comments.
        """
        after = StreamPosition.read(written) if written else None
        beat = _BEAT_EVENT if beats else _BEAT
        listener = ChangeListener(principal, heartbeat=self._heartbeat, beat=beat)
        # Register first: what is committed while the past is read is queued.
        self._listeners.add(listener)
        now = self._node.replica.revision
        if after is not None:
            try:
                await self._check_kept(after, now)
            except BaseException:
                self._listeners.discard(listener)
                raise
        return self._stream(listener, after, now)

    async def _stream(self, listener: ChangeListener, after: StreamPosition | None, now: int) -> AsyncIterator[bytes]:
        try:
            yield _BEAT
            if after is not None:
                async for past in self._past(listener.principal, after, now):
                    yield past
            while not listener.is_over:
                taken = await listener.take()
                if not self._is_valid(listener.principal):
                    return
                yield taken
        finally:
            self._listeners.discard(listener)

    async def _check_kept(self, after: StreamPosition, now: int) -> None:
        first = await self._node.replica.read(lambda: next(iter(self._journal.entries(limit=1)), None))
        oldest = first.revision if first else now + 1
        # It is unknown whether a removed entry had more facts.
        needed = after.revision + 1 if after.fact == _WHOLE else after.revision
        if after.revision > now or 0 < needed < oldest:
            raise PositionTooOld(oldest, now)

    async def _past(self, principal: Principal, after: StreamPosition, until: int) -> AsyncIterator[bytes]:
        done = max(after.revision - 1, 0)
        while done < until:
            begin = done
            entries = await self._node.replica.read(lambda: list(self._journal.entries(begin, self._batch)))  # noqa: B023
            entries = [entry for entry in entries if entry.revision <= until]
            if not entries:
                return
            groups = {} if principal.sees_all else await self._groups_of(entries)
            messages = make_messages(entries, principal, self._node.replica.fleet, groups)
            yield b"".join(message for place, message in messages if StreamPosition(*place) > after)
            done = entries[-1].revision

    async def _groups_of(self, entries: Iterable[Entry]) -> dict[str, str]:
        """Return the groups of past events whose facts do not name them."""
        facts = [fact for entry in entries for fact in entry.facts]
        ids = {fact.event for fact in facts if isinstance(fact, EventChanged) and not fact.group}
        ids |= {fetch.event for fact in facts if isinstance(fact, Fetched) for fetch in fact.fetches}
        ids -= event_groups(facts).keys()
        if not ids:
            return {}

        def find() -> dict[str, str]:
            lives = (self._journal.history(subject_of_event(id_)) for id_ in ids)
            return event_groups(fact for life in lives for entry in life for fact in entry.facts)

        return await self._node.replica.read(find)

    def _distribute(self, commit: Commit) -> None:
        encoded: dict[tuple[str, frozenset[str]], bytes] = {}
        self._listeners = {listener for listener in self._listeners if not listener.is_over}
        for listener in self._listeners:
            principal = listener.principal
            rights = principal.role, principal.groups
            if rights not in encoded:
                messages = make_messages(commit.entries, principal, commit.fleet)
                encoded[rights] = b"".join(message for _, message in messages)
            if encoded[rights]:
                listener.put(encoded[rights])
        revoked = {fact.token for entry in commit.entries for fact in entry.facts if isinstance(fact, TokenRevoked)}
        for listener in self._listeners if revoked else ():
            if listener.principal.token in revoked:
                listener.end()

    def _is_valid(self, principal: Principal) -> bool:
        return principal.expires_at is None or principal.expires_at > self._node.clock.now()
