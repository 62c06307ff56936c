"""Puts the parts together. The only place that picks implementations.

Parts start in the order in which they stand here and stop in the opposite one: nothing listens before it can answer,
and nothing is let go of while somebody may still need it.
"""

import asyncio
import gc
import logging
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import cast
from uuid import uuid4

from forewarn import plugins
from forewarn.clocks import Clock, SystemClock
from forewarn.config.settings import Settings
from forewarn.control import wish
from forewarn.control.calls import Calls
from forewarn.control.difference import Declared, difference
from forewarn.control.socket import ControlSocket
from forewarn.core.commands import Approve, ChangeFleet, Enrol
from forewarn.core.errors import BadInput, nearest
from forewarn.core.model import Caller, CallerKind
from forewarn.core.notice import Rules
from forewarn.journal.port import Journal
from forewarn.metadata.caller import Callers
from forewarn.metadata.desk import Desk
from forewarn.metadata.edge import Edge
from forewarn.metadata.limits import Limits, provide_files
from forewarn.metadata.listener import Listener, bind
from forewarn.metadata.recorder import Recorder
from forewarn.metadata.records import Records
from forewarn.metadata.service import Service
from forewarn.node import log as logs
from forewarn.node.driver import Driver, DriverType
from forewarn.node.keeper import Keeper
from forewarn.node.node import Node
from forewarn.node.performer import Performer
from forewarn.node.waker import Waker

log = logging.getLogger(__name__)


class Assembly:
    """A node and its metadata plane, joined to a journal, a driver and a clock."""

    def __init__(self, settings: Settings, clock: Clock, journal: Journal, driver: Driver) -> None:
        self.settings = settings
        self.journal = journal
        self.driver = driver
        self.node = Node(journal, clock, rules_of(settings))
        self.desk = Desk(clock.seconds)
        self.records = Records(self.desk, self.node.rules, clock.seconds, clock.now)
        self.metadata = Service(
            self.desk,
            Callers(self.desk, settings.default_vm),
            self.records,
            limits_of(settings),
            enrol=self._enrol,
            approve=self._approve,
            seconds=clock.seconds,
            now=clock.now,
        )
        self.waker = Waker(self.node)
        self.performer = Performer(self.node, driver)
        self.keeper = Keeper(self.node)
        self.recorder = Recorder(self.node, self.records)
        self.edge = Edge(self.metadata, limits_of(settings))
        for listener in (logs.FactLog(), self.desk, self.waker, self.performer, self.keeper):
            self.node.feed.subscribe(listener)
        self.port = 0
        """Where VMs are answered, once it has started."""
        self._parts = AsyncExitStack()

    async def start(self) -> None:
        """Load the journal, apply the fleet file, and begin to answer; on failure nothing is left behind."""
        async with AsyncExitStack() as parts:
            parts.callback(self.journal.close)
            parts.push_async_callback(self.node.stop)
            parts.push_async_callback(self.keeper.stop)
            parts.push_async_callback(self.performer.stop)
            parts.push_async_callback(self.waker.stop)
            gc.disable()  # nothing that is loaded is garbage
            await self.node.start()
            endpoint = self.settings.metadata
            listener = Listener(self.edge, bind(endpoint.host, endpoint.port))
            parts.push_async_callback(listener.stop)
            if self.settings.fleet:
                await self._apply_fleet(self.settings.fleet)
            self._check_default_vm()
            gc.collect()
            gc.freeze()  # the fleet lives as long as the process; looking through it again and again is of no use
            gc.enable()
            self.recorder.start()
            parts.push_async_callback(self.recorder.stop)
            await listener.start()
            self.port = listener.port
            self._parts = parts.pop_all()

    async def stop(self) -> None:
        """Finish the answers that are owed, and let go of everything."""
        await self._parts.aclose()

    async def _apply_fleet(self, path: Path) -> None:
        change = difference(wish.read(path), Declared.of(self.node.fleet))
        by = Caller(CallerKind.OPERATOR, "serve", path.name)
        fields = {key: getattr(change, key) for key in change.__struct_fields__}
        await self.node.submit(ChangeFleet(id=uuid4().hex, by=by, **fields))

    def _check_default_vm(self) -> None:
        name = self.settings.default_vm
        if name and name not in self.node.fleet.vms:
            raise BadInput(
                f"default_vm is {name!r}, but the fleet has no such VM{nearest(name, self.node.fleet.vms)}"
            )

    async def _enrol(self, group: str, vm: str) -> None:
        by = Caller(CallerKind.VM, vm)
        await self.node.submit(Enrol(id=uuid4().hex, by=by, group=group, vm=vm))

    async def _approve(self, vm: str, events: Sequence[str]) -> None:
        by = Caller(CallerKind.VM, vm, self.node.fleet.vms[vm].address if vm in self.node.fleet.vms else "")
        await self.node.submit(Approve(id=uuid4().hex, by=by, events=tuple(events)))


def serve(settings: Settings, on_ready: Callable[[], None] = lambda: None) -> None:
    """Run the service until it is told to stop; call ``on_ready`` once it answers."""
    logs.set_up(sys.stderr, settings.log_level, settings.log_format)
    if will_not_fit := provide_files(limits_of(settings)):
        log.warning("%s", will_not_fit)
    # The journal's thread must not keep requests waiting for Python's usual five milliseconds.
    sys.setswitchinterval(0.0005)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve(settings, on_ready))


async def _serve(settings: Settings, on_ready: Callable[[], None]) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping.set)
    clock = SystemClock()
    driver = _driver(settings, clock)
    assembly = Assembly(settings, clock, _journal(settings), driver)
    calls = Calls(assembly.node, assembly.journal, assembly.records.last_asked, moves_live=driver.moves_live)
    control = ControlSocket(settings.data, calls)
    async with AsyncExitStack() as parts:
        await assembly.start()
        parts.push_async_callback(assembly.stop)
        await control.open()
        parts.push_async_callback(control.close)
        log.info("answering VMs on http://%s, operators on %s", settings.metadata, settings.data / "control.sock")
        on_ready()
        await stopping.wait()
        log.info("stopping")


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


def _driver(settings: Settings, clock: Clock) -> Driver:
    kind = cast("DriverType", plugins.load("forewarn.drivers", settings.driver))
    return kind.from_settings(settings.driver_settings, clock, settings.hurry, settings.data / "driver")


def _journal(settings: Settings) -> Journal:
    kind = cast("Callable[..., Journal]", plugins.load("forewarn.journals", "sqlite"))
    return kind(settings.data, history=settings.history)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop  # noqa: PLC0415 - it does not exist everywhere
    except ImportError:
        return None
    return uvloop.new_event_loop
