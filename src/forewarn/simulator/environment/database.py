"""The database that simulated nodes share, and their ways to it: it fails as one with a standby does.

It is as strict as every shared journal (``SharedMemoryStore``). Nodes read copies of entries, made from bytes, so
that they have nothing else in common. It keeps a record of its own of who held the lease, and compares.
"""

import asyncio
import contextvars
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from random import Random
from typing import TypeVar, Unpack

from forewarn.clocks import Clock
from forewarn.core.facts import Entry
from forewarn.journal.codec import pack, unpack
from forewarn.journal.memory import MemoryJournal
from forewarn.journal.port import AppendUnknown, HistoryBounds, JournalFailed, NotWritten, Recovered
from forewarn.journal.shared import ClusterState, NodeReport
from forewarn.journal.shared_memory import SharedMemoryJournal, SharedMemoryStore

_Value = TypeVar("_Value")
_PLACE = Path("simulated-database")
_TRAVEL = 0.004
"""Seconds that a notification takes at most."""
LONGEST_LATE = 5.0
"""Seconds after which a late append takes effect, or is refused."""


class DatabaseFault(StrEnum):
    """What goes wrong with one append."""

    REFUSED = "refused"
    """Nothing is written, and the node is told so."""
    UNKNOWN_WRITTEN = "unknown-written"
    """It is written, but the answer is lost."""
    UNKNOWN_LOST = "unknown-lost"
    """It is not written, and the answer is lost."""
    LATE = "late"
    """The answer is lost, and the database carries it out some seconds later, if it still may."""


class _EncodedEntries(MemoryJournal):
    """Entries as bytes: every reader gets copies."""

    def __init__(self) -> None:
        super().__init__()
        self._is_open = True

    def load(self) -> Recovered:
        copied = MemoryJournal()
        copied._add(_copies(self._entries))  # noqa: SLF001 - it is of the same family
        return copied.load()

    def append(self, expected_revision: int, entries: Sequence[Entry]) -> None:
        super().append(expected_revision, _copies(entries))

    def entries(self, after: int = 0, limit: int | None = None) -> Iterator[Entry]:
        return iter(_copies(list(super().entries(after, limit))))

    def history(self, subject: str, **bounds: Unpack[HistoryBounds]) -> list[Entry]:
        return [copy for entry in super().history(subject, **bounds) for copy in _copies([entry])]


def _copies(entries: Sequence[Entry]) -> list[Entry]:
    return list(unpack(pack(entries), _PLACE, entries[0].revision - 1)) if entries else []


