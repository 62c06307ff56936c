"""A journal that several nodes of one process share: for tests and simulations of a cluster.

    SharedMemoryStore        what a database holds: entries, the lease, heartbeats
      ▲         ▲
    journal   journal        one for each node

It is as strict as a database, by the clock that it is given, and fails on demand.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from threading import Condition
from time import monotonic
from typing import Unpack

import msgspec

from forewarn.clocks import Clock
from forewarn.core.facts import Entry
from forewarn.journal.memory import MemoryJournal
from forewarn.journal.port import AppendUnknown, HistoryBounds, NotWritten, Recovered, StaleWriter
from forewarn.journal.shared import (
    ClusterMember,
    ClusterState,
    JournalDiverged,
    LeaseLost,
    LeaseState,
    NodeNameTaken,
    NodeReport,
)

_RECENT = 60.0
"""Seconds without a heartbeat after which a node is no longer a member."""


class _Heartbeat(msgspec.Struct, frozen=True):
    report: NodeReport
    at: float


class SharedMemoryStore:
    """What all nodes share. ``before`` and ``after`` are called with the node's name and the call; they may raise."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.before: Callable[[str, str], None] = lambda *_: None
        self.after: Callable[[str, str], None] = lambda *_: None
        """What this one raises undoes nothing: only the answer is lost."""
        self.changed = Condition()
        self.entries = MemoryJournal()
        self.entries.load()
        self.numbers: list[int] = []
        """One number for each entry; a number never comes again."""
        self._leases: list[tuple[int, NodeReport | None, float]] = []
        """Term, leader and end of the lease when each entry was appended."""
        self.term = 0
        self.leader: NodeReport | None = None
        self.lease_until = 0.0
        self.format = 0
        self.releases = 0
        self._counter = count(1)
        self._heartbeats: dict[str, _Heartbeat] = {}

    @property
    def revision(self) -> int:
        """The last durable revision."""
        return len(self.numbers)

    def fail_over(self, lost: int = 0) -> None:
        """Continue without the last entries and the leases since, as a standby does that did not receive them."""
        with self.changed:
            kept = list(self.entries.entries(0, max(self.revision - lost, 0)))
            if len(kept) < self.revision:
                self.term, self.leader, self.lease_until = self._leases[len(kept) - 1] if kept else (0, None, 0.0)
            self.entries = type(self.entries)()
            self.entries.load()
            self.entries.append(0, kept)
            del self.numbers[len(kept) :], self._leases[len(kept) :]
            self.changed.notify_all()

    def add(self, expected_revision: int, entries: Sequence[Entry], term: int) -> None:
        with self.changed:
            if term != self.term or self.leader is None or self.clock.seconds() >= self.lease_until:
                raise LeaseLost
            if expected_revision != self.revision:
                raise StaleWriter
            self.entries.append(expected_revision, entries)
            self.numbers += [next(self._counter) for _ in entries]
            self._leases += [(self.term, self.leader, self.lease_until) for _ in entries]
            self.changed.notify_all()

    def beat(self, report: NodeReport, lease: float) -> ClusterState:
        with self.changed:
            now = self.clock.seconds()
            last = self._heartbeats.get(report.name)
            if last and last.report.process != report.process and now - last.at < lease:
                raise NodeNameTaken(
                    f"another process has the name {report.name!r}: give each node a name of its own (setting node)"
                )
            self._heartbeats[report.name] = _Heartbeat(report, now)
            is_free = self.leader is None or now >= self.lease_until
            is_own = not is_free and self.leader is not None and self.leader.process == report.process
            if report.can_lead and is_free:
                self.term = max(self.term + 1, int(self.clock.now().timestamp()))
                self.leader = report
            if report.can_lead and (is_free or is_own):
                self.lease_until = now + lease
            return self._state(now)

    def release(self, node: str, term: int) -> None:
        with self.changed:
            if self.leader and (node, term) == (self.leader.name, self.term):
                self.leader = None
                self.releases += 1
                self.changed.notify_all()

    def forget(self, name: str, process: str) -> None:
        with self.changed:
            last = self._heartbeats.get(name)
            if last and last.report.process == process:
                del self._heartbeats[name]

    def _state(self, now: float) -> ClusterState:
        members = [each for _, each in sorted(self._heartbeats.items()) if now - each.at < _RECENT]
        self.format = max(self.format, min(each.report.format for each in members))
        leader = self.leader if now < self.lease_until else None
        return ClusterState(
            lease=LeaseState(
                term=self.term,
                node=leader.name if leader else "",
                process=leader.process if leader else "",
                remaining=self.lease_until - now if leader else 0.0,
            ),
            revision=self.revision,
            now=self.clock.now(),
            format=self.format,
            members=tuple(ClusterMember(report=each.report, age=now - each.at) for each in members),
        )


