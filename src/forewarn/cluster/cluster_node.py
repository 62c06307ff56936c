"""The role of this process in its cluster: it follows the journal, or it leads.

                 lease taken: stop following, catch up, take commands, start the leader's parts
     following ──────────────────────────────────────────────────────────────────────────────▶ leading
         ▲                                                                                        │
         └── lease lost, or passed on: stop the parts, take no commands, follow again ────────────┘

One task compares the role with the lease and takes one step after another, so that a lease that ends in the middle of
a step, or a step that fails, is dealt with next. What must not happen without the lease, the database and the check
before each driver call prevent, not the speed of these steps.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from enum import StrEnum

from forewarn.cluster.following import ReplicaFollower
from forewarn.cluster.identity import ClusterIdentity
from forewarn.cluster.leadership import KnownLeader
from forewarn.cluster.membership import LEASE, ClusterMembership
from forewarn.cluster.metadata_service import ClusterMetadataService
from forewarn.control.bodies import ClusterView, NodeView
from forewarn.core.errors import ForewarnError, Unavailable
from forewarn.core.fact import FORMAT
from forewarn.journal.shared import ClusterMember, SharedJournal, SupportsIdentity
from forewarn.wiring import Assembly

log = logging.getLogger(__name__)

_PAUSE = timedelta(seconds=5)
"""How long a node that could not lead leaves the lease to others."""
_LONGEST_DRAIN = timedelta(seconds=10)
"""How long a node that stops waits for the next leader."""
_MARKS = 100
_POLL_INTERVAL = timedelta(seconds=0.5)
_BEHIND = "behind"
_UNREACHABLE = "cluster"


class NodeRole(StrEnum):
    """What a node does."""

    FOLLOWING = "following"
    LEADING = "leading"
    CHANGING = "changing"


class ClusterNode:
    """Leads while this process holds the lease, and follows otherwise."""

    def __init__(self, assembly: Assembly, journal: SharedJournal, name: str, address: str) -> None:
        self.role = NodeRole.FOLLOWING
        self.on_leader: Callable[[KnownLeader], None] = lambda _: None
        """Called when another node leads than before."""
        node = assembly.node
        node.name = name
        self.membership = ClusterMembership(journal, node.clock, node, address, self._note_change)
        self.follower = ReplicaFollower(node, journal, self.membership.hurry)
        node.writer.on_lease_lost = self.membership.lose
        node.writer.on_diverged = self._lead_anew
        node.writer.may_answer = self._may_answer
        assembly.leader.may_act = self.membership.may_act
        assembly.leadership = self
        self._assembly = assembly
        self._node = node
        self._journal = journal
        self._term = 0
        """The term in which this process leads, or is about to, or has not yet resigned."""
        self._is_draining = False
        self._news = asyncio.Event()
        self._adjusting: asyncio.Task[None] | None = None
        self._polling: asyncio.Task[None] | None = None
        self._applying: asyncio.Task[None] | None = None
        self._known: KnownLeader | None = None
        self._current_at = node.clock.seconds()
        self._marks: deque[tuple[float, int]] = deque(maxlen=_MARKS)
        """When the last heartbeats were sent, and the revision that each of them found."""

    @property
    def is_leading(self) -> bool:
        """Whether this node leads, and takes commands."""
        return self.role is NodeRole.LEADING and self._node.writer.is_leading

    @property
    def leader(self) -> KnownLeader | None:
        """The node that leads; None while there is none, or it is not known."""
        leader = self.membership.leader
        is_self = leader is not None and leader.name == self._node.name
        return None if is_self and not self.is_leading else leader

    @property
    def revisions_behind(self) -> int:
        """How many entries the journal held at the last heartbeat that the replica does not hold."""
        state = self.membership.state
        return max(0, state.revision - self._node.replica.revision) if state else 0

    @property
    def age(self) -> float:
        """Seconds since the replica certainly held everything that was durable; 0 where this node leads."""
        now = self._node.clock.seconds()
        if self.is_leading and self.membership.may_act(self._term):
            self._current_at = now
            self._marks.clear()
        reached = [sent for sent, revision in self._marks if revision <= self._node.replica.revision]
        if reached:
            self._current_at = max(self._current_at, reached[-1])
            while self._marks[0][0] <= reached[-1]:
                self._marks.popleft()
                if not self._marks:
                    break
        return max(0.0, now - self._current_at)

    @property
    def is_behind(self) -> bool:
        """Whether the replica is older than the settings allow."""
        return self.age > self._assembly.settings.behind_after.total_seconds()

    def view(self) -> ClusterView:
        """Describe this node and the others for operators."""
        state, leader, age = self.membership.state, self.leader, self.age
        return ClusterView(
            node=self._node.name,
            role=self.role.value,
            leader=leader.name if leader else "",
            term=state.lease.term if state else 0,
            heartbeat_age=self.membership.heartbeat_age,
            revisions_behind=self.revisions_behind,
            behind=age,
            is_behind=self.is_behind,
            clock_skew=self.membership.skew.total_seconds(),
            format=state.format if state else 0,
            reloads=self.follower.reloads,
            nodes=tuple(_node_view(each) for each in state.members) if state else (),
        )

    async def confirm(self) -> bool:
        """Return whether this node leads, and its replica holds everything that is durable.

        While an append is under way, or its outcome is not known, other nodes may hold more.
        """
        try:
            await self._node.writer.confirm()
        except Unavailable:
            return False
        return self.is_leading and self.membership.may_act(self._term)

    async def start(self) -> None:
        """Begin to follow, and lead when it is this node's turn. The journal is loaded."""
        if isinstance(self._journal, SupportsIdentity):
            settings = self._assembly.settings
            identity = ClusterIdentity(settings.data, settings.cluster_authority if settings.cluster else None)
            await asyncio.to_thread(identity.check, self._journal)
        self._current_at = self._node.clock.seconds()
        self.follower.start()
        await self.membership.start()
        self._adjusting = asyncio.create_task(self._run())
        self._polling = asyncio.create_task(self._poll())

    async def stop(self) -> None:
        """Resign, follow no more, and leave the cluster."""
        self.membership.is_candidate = False
        tasks = [task for task in (self._polling, self._adjusting) if task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._term:
            await self._resign(at_once=False)
        await self.follower.stop()
        await self.membership.stop()

    async def drain(self) -> None:
        """Pass leadership on; return when another node leads, or none can, or that takes too long."""
        clock = self._node.clock
        until = clock.seconds() + _LONGEST_DRAIN.total_seconds()
        self._is_draining = True
        self._news.set()
        while clock.seconds() < until and not self._is_replaced():
            await self._pause(timedelta(seconds=0.05))

    def _is_replaced(self) -> bool:
        if self._term:
            return False
        state = self.membership.state
        others = [each for each in state.members if each.report.name != self._node.name] if state else []
        leader = self.leader
        # A node that was not heard of for a lease may be paused or dead: no node waits for it.
        can_lead = any(each.report.can_lead and each.age + self.membership.heartbeat_age < LEASE for each in others)
        return not can_lead or bool(leader and leader.name != self._node.name)

    def _note_change(self) -> None:
        state, heard_at = self.membership.state, self.membership.heard_at
        if state and heard_at is not None:
            self._marks.append((heard_at, state.revision))
            self._node.writer.format = min(state.format, FORMAT)
        leader = self.leader
        if leader and leader != self._known:
            log.info("the leader is known", extra={"fields": {"leader": leader.name, "term": leader.term}})
            self.on_leader(leader)
            self._known = leader
        self._news.set()

    async def _run(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            try:
                await self._adjust()
            except ForewarnError as error:
                log.warning("this node cannot lead", extra={"fields": {"reason": str(error)}})
                await self._leave_to_others()
            except Exception:
                log.exception("this node cannot lead")
                await self._leave_to_others()

    async def _poll(self) -> None:
        """Report when this node is behind, and answer VMs or not, as the settings say."""
        while True:
            self._note_age()
            await self._pause(_POLL_INTERVAL)

    def _note_age(self) -> None:
        metadata, warnings = self._assembly.metadata, self._node.warnings
        is_behind = self.is_behind
        if is_behind != (_BEHIND in warnings):
            fields = {"seconds": round(self.age, 1), "revisions": self.revisions_behind}
            log.warning(
                "this node began or ceased to be behind", extra={"fields": {"is_behind": is_behind, **fields}}
            )
        if is_behind:
            warnings[_BEHIND] = (
                f"this node has not held everything for {self.age:.0f} s, and lacks {self.revisions_behind} entries:"
                " check that it reaches the database"
            )
        else:
            warnings.pop(_BEHIND, None)
        if unreachable := self.membership.unreachable:
            warnings[_UNREACHABLE] = unreachable
        else:
            warnings.pop(_UNREACHABLE, None)
        if isinstance(metadata, ClusterMetadataService):
            if is_behind and not self._assembly.settings.answer_behind:
                metadata.silence()
            else:
                metadata.is_silent = False

    async def _adjust(self) -> None:
        """Take the steps from the role to what the lease says."""
        if self._term and self.membership.has_lost_entries:
            self._give_up_term()
        if self._term and self._is_draining:
            await self._resign(at_once=False)
        if self._term and self._term != self.membership.term:
            await self._resign(at_once=True)
        if self._is_draining:
            self.membership.is_candidate = False
        elif (term := self.membership.term) and not self._term:
            try:
                await self._lead(term)
            except BaseException:
                await self._resign(at_once=True)
                raise
        if self.membership.is_unwanted or self._is_draining:
            with suppress(ForewarnError):  # else it ends by itself
                await self.membership.release()

    async def _lead(self, term: int) -> None:
        self.role, self._term = NodeRole.CHANGING, term
        await self.follower.stop()
        self._journal.begin_term(term)
        await self._node.lead(term)
        if not self.membership.may_act(term):
            await self._resign(at_once=True)
            return
        await self._assembly.lead()
        self.role = NodeRole.LEADING
        log.info("this node leads", extra={"fields": {"term": term, "revision": self._node.replica.revision}})
        self._applying = asyncio.create_task(self._apply_fleet_file())

    def _may_answer(self) -> bool:
        return self.membership.may_act(self._term)

    def _lead_anew(self) -> None:
        """Lead in a new term: numbers of attempts that were lost come again."""
        self.follower.reloads += 1
        self._node.writer.stand_down()
        self._give_up_term()

    def _give_up_term(self) -> None:
        log.warning("the journal lost entries that this node held; it leads anew, from what is left")
        self.membership.lose()

    async def _resign(self, *, at_once: bool) -> None:
        """Stop what only a leader does, and follow again; whatever of it fails, the rest is done."""
        self.role = NodeRole.CHANGING
        if at_once:
            self._node.writer.stand_down()
        if self._applying:
            self._applying.cancel()
            await asyncio.gather(self._applying, return_exceptions=True)
        try:
            await self._assembly.resign()
        finally:
            try:
                await self._node.resign(at_once=at_once)
            finally:
                self._journal.begin_term(0)
                log.info("this node follows", extra={"fields": {"term": self._term, "passed_on": not at_once}})
                self._term, self.role = 0, NodeRole.FOLLOWING
                self.follower.start()

    async def _leave_to_others(self) -> None:
        """Let another node try to lead, before this one tries again."""
        self.membership.is_candidate = False
        with suppress(ForewarnError):
            await self.membership.release()
        await self._pause(_PAUSE)
        self.membership.is_candidate = not self._is_draining

    async def _apply_fleet_file(self) -> None:
        try:
            await self._assembly.apply_configured_fleet()
        except ForewarnError as error:
            self._node.warnings["fleet_file"] = f"the fleet file was not applied: {error}"
            log.error("the fleet file was not applied", extra={"fields": {"reason": str(error)}})  # noqa: TRY400

    async def _pause(self, delay: timedelta) -> None:
        woken = asyncio.Event()
        timer = self._node.clock.call_later(delay, woken.set)
        try:
            await woken.wait()
        finally:
            timer.cancel()


def _node_view(member: ClusterMember) -> NodeView:
    report = member.report
    return NodeView(
        name=report.name,
        address=report.address,
        release=report.release,
        format=report.format,
        revision=report.revision,
        can_lead=report.can_lead,
        age=member.age,
    )
