"""Membership in the cluster: heartbeats to the database, and the lease of the node that leads.

    heartbeat sent ──▶ the database renews the lease ──▶ answer
         │                                                 │
         └────── this node acts for less than a lease ─────┴──▶ it may have ended

The lease counts here from before the heartbeat was sent, so that it ends here before it ends in the database. The
clock of this node must agree with the database's, because deadlines go by it: else the node does not lead.
"""

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TypeVar

from forewarn import __version__
from forewarn.clocks import Clock, Timer
from forewarn.cluster.leadership import KnownLeader
from forewarn.core.errors import BadInput, ForewarnError
from forewarn.core.fact import FORMAT
from forewarn.journal.port import NewerJournal
from forewarn.journal.shared import LONGEST_SKEW, ClusterState, LeaseState, NodeNameTaken, NodeReport, SharedJournal
from forewarn.node.node import Node
from forewarn.node.replica import call_journal
from forewarn.randomness import new_id
from forewarn.threads import THREADS

log = logging.getLogger(__name__)

_Value = TypeVar("_Value")

LEASE = 3.0
"""Seconds for which a heartbeat lets a node lead."""
INTERVAL = 1.0
"""Seconds between two heartbeats."""
_RETRY = 0.1
"""Seconds after which a heartbeat that failed is sent again."""
_MARGIN = 0.5
"""Seconds before the end of the lease from which on this node does not act any more."""
_MOST_BEHIND = 10_000
"""A node that lacks more entries follows until it has them."""
_SOON = 0.02
"""Seconds after the end of a lease at which others try to take it."""
_FAILED = "heartbeat"
_SKEWED = "clock_skew"


