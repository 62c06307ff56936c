"""Joins the parts of one service: a node and its metadata plane, around a journal, a driver and a clock.

Parts start in the order in which they stand here and stop in the opposite one: nothing listens before it can answer,
and nothing is let go of while somebody may still need it. Nothing in this file needs Unix.
"""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Protocol
from uuid import uuid4

from forewarn.clocks import Clock
from forewarn.config.settings import Settings
from forewarn.control import wish
from forewarn.control.difference import Declared, difference
from forewarn.control.wish import Wish
from forewarn.core.commands import Approve, ChangeFleet, Enrol
from forewarn.core.errors import BadInput, nearest
from forewarn.core.model import Caller, CallerKind
from forewarn.core.notice import Rules
from forewarn.journal.port import Journal
from forewarn.metadata.caller import Callers
from forewarn.metadata.desk import Desk
from forewarn.metadata.edge import Edge
from forewarn.metadata.identity import Identity
from forewarn.metadata.limits import Limits
from forewarn.metadata.recorder import Recorder
from forewarn.metadata.records import Records
from forewarn.metadata.service import Service
from forewarn.metadata.wires import listener_of
from forewarn.node.driver import Driver
from forewarn.node.keeper import Keeper
from forewarn.node.log import FactLog
from forewarn.node.node import Node
from forewarn.node.performer import Performer
from forewarn.node.waker import Waker
from forewarn.node.watcher import Watcher
from forewarn.wire.approval import Approval


class Entrance(Protocol):
    """Where callers arrive."""

    @property
    def port(self) -> int:
        """The port that callers reach it by, once it has started."""

    async def start(self) -> None:
        """Begin to answer."""

    async def stop(self) -> None:
        """Finish the answers that are owed, and close every connection."""


class Assembly:
    """A node and its metadata plane, joined to a journal, a driver and a clock."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        journal: Journal,
        driver: Driver,
        entrance: Callable[[Service], Entrance] | None = None,
    ) -> None:
        self.settings = settings
        self.journal = journal
        self.driver = driver
        self.node = Node(journal, clock, rules_of(settings))
        identity = Identity(settings.identity)
        self.desk = Desk(clock.seconds, identity)
        self.records = Records(self.desk, self.node.rules, clock.seconds, clock.now)
        self.metadata = Service(
            self.desk,
            Callers(self.desk, settings.default_vm, identity),
            self.records,
            limits_of(settings),
            enrol=self._enrol,
            approve=self._approve,
            seconds=clock.seconds,
            now=clock.now,
        )
        self.waker = Waker(self.node)
        self.performer = Performer(self.node, driver)
        self.watcher = Watcher(self.node, driver)
        self.keeper = Keeper(self.node)
        self.recorder = Recorder(self.node, self.records)
        for listener in (FactLog(), self.desk, self.waker, self.performer, self.keeper):
            self.node.feed.subscribe(listener)
        self.port = 0
        """Where VMs are answered, once it has started."""
        self._open = entrance or self._listen
        self._edge: Edge | None = None
        self._parts = AsyncExitStack()

    async def start(self, on_loaded: Callable[[], None] = lambda: None) -> None:
        """Load the journal, apply the fleet file, and begin to answer; on failure nothing is left behind.

        ``on_loaded`` is called when the fleet is in memory and nobody has been answered yet.
        """
        async with AsyncExitStack() as parts:
            parts.callback(self.journal.close)
            parts.push_async_callback(self.node.stop)
            parts.push_async_callback(self.keeper.stop)
            parts.push_async_callback(self.performer.stop)
            parts.push_async_callback(self.waker.stop)
            await self.node.start()
            entrance = self._open(self.metadata)
            parts.push_async_callback(entrance.stop)
            if self.settings.fleet:
                path = self.settings.fleet
                await self.declare(wish.read(path), Caller(CallerKind.OPERATOR, "serve", path.name))
            self._check_default_vm()
            self.watcher.start()
            parts.push_async_callback(self.watcher.stop)
            on_loaded()
            self.recorder.start()
            parts.push_async_callback(self.recorder.stop)
            await entrance.start()
            self.port = entrance.port
            self._parts = parts.pop_all()

    async def stop(self) -> None:
        """Finish the answers that are owed, and let go of everything."""
        await self._parts.aclose()

    async def declare(self, wished: Wish, by: Caller) -> None:
        """Make the fleet what is wished."""
        change = difference(wished, Declared.of(self.node.fleet))
        fields = {key: getattr(change, key) for key in change.__struct_fields__}
        await self.node.submit(ChangeFleet(id=uuid4().hex, by=by, **fields))

    @property
    def connections(self) -> int:
        """How many connections VMs have open."""
        return 0 if self._edge is None else len(self._edge)

    async def settled(self) -> None:
        """Return once nothing is under way: whatever is still to happen waits for the clock, or for a caller."""
        parts = (self.node, self.waker, self.watcher, self.performer, self.recorder, self.keeper, self.metadata)
        while not all(part.is_idle for part in parts):  # noqa: ASYNC110 - only tests and emulators ask
            await asyncio.sleep(0)

    def _listen(self, service: Service) -> Entrance:
        settings = self.settings
        self._edge = Edge(service, limits_of(settings))
        identity = Identity(settings.identity)
        return listener_of(identity, self._edge, settings.metadata, self.desk.seats.keys(), settings.answer_ttl)

    def _check_default_vm(self) -> None:
        name = self.settings.default_vm
        if name and name not in self.node.fleet.vms:
            raise BadInput(
                f"default_vm is {name!r}, but the fleet has no such VM{nearest(name, self.node.fleet.vms)}"
            )

    async def _enrol(self, group: str, vm: str) -> None:
        by = Caller(CallerKind.VM, vm)
        await self.node.submit(Enrol(id=uuid4().hex, by=by, group=group, vm=vm))

    async def _approve(self, vm: str, said: Approval) -> None:
        by = Caller(CallerKind.VM, vm, self.node.fleet.vms[vm].address if vm in self.node.fleet.vms else "")
        await self.node.submit(Approve(id=uuid4().hex, by=by, events=said.events, postponements=said.postponements))


def rules_of(settings: Settings) -> Rules:
    """Return the rules that the settings ask for."""
    notice = settings.notice
    return Rules(
        freeze_notice=notice.freeze,
        reboot_notice=notice.reboot,
        redeploy_notice=notice.redeploy,
        preempt_notice=notice.preempt,
        user_operation_limit=settings.user_operation_limit,
    ).hurried(settings.hurry)


def limits_of(settings: Settings) -> Limits:
    """Return the limits of the metadata plane that the settings ask for."""
    return Limits(
        rate=settings.rate_limit,
        burst=settings.rate_burst,
        connections=settings.connections,
        connections_per_caller=settings.connections_per_caller,
    )
