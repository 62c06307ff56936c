"""One process of the service: the replica that everything reads, and the writer that every command goes to."""

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from typing import Protocol

from forewarn.clocks import Clock
from forewarn.core.commands import CheckDeadlines, Command
from forewarn.core.errors import Unavailable
from forewarn.core.facts import AnyFact
from forewarn.core.model import NODE
from forewarn.core.notice import Rules
from forewarn.journal.port import Journal, MaintainedJournal
from forewarn.node.replica import Replica
from forewarn.node.timekeeper import warning_of
from forewarn.node.writer import Writer
from forewarn.randomness import new_id


class CommandForwarder(Protocol):
    """The way to the node that leads, for commands of VMs."""

    def begin(self, command: Command) -> "asyncio.Future[None]":
        """Pass a command on; the future is done when it is durable and this replica holds it, or raises the refusal.

        It waits some seconds for a leader where there is none, and then raises Unavailable.
        """


class Node:
    """A replica, a writer, and what the process tells its operator."""

    def __init__(self, journal: Journal, clock: Clock, rules: Rules) -> None:
        self.clock = clock
        self.name = ""
        """What this node is called among those that share the journal; empty where it is the only one."""
        self.term = 0
        """The term in which this node leads; 0 where it is the only node."""
        self.driver_name = ""
        """What the settings call the driver of its machines: it is recorded with each attempt."""
        self.progress: dict[str, str] = {}
        """How far Started events are, in their driver's words. Not on record: the next process asks anew."""
        self.warnings: dict[str, str] = {}
        """What needs an operator at present, by topic; health and ``forewarn doctor`` show it."""
        self.forwarder: CommandForwarder | None = None
        """The way to the leader while this node does not lead; None where it is the only node."""
        self.replica = Replica(journal)
        self.writer = Writer(self.replica, journal, clock, rules, self.warnings)
        self.journal = journal

    @property
    def is_idle(self) -> bool:
        """Whether no command is under way."""
        return self.writer.is_idle

    async def start(self) -> None:
        """Load the journal and tell the listeners what the fleet is."""
        await self.writer.start()
        await self.check_clock()

    async def load(self) -> None:
        """Load the journal, tell the listeners what the fleet is, and follow."""
        await self.writer.load()

    async def lead(self, term: int) -> None:
        """Take commands from now on, in this term; on failure it does not lead."""
        self.term = term
        await self.writer.lead()
        await self.check_clock()

    async def resign(self, *, at_once: bool = False) -> None:
        """Finish what was submitted, or ``at_once`` only what is being appended, and follow."""
        await self.writer.resign(at_once=at_once)
        self.term = 0

    async def stop(self) -> None:
        """Finish what was submitted, then take nothing more in."""
        await self.writer.stop()
        await self.replica.close()

    async def submit(self, command: Command) -> tuple[AnyFact, ...]:
        """Return what the command made happen, once that is durable; raise what it was refused for.

        A node that does not lead refuses it with ``NotLeading``.
        """
        return await self.writer.begin(command)

    def begin(self, command: Command) -> Awaitable[object]:
        """Submit a command of a VM, to the leader where that is another node; the result is raised or discarded."""
        if self.forwarder is None or self.writer.is_leading:
            return self.writer.begin(command)
        return self.forwarder.begin(command)

    async def check_clock(self) -> None:
        """Record a step of the wall clock, and warn of it for a day."""
        timekeeper = self.writer.timekeeper
        timekeeper.read(self.replica.fleet.last_at)
        if timekeeper.unrecorded:
            with suppress(Unavailable):  # it is recorded with the next command
                await self.submit(CheckDeadlines(id=new_id(), by=NODE, events=()))
        if timekeeper.is_cautious and (step := self.replica.fleet.clock_step):
            self.warnings["clock"] = warning_of(step)
        else:
            self.warnings.pop("clock", None)

    async def take_snapshot_if_due(self) -> None:
        """Have a snapshot taken beside the writer, then delete old entries in short steps."""
        journal = self.journal
        if not isinstance(journal, MaintainedJournal) or not journal.snapshot_due:
            return
        await self.check_clock()
        timekeeper = self.writer.timekeeper
        is_more = not timekeeper.is_cautious
        await asyncio.to_thread(journal.take_snapshot, release=is_more, now=self.clock.now())
        while is_more and not timekeeper.is_cautious:
            is_more = await self.writer.compact(journal)