class ClusterMembership:
    """Tells the others that this node is alive, and whether this process holds the lease."""

    def __init__(
        self, journal: SharedJournal, clock: Clock, node: Node, address: str, changed: Callable[[], None]
    ) -> None:
        """Call ``changed`` after each heartbeat, and when the lease may have ended."""
        self.state: ClusterState | None = None
        """The last answer of the database."""
        self.heard_at: float | None = None
        """When the heartbeat was sent that ``state`` answers, by the clock's seconds."""
        self.has_lost_entries = False
        """Whether the journal ended below the revision that this node held when it sent the last heartbeat."""
        self.is_candidate = True
        """Whether this node leads when the lease is free."""
        self.skew = timedelta()
        """How far this node's clock is ahead of the database's, at least."""
        self._journal = journal
        self._clock = clock
        self._node = node
        self._address = address
        self._changed = changed
        self._process = new_id()
        self._lease = (0, 0.0)
        """The term in which this process may act, and until when; in one, because other threads read it."""
        self._given_up = 0
        """The highest term that was lost or released: this process does not act in it any more."""
        self._talking = asyncio.Lock()
        self._hurried = asyncio.Event()
        self._beating: asyncio.Task[None] | None = None
        self._expiry: Timer | None = None

    def may_act(self, term: int) -> bool:
        """Return whether the lease of a term has certainly not ended yet; from any thread.

        A process can lose its lease and get another one before its parts have noticed: those may not act any more.
        """
        held, until = self._lease
        return held == term and self._clock.seconds() < until

    @property
    def term(self) -> int:
        """The term of the lease that this process holds; 0 where it holds none, or it may have ended."""
        term, _ = self._lease
        return term if self.may_act(term) else 0

    @property
    def is_unwanted(self) -> bool:
        """Whether this process holds a lease in the database without using it."""
        return self.state is not None and self._is_own(self.state.lease) and not self._lease[0]

    @property
    def heartbeat_age(self) -> float:
        """Seconds since the last heartbeat that was answered."""
        return 0.0 if self.heard_at is None else max(0.0, self._clock.seconds() - self.heard_at)

    @property
    def leader(self) -> KnownLeader | None:
        """The node that holds the lease, as far as is known here."""
        if self.state is None or self.heard_at is None:
            return None
        lease = self.state.lease
        if lease.remaining <= self.heartbeat_age:
            return None
        addresses = {each.report.name: each.report.address for each in self.state.members}
        return KnownLeader(lease.node, addresses.get(lease.node, ""), lease.term) if lease.node else None

    @property
    def unreachable(self) -> str:
        """Say which node the others cannot reach, and the remedy; empty where all are reached, or none is alive."""
        members = [each.report for each in self.state.members if each.age < LEASE] if self.state else []
        others = [each for each in members if each.name != self._node.name]
        without = next((each.name for each in others if not each.address), "")
        if not others or (self._address and not without):
            return ""
        lacking, other = (f"node {without!r}", "this one") if without else ("this node", f"node {others[0].name!r}")
        return (
            f"{lacking} has no address for other nodes, and {other} uses the same database, {self._journal.place}:"
            " set cluster and its certificates on every node, on those that run first, or give each service a"
            " database of its own"
        )

    async def start(self) -> None:
        """Join the cluster; raise BadInput where this node cannot be part of it."""
        began = self._clock.seconds()
        while True:
            try:
                await self._beat()
                refusal = self.unreachable
            except NodeNameTaken as error:
                refusal = str(error)
            except NewerJournal:
                raise
            except Exception as error:  # noqa: BLE001 - the heartbeats that follow may succeed
                self._note_failure(error)
                break
            if not refusal:
                break
            # The other process may just have ended without saying so.
            if self._clock.seconds() - began > 2 * LEASE:
                raise BadInput(refusal)
            await self._pause(INTERVAL)
        self._beating = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Send no more heartbeats, and leave the cluster."""
        self.is_candidate = False
        if self._beating:
            async with self._talking:  # a heartbeat that is under way may take the lease, which is then released
                self._beating.cancel()
            await asyncio.gather(self._beating, return_exceptions=True)
        self._end_lease()
        try:
            await self.release()
            async with self._talking:
                await _in_thread(lambda: self._journal.leave(self._node.name, self._process))
        except ForewarnError as error:
            log.warning("the cluster was left without a word", extra={"fields": {"reason": str(error)}})

    def hurry(self) -> None:
        """Send the next heartbeat now."""
        self._hurried.set()

    async def release(self) -> None:
        """Give the lease back, if this process holds it, so that another node can lead at once."""
        async with self._talking:
            self._end_lease()
            if self.state and self._is_own(self.state.lease):
                self._given_up = term = self.state.lease.term
                await _in_thread(lambda: self._journal.release_lease(self._node.name, term))

    async def _run(self) -> None:
        while True:
            await self._pause(self._until_next())
            try:
                await self._beat()
            except Exception as error:  # noqa: BLE001 - a journal may be third-party code
                self._note_failure(error)

    async def _beat(self) -> None:
        async with self._talking:
            report = self._report()
            sent, before = self._clock.seconds(), self._clock.now()
            state = await _in_thread(lambda: self._journal.heartbeat(report, LEASE))
            self._take(state, report, sent, before)
        self._changed()

    def _report(self) -> NodeReport:
        return NodeReport(
            name=self._node.name,
            process=self._process,
            address=self._address,
            release=__version__,
            format=FORMAT,
            revision=self._node.replica.revision,
            can_lead=self._can_lead(),
        )

    def _can_lead(self) -> bool:
        return (
            self.is_candidate
            and self.state is not None  # the clock was compared
            and abs(self.skew) <= LONGEST_SKEW
            and self.state.format <= FORMAT
            and self.state.revision - self._node.replica.revision <= _MOST_BEHIND
        )

    def _take(self, state: ClusterState, report: NodeReport, sent: float, before: datetime) -> None:
        if self._node.warnings.pop(_FAILED, None):
            log.info("the database answers heartbeats again")
        self.state, self.heard_at = state, sent
        self.has_lost_entries = state.revision < report.revision
        self._compare_clocks(state.now, before)
        if state.format > FORMAT:
            self._end_lease()
            raise NewerJournal(
                f"the nodes of this cluster write format {state.format}, and this release of Forewarn"
                f" ({__version__}) reads up to format {FORMAT}: upgrade it"
            )
        is_usable = state.lease.term > self._given_up and report.can_lead and self._can_lead()
        if self._is_own(state.lease) and is_usable:
            self._lease = state.lease.term, sent + LEASE - _MARGIN
            self._expect_end()
        else:
            self._end_lease()

    def _is_own(self, lease: LeaseState) -> bool:
        return lease.process == self._process and lease.remaining > 0

    def _compare_clocks(self, now: datetime, before: datetime) -> None:
        """Find out how far this node's clock is from the database's: at least so far, however long it took to ask."""
        after = self._clock.now()
        self.skew = max(before - now, timedelta()) or min(after - now, timedelta())
        if abs(self.skew) <= LONGEST_SKEW:
            self._node.warnings.pop(_SKEWED, None)
            return
        seconds = abs(self.skew).total_seconds()
        where = "ahead of" if self.skew > timedelta() else "behind"
        said = (
            f"the clock of this node is {seconds:.1f} s {where} the database's, so this node does not lead:"
            " set the clock that is wrong, this node's or the database's, and run chrony or systemd-timesyncd on both"
        )
        if _SKEWED not in self._node.warnings:
            log.warning("the clock differs from the database's", extra={"fields": {"reason": said}})
        self._node.warnings[_SKEWED] = said

    def _expect_end(self) -> None:
        if self._expiry:
            self._expiry.cancel()
        _, until = self._lease
        left = max(0.0, until - self._clock.seconds()) + _SOON
        self._expiry = self._clock.call_later(timedelta(seconds=left), self._note_expiry)

    def _note_expiry(self) -> None:
        self._expiry = None
        term, _ = self._lease
        if term and self.may_act(term):
            self._expect_end()  # timers may be early
        elif term:
            log.warning("the lease may have ended", extra={"fields": {"term": term}})
            self._changed()

    def _end_lease(self) -> None:
        self._lease = (0, 0.0)
        if self._expiry:
            self._expiry.cancel()
            self._expiry = None

    def lose(self) -> None:
        """Act no more: the journal said that the lease is lost. The next heartbeat tells who leads."""
        self._given_up = max(self._given_up, self._lease[0])
        self._end_lease()
        self.hurry()
        self._changed()

    def _note_failure(self, error: Exception) -> None:
        said = str(error) or type(error).__name__
        if _FAILED not in self._node.warnings:
            log.warning("a heartbeat failed", extra={"fields": {"reason": said}})
        self._node.warnings[_FAILED] = f"the last heartbeat failed: {said}"

    def _until_next(self) -> float:
        """Return the seconds until the next heartbeat: sooner, where one failed, or a lease ends before that."""
        if _FAILED in self._node.warnings and (self.state is None or self.state.format <= FORMAT):
            return _RETRY
        if self.state is None or self.heard_at is None or not self._can_lead():
            return INTERVAL
        if self._is_own(self.state.lease):
            return INTERVAL
        return min(INTERVAL, max(self.state.lease.remaining - self.heartbeat_age, 0.0) + _SOON)

    async def _pause(self, seconds: float) -> None:
        timer = self._clock.call_later(timedelta(seconds=seconds), self._hurried.set)
        try:
            await self._hurried.wait()
        finally:
            timer.cancel()
            self._hurried.clear()


async def _in_thread(call: Callable[[], _Value]) -> _Value:
    return await asyncio.get_running_loop().run_in_executor(THREADS, call_journal, call)
