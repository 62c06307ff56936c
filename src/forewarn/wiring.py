"""Joins the parts of one service: a node and its metadata plane, around a journal, a driver and a clock.

Parts start in the order in which they stand here and stop in the opposite one: nothing listens before it can answer,
and nothing is closed while another part may still need it. Nothing in this file needs Unix.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from socket import socket
from typing import Protocol

from forewarn.clocks import Clock
from forewarn.config.settings import Settings
from forewarn.control.server.fleet_applier import FleetApplier, FleetFileReport, apply_desired_fleet, check_file
from forewarn.core.commands import Approve, Enrol
from forewarn.core.errors import BadInput, nearest
from forewarn.core.event_types import DEFAULT_NOTICES
from forewarn.core.model import Caller, CallerKind
from forewarn.core.notice import Rules
from forewarn.fleetfile.parser import DesiredFleet
from forewarn.journal.port import Journal, MaintainedJournal
from forewarn.metadata.caller import CallerResolver
from forewarn.metadata.connections import ConnectionRegistry
from forewarn.metadata.document_cache import DocumentCache
from forewarn.metadata.identity import Identity
from forewarn.metadata.interface_listeners import make_listener
from forewarn.metadata.limits import Limits
from forewarn.metadata.listener import MetadataListener
from forewarn.metadata.request import AllowedHosts
from forewarn.metadata.request_records import RequestRecorder, RequestRecords
from forewarn.metadata.service import MetadataService
from forewarn.node.driver import Driver
from forewarn.node.driver_calls import close_driver
from forewarn.node.fact_log import FactLog
from forewarn.node.fleet_warnings import HeldChangeWarnings, QuietWarnings
from forewarn.node.leader import Leader
from forewarn.node.node import Node
from forewarn.randomness import new_id
from forewarn.wire.approval import Approval

log = logging.getLogger(__name__)


class MetadataServer(Protocol):
    """Where callers arrive."""

    @property
    def port(self) -> int:
        """The port that callers reach it by, once it has started."""

    async def start(self) -> None:
        """Begin to answer."""

    async def stop(self) -> None:
        """Finish the answers that are owed, and close every connection."""


class SharedLeadership(Protocol):
    """Says when this process leads, where several nodes share the journal."""

    async def start(self) -> None:
        """Begin to follow, and to lead when it is this node's turn. The journal is loaded."""

    async def stop(self) -> None:
        """Resign, and follow no more."""