class SimulatedDatabase(SharedMemoryStore):
    """What is durable, who leads, and what goes wrong."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.entries = _EncodedEntries()
        self.is_down = False
        self.cut_off: set[str] = set()
        """The nodes that do not reach it."""
        self.latency = 0.0
        """Seconds that a heartbeat takes at most beyond the usual."""
        self.is_silent = False
        """Whether no node is notified of entries."""
        self.next_faults: list[DatabaseFault] = []
        """Faults of the next appends, the first one first."""
        self.lost_heartbeats = 0
        """How many of the next heartbeats have no answer."""
        self.lost = 0
        """Entries that a standby did not have when it took over."""
        self.wrong: list[str] = []
        """What must never happen."""
        self.on_fault: Callable[[str], None] = lambda _: None
        """Told of every fault that happens."""
        self.committed_at: list[float] = []
        """When each entry became durable."""
        self._following: dict[Callable[[str], None], None] = {}
        """Who waits for something new; each is told ``entry``, ``lease`` or ``broken``."""
        self._granted: tuple[int, str, float] = (0, "", 0.0)
        """Term, process and end of the last lease, as it was granted."""
        self._terms: set[int] = set()
        """All terms that were ever begun."""

    def add(self, expected_revision: int, entries: Sequence[Entry], term: int) -> None:
        super().add(expected_revision, entries, term)
        now = self.clock.seconds()
        self.committed_at += [now] * len(entries)
        if term != self._granted[0] or now >= self._granted[2]:
            self.wrong.append("entries were appended by a node that did not hold the lease")
        self.tell("entry")

    def beat(self, report: NodeReport, lease: float) -> ClusterState:
        before = self.clock.seconds()
        state = super().beat(report, lease)
        _, process, until = self._granted
        if state.lease.process == report.process and report.can_lead:
            if process not in ("", report.process) and before < until:
                self.wrong.append("a lease was granted while another one lasted")
            if state.lease.term != self._granted[0]:
                if state.lease.term in self._terms:
                    self.wrong.append(f"term {state.lease.term} came again")
                self._terms.add(state.lease.term)
            self._granted = state.lease.term, report.process, before + lease
        return state

    def release(self, node: str, term: int) -> None:
        super().release(node, term)
        if self.leader is None:
            self._granted = (self._granted[0], "", 0.0)
            self.tell("lease")

    def holds_lease(self, node: str, term: int) -> bool:
        """Return whether a node holds the lease now, in this term."""
        is_leader = self.leader is not None and (self.leader.name, self.term) == (node, term)
        return is_leader and self.clock.seconds() < self.lease_until

    def current_until(self, revision: int) -> float | None:
        """Return when a replica with this revision stopped holding everything; None while it does."""
        return self.committed_at[revision] if revision < len(self.committed_at) else None

    def fail_over(self, lost: int = 0) -> None:
        """Let the standby take over, without the last entries, and the leases since, where it did not have them."""
        before = self.revision
        super().fail_over(lost)
        if self.revision < before:
            self.lost += before - self.revision
            self._granted = self.term, self.leader.process if self.leader else "", self.lease_until
        del self.committed_at[self.revision :]
        self.tell("broken")

    def wait(self, follower: Callable[[str], None]) -> None:
        self._following[follower] = None

    def leave_alone(self, follower: Callable[[str], None]) -> None:
        self._following.pop(follower, None)

    def tell(self, what: str) -> None:
        """Wake those who follow."""
        if what == "broken" or not self.is_silent:
            for follower in tuple(self._following):
                follower(what)
        else:
            self.on_fault("notification lost")


class SimulatedSharedJournal(SharedMemoryJournal):
    """One process's way to the database. Calls that wait return futures: they are made in simulated threads."""

    def __init__(self, database: SimulatedDatabase, node: str, random: Random) -> None:
        super().__init__(database, node)
        self._database = database
        self._random = random
        self._outside = contextvars.Context()
        """What the database does goes on when the process of this journal has ended."""
        self._late: asyncio.Future[None] | None = None
        """Done when an append with an unknown result can not take effect any more."""

    def load(self) -> Recovered:
        self._reach()
        return self._after_late(super().load)

    def reopen(self) -> int:
        self._reach()
        return self._after_late(super().reopen)

    def append(self, expected_revision: int, entries: Sequence[Entry]) -> None:
        if not self._is_open:
            raise NotWritten("the journal is closed: load it before appending")
        database = self._database
        if self._is_cut_off():
            self._delay()
            raise NotWritten("the simulated database does not answer: look at it")
        fault = database.next_faults.pop(0) if database.next_faults else None
        if fault:
            database.on_fault(f"database append {fault}")
        match fault:
            case None:
                super().append(expected_revision, entries)
                return
            case DatabaseFault.REFUSED:
                raise NotWritten("the simulated database refused to write: look at it")
            case DatabaseFault.UNKNOWN_WRITTEN:
                super().append(expected_revision, entries)
            case DatabaseFault.LATE:
                self._append_late(expected_revision, list(entries))
        self._is_open = False
        self._delay()
        raise AppendUnknown("the simulated database broke the connection: look at it")

    def _append_late(self, expected_revision: int, entries: list[Entry]) -> None:
        loop, term = asyncio.get_running_loop(), self._term
        self._late = late = loop.create_future()

        def carry_out() -> None:
            with suppress(JournalFailed):
                self._database.add(expected_revision, entries, term)
            if not late.done():
                late.set_result(None)

        loop.call_later(self._random.random() * LONGEST_LATE, carry_out, context=self._outside)

    def entries(self, after: int = 0, limit: int | None = None) -> Iterator[Entry]:
        self._reach()
        return super().entries(after, limit)

    def history(self, subject: str, **bounds: Unpack[HistoryBounds]) -> list[Entry]:
        self._reach()
        return super().history(subject, **bounds)

    def follow(self, after: int, timeout: float) -> bool:
        self._reach()
        database, loop = self._database, asyncio.get_running_loop()
        self._check(after)
        if database.revision > after or self._releases != database.releases:
            self._releases = database.releases
            return database.revision > after
        waiting: asyncio.Future[bool] = loop.create_future()

        def look(what: str = "") -> None:
            database.leave_alone(tell)
            timer.cancel()
            if waiting.done():
                return
            if what == "broken":
                waiting.set_exception(JournalFailed("the simulated database broke the connection: look at it"))
                return
            try:
                self._reach()
                self._check(after)
            except JournalFailed as error:
                waiting.set_exception(error)
            else:
                self._releases = database.releases
                waiting.set_result(database.revision > after)

        def tell(what: str) -> None:
            if not self._is_cut_off():
                loop.call_later(self._random.random() * _TRAVEL, look, what, context=self._outside)

        timer = loop.call_later(timeout, look, context=self._outside)
        database.wait(tell)
        return waiting  # type: ignore[return-value]  # the call returns when it is done

    def heartbeat(self, report: NodeReport, lease: float) -> ClusterState:
        self._reach()
        database = self._database
        if database.lost_heartbeats:
            database.lost_heartbeats -= 1
            database.on_fault("heartbeat lost")
            if self._random.random() < 0.5:
                database.beat(report, lease)
            self._delay()
            raise JournalFailed("the simulated database did not answer a heartbeat: look at it")
        if not database.latency:
            return database.beat(report, lease)
        database.on_fault("heartbeat slow")
        return self._slowly(lambda: database.beat(report, lease))

    def release_lease(self, node: str, term: int) -> None:
        self._reach()
        self._database.release(node, term)

    def leave(self, name: str, process: str) -> None:
        self._reach()
        self._database.forget(name, process)

    def _is_cut_off(self) -> bool:
        return self._database.is_down or self._node in self._database.cut_off

    def _reach(self) -> None:
        if self._is_cut_off():
            self._database.on_fault("database unreachable")
            self._delay()
            raise JournalFailed("the simulated database does not answer: look at it")

    def _delay(self) -> None:
        """Let the call that fails last: a connection is refused at once, or times out."""
        getattr(asyncio.get_running_loop(), "delay_result", lambda _: None)(self._random.choice((0.0, 0.0, 1.0, 3.0)))

    def _slowly(self, do: Callable[[], _Value]) -> _Value:
        """Have something done by the database a while later, and its answer arrive later still."""
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[_Value] = loop.create_future()
        there, back = (self._random.random() * self._database.latency / 2 for _ in range(2))

        def arrive() -> None:
            try:
                value = do()
            except JournalFailed as error:
                loop.call_later(back, _fail, answered, error, context=self._outside)
            else:
                loop.call_later(back, _succeed, answered, value, context=self._outside)

        loop.call_later(there, arrive, context=self._outside)
        return answered  # type: ignore[return-value]  # the call returns when it is done

    def _after_late(self, do: Callable[[], _Value]) -> _Value:
        """Do something, when nothing that was sent before can take effect any more."""
        if self._late is None or self._late.done():
            return do()
        answered: asyncio.Future[_Value] = asyncio.get_running_loop().create_future()

        def go_on(_: object) -> None:
            try:
                _succeed(answered, do())
            except JournalFailed as error:
                _fail(answered, error)

        self._late.add_done_callback(go_on, context=self._outside)
        return answered  # type: ignore[return-value]  # the call returns when it is done


def _succeed(answered: "asyncio.Future[_Value]", value: _Value) -> None:
    if not answered.done():
        answered.set_result(value)


def _fail(answered: "asyncio.Future[_Value]", error: JournalFailed) -> None:
    if not answered.done():
        answered.set_exception(error)