class SharedMemoryJournal:
    """One node's way to the store."""

    place = "memory"

    def __init__(self, store: SharedMemoryStore, node: str = "") -> None:
        self._store = store
        self._node = node
        self._is_open = False
        self._closings = 0
        self._releases = store.releases
        """The leases that had been released when ``follow`` last returned."""
        self._term = 0
        self._last = (0, 0)
        """The revision and the number of the last entry that was loaded, read in order, or appended."""

    def load(self) -> Recovered:
        self._store.before(self._node, "load")
        with self._store.changed:
            recovered = self._store.entries.load()
            self._note(recovered.revision)
        self._is_open = True
        return recovered

    def reopen(self) -> int:
        self._store.before(self._node, "reopen")
        with self._store.changed:
            self._check(self._last[0])
            self._is_open = True
            return self._store.revision

    def append(self, expected_revision: int, entries: Sequence[Entry]) -> None:
        if not self._is_open:
            raise NotWritten("the journal is closed: load it before appending")
        batch = list(entries)
        try:
            self._store.before(self._node, "append")
            self._store.add(expected_revision, batch, self._term)
            self._store.after(self._node, "append")
        except AppendUnknown:
            self._is_open = False
            raise
        with self._store.changed:
            self._note(expected_revision + len(batch))

    def entries(self, after: int = 0, limit: int | None = None) -> Iterator[Entry]:
        self._store.before(self._node, "entries")
        with self._store.changed:
            self._check(after)
            found = list(self._store.entries.entries(after, limit))
            if found and after == self._last[0]:
                self._note(found[-1].revision)
        return iter(found)

    def follow(self, after: int, timeout: float) -> bool:
        self._store.before(self._node, "follow")
        store = self._store
        until = monotonic() + timeout
        with store.changed:
            closings = self._closings
            while True:
                self._check(after)
                left = until - monotonic()
                is_woken = closings != self._closings or self._releases != store.releases
                if store.revision > after:
                    return True
                if left <= 0 or is_woken:
                    self._releases = store.releases
                    return False
                store.changed.wait(left)

    def history(self, subject: str, **bounds: Unpack[HistoryBounds]) -> list[Entry]:
        self._store.before(self._node, "history")
        return self._store.entries.history(subject, **bounds)

    def heartbeat(self, report: NodeReport, lease: float) -> ClusterState:
        self._store.before(self._node, "heartbeat")
        state = self._store.beat(report, lease)
        self._store.after(self._node, "heartbeat")
        return state

    def begin_term(self, term: int) -> None:
        self._term = term

    def release_lease(self, node: str, term: int) -> None:
        self._store.before(self._node, "release_lease")
        self._store.release(node, term)
        self._store.after(self._node, "release_lease")

    def leave(self, name: str, process: str) -> None:
        self._store.before(self._node, "leave")
        self._store.forget(name, process)

    def close(self) -> None:
        self._is_open = False
        with self._store.changed:
            self._closings += 1
            self._store.changed.notify_all()

    def _check(self, after: int) -> None:
        """Refuse to go on where the store is not what this journal has read."""
        revision, number = self._last
        if after > self._store.revision:
            raise JournalDiverged(
                f"the journal ends at revision {self._store.revision}, below {after}: load it again"
            )
        if after == revision and revision and self._store.numbers[revision - 1] != number:
            raise JournalDiverged(f"the journal has another entry at revision {revision}: load it again")

    def _note(self, revision: int) -> None:
        self._last = (revision, self._store.numbers[revision - 1] if revision else 0)
