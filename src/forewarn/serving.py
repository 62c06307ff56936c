"""Runs the service on this machine: picks its parts by the settings, and keeps it up until it is told to stop."""

import asyncio
import gc
import logging
import signal
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, cast

from forewarn import logs, plugins
from forewarn.clocks import Clock, SystemClock
from forewarn.config.settings import Settings
from forewarn.control.notices.deliverer import Deliverer
from forewarn.control.tally import Tally
from forewarn.journal.port import Journal
from forewarn.metadata.limits import provide_files
from forewarn.node.driver import Driver, DriverType
from forewarn.wiring import Assembly, limits_of

if TYPE_CHECKING:
    from forewarn.control.entrance import Entrance

log = logging.getLogger(__name__)


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
    deliverer = Deliverer(assembly.node, assembly.journal, settings.mail)
    tally = Tally()
    assembly.node.feed.subscribe(deliverer)
    assembly.node.feed.subscribe(tally)
    async with AsyncExitStack() as parts:
        gc.disable()  # nothing that is loaded is garbage
        await assembly.start(_spare_the_fleet)
        parts.push_async_callback(assembly.stop)
        parts.push_async_callback(deliverer.stop)
        # The framework of the control plane takes longest to load; VMs are answered meanwhile.
        control = await asyncio.to_thread(_control, settings, assembly, deliverer, tally)
        await control.open()
        parts.push_async_callback(control.close)
        scheme = "https" if settings.control_certificate else "http"
        also = f" and {scheme}://{settings.control}" if settings.control else ""
        socket = settings.data / "control.sock"
        log.info("answering VMs on http://%s, operators on %s%s", settings.metadata, socket, also)
        on_ready()
        await stopping.wait()
        log.info("stopping")


def _control(settings: Settings, assembly: Assembly, deliverer: Deliverer, tally: Tally) -> "Entrance":
    from forewarn.control.api.plane import Plane  # noqa: PLC0415 - see its caller
    from forewarn.control.entrance import Entrance  # noqa: PLC0415
    from forewarn.control.metrics import Metrics, Sources  # noqa: PLC0415

    plane = Plane(
        assembly.node,
        assembly.journal,
        assembly.records.last_asked,
        moves_live=assembly.driver.moves_live,
        deliveries=deliverer,
    )
    metadata = assembly.metadata
    sources = Sources(
        documents=metadata.documents,
        refusals=lambda: metadata.letterhead.refusals,
        control_refusals=lambda: plane.doorkeeper.refused,
        connections=lambda: assembly.connections,
        enrolled=lambda: len(assembly.desk.enrolled),
        outbox=deliverer,
    )
    plane.metrics = Metrics(assembly.node, tally, sources).render
    return Entrance(plane, settings.data, settings.control, settings.control_certificate, settings.control_key)


def _spare_the_fleet() -> None:
    """Keep the garbage collector from the fleet: it lives as long as the process, and is large."""
    gc.collect()
    gc.freeze()
    gc.enable()


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