class Assembly:
    """A node and its metadata plane, joined to a journal, a driver and a clock."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        journal: Journal,
        driver: Driver,
        server: Callable[[MetadataService], MetadataServer] | None = None,
        sockets: Sequence[socket] = (),
        service: type[MetadataService] = MetadataService,
    ) -> None:
        self.settings = settings
        self.journal = journal
        self.driver = driver
        self.node = Node(journal, clock, rules_of(settings))
        self.node.driver_name = settings.driver
        identity = Identity(settings.identity)
        self.document_cache = DocumentCache(clock.seconds, identity)
        self.records = RequestRecords(self.document_cache, self.node.writer.rules, clock.seconds, clock.now)
        self._callers = CallerResolver(self.document_cache, settings.default_vm, identity)
        self.metadata = service(
            self.document_cache,
            self._callers,
            self.records,
            limits_of(settings),
            enrol=self._enrol,
            approve=self._approve,
            seconds=clock.seconds,
            now=clock.now,
        )
        self.leadership: SharedLeadership | None = None
        """Where several nodes share the journal; without it, this process leads from its start until its stop."""
        self.leader = Leader(self.node, driver)
        self.leader.rollout_checker.programs = settings.gate_programs
        self.recorder = RequestRecorder(self.node, self.records)
        warnings = self.node.warnings
        for listener in (FactLog(), HeldChangeWarnings(warnings), QuietWarnings(warnings), self.document_cache):
            self.node.replica.subscribe(listener)
        self.before_leading: Callable[[], Awaitable[None]] | None = None
        """Called before anything is done to machines."""
        self.on_reconfigured: Callable[[Settings], None] = lambda _: None
        """Called with settings that changed while the service runs."""
        self.port = 0
        """Where VMs are answered, once it has started."""
        self._open = server or self._listen
        self._sockets = sockets
        self._registry: ConnectionRegistry | None = None
        self._listener: MetadataListener | None = None
        self._parts = AsyncExitStack()

    async def start(
        self, on_loaded: Callable[[], None] = lambda: None, open_sockets: Callable[[], None] = lambda: None
    ) -> None:
        """Load the journal, apply the fleet file, and begin to answer; on failure nothing is left behind.

        ``on_loaded`` is called when the fleet is in memory and no request has been answered yet. ``open_sockets`` is
        called before anything is written: an address that is in use must not be found after that.
        """
        async with AsyncExitStack() as parts:
            parts.callback(self.journal.close)
            parts.push_async_callback(self.node.stop)
            parts.push_async_callback(close_driver, self.driver)
            if self.leadership:
                await self._join(self.leadership, parts, on_loaded, open_sockets)
                self._parts = parts.pop_all()
                return
            parts.push_async_callback(self.leader.resign)
            await self.node.start()
            server = self._open(self.metadata)
            parts.push_async_callback(server.stop)
            open_sockets()
            await self.apply_configured_fleet()
            self.check_default_vm(is_start=True)
            if self.before_leading:
                await self.before_leading()
            await self.leader.lead()
            on_loaded()
            self.recorder.start()
            parts.push_async_callback(self.recorder.stop)
            await server.start()
            self.port = server.port
            self._parts = parts.pop_all()

    async def _join(
        self,
        leadership: SharedLeadership,
        parts: AsyncExitStack,
        on_loaded: Callable[[], None],
        open_sockets: Callable[[], None],
    ) -> None:
        """Load the journal that several nodes share, begin to answer, and lead when it is this node's turn."""
        await self.node.load()
        if self.settings.fleet and (self.settings.strict or self.node.replica.fleet.is_empty):
            await asyncio.to_thread(check_file, self.settings.fleet)
        parts.push_async_callback(leadership.stop)
        server = self._open(self.metadata)
        parts.push_async_callback(server.stop)
        open_sockets()
        self.check_default_vm(is_start=False)
        on_loaded()
        await leadership.start()
        await server.start()
        self.port = server.port

    async def lead(self) -> None:
        """Start what only a leader does; on failure nothing of it is left running."""
        await self.leader.lead()
        self.recorder.start()

    async def resign(self) -> None:
        """Stop what only a leader does. Repeating it does nothing."""
        try:
            await self.recorder.stop()
        finally:
            await self.leader.resign()

    async def stop(self) -> None:
        """Finish the answers that are owed, and let go of everything."""
        await self._parts.aclose()

    def reconfigure(self, settings: Settings) -> None:
        """Take over the settings that may change while the service runs."""
        before, self.settings = self.settings, settings
        self.node.writer.rules = rules_of(settings)
        if settings.maintenance_windows != before.maintenance_windows:
            self.leader.stir_rollouts()
        limits = limits_of(settings)
        self.metadata.set_limits(limits)
        if self._registry is not None and self._listener is not None:
            self._registry.limits = limits
            if settings.allowed_hosts != before.allowed_hosts:
                self._registry.request_cache.set_hosts(hosts_of(settings))
            if settings.answer_ttl != before.answer_ttl:
                self._listener.set_ttl(settings.answer_ttl)
        self._callers.default_vm = settings.default_vm
        self.check_default_vm(is_start=False)
        if isinstance(self.journal, MaintainedJournal):
            self.journal.keep_history(settings.kept_history)
        self.on_reconfigured(settings)

    async def declare(self, desired: DesiredFleet, by: Caller) -> None:
        """Apply a declaration; raise what it is refused for."""
        await apply_desired_fleet(self.node, desired, by)

    async def apply_configured_fleet(self) -> None:
        """Apply the fleet file that the settings name, if any, as a start does."""
        if self.settings.fleet:
            await self.apply_fleet_file(self.settings.fleet, strict=self.settings.strict)

    async def apply_fleet_file(self, path: Path, by: str = "serve", *, strict: bool = False) -> FleetFileReport:
        """Apply a fleet file as a start does, at start or later; say what was done, held, left out and found wrong.

        What is recorded never makes it fail. A file that is wrong in itself raises BadInput where the fleet is empty
        or ``strict`` is set; else it changes nothing and the report names the problem. A node that does not lead only
        checks the file: the one that leads applies its own.
        """
        if not self.node.writer.is_leading:
            await asyncio.to_thread(check_file, path)
            return FleetFileReport(source=str(path), is_unchanged=True)
        caller = Caller(CallerKind.OPERATOR, by, path.name)
        return await FleetApplier(self.node).apply_file(path, caller, strict=strict)

    @property
    def connections(self) -> int:
        return 0 if self._registry is None else len(self._registry)

    @property
    def listening(self) -> Sequence[socket]:
        return () if self._listener is None else self._listener.listening

    async def settled(self) -> None:
        """Return once nothing is under way: whatever is still to happen waits for the clock, or for a caller."""
        while self.busy:  # noqa: ASYNC110 - only tests and emulators ask
            await asyncio.sleep(0)

    @property
    def busy(self) -> list[str]:
        """The parts that have something under way."""
        parts = (self.node, self.recorder, self.metadata)
        return [*(type(part).__name__.lower() for part in parts if not part.is_idle), *self.leader.busy]

    def _listen(self, service: MetadataService) -> MetadataServer:
        settings = self.settings
        self._registry = ConnectionRegistry(service, limits_of(settings), hosts_of(settings))
        identity = Identity(settings.identity)
        taps = self.document_cache.vm_entries.keys()
        self._listener = make_listener(
            identity, self._registry, settings.metadata, taps, settings.answer_ttl, self._sockets
        )
        return self._listener

    def check_default_vm(self, *, is_start: bool) -> None:
        """Warn while the fleet has no such VM. Only at the first start of all that is a mistake to refuse."""
        name, vms = self.settings.default_vm, self.node.replica.fleet.vms
        self.node.warnings.pop("default_vm", None)
        if name and name not in vms:
            said = f"default_vm is {name!r}, but the fleet has no such VM{nearest(name, vms)}"
            if is_start and not self.node.replica.revision:
                raise BadInput(said)
            said += "; callers on this machine are refused until it has"
            self.node.warnings["default_vm"] = said
            log.warning("default_vm is not in the fleet", extra={"fields": {"vm": name, "reason": said}})

    async def _enrol(self, group: str, vm: str) -> None:
        by = Caller(CallerKind.VM, vm)
        await self.node.begin(Enrol(id=new_id(), by=by, group=group, vm=vm))

    def _approve(self, vm: str, said: Approval) -> Awaitable[object]:
        known = self.node.replica.fleet.vms.get(vm)
        by = Caller(CallerKind.VM, vm, known.address if known else "")
        command = Approve(id=new_id(), by=by, events=said.events, postponements=said.postponements)
        return self.node.begin(command)


def rules_of(settings: Settings) -> Rules:
    return Rules(
        notices={type_: getattr(settings.notice, type_) for type_ in DEFAULT_NOTICES},
        user_operation_limit=settings.user_operation_limit,
        maintenance_windows=settings.maintenance_windows,
    ).hurried(settings.hurry)


def hosts_of(settings: Settings) -> AllowedHosts:
    """Return the names by which VMs may call the metadata plane: those configured, and the one it listens on."""
    return AllowedHosts((*settings.allowed_hosts, settings.metadata.host))


def limits_of(settings: Settings) -> Limits:
    return Limits(
        rate=settings.rate_limit,
        burst=settings.rate_burst,
        connections=settings.connections,
        connections_per_caller=settings.connections_per_caller,
    )
