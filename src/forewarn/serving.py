"""Runs the service on this machine: picks its parts by the settings, and keeps it up until it is told to stop."""

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from socket import socket
from typing import TYPE_CHECKING, Literal, cast

import msgspec

from forewarn import extras, logs, plugin_loader, socket_activation
from forewarn.clocks import Clock, SystemClock
from forewarn.config.settings import SQLITE, Settings, check
from forewarn.config.values import ListenAddress
from forewarn.control.notifications.dispatcher import Dispatcher
from forewarn.control.server.event_counters import EventCounters
from forewarn.control.server.sockets import ControlSockets, load_certificate
from forewarn.core.errors import BadInput, ForewarnError
from forewarn.files import private_directory
from forewarn.journal.port import Journal, JournalType, check_journal
from forewarn.node.driver import Driver, DriverType, SupportsCapacity, can_switch, moves_to_host
from forewarn.node.driver_calls import check_driver
from forewarn.node.node import Node
from forewarn.reloading import Reloader, fit_connections
from forewarn.signals import Signals
from forewarn.socket_activation import PassedSockets
from forewarn.systemd_notify import SystemdNotifier
from forewarn.wiring import Assembly

if TYPE_CHECKING:
    from forewarn.control.bodies import ListenerView
    from forewarn.control.server.control_plane import ControlPlane

log = logging.getLogger(__name__)


def serve(
    read: Callable[[], Settings], on_ready: Callable[[], None] = lambda: None, signals: Signals | None = None
) -> None:
    """Run the service until it is told to stop; call ``on_ready`` once it answers.

    ``read`` returns the settings; it is called again when the service reloads.
    """
    extras.require("server", "the service")
    passed = socket_activation.from_environment(os.environ)
    read = _at(passed, read)
    settings = read()
    logs.set_up(sys.stderr, settings.log_level, settings.log_format)
    settings = fit_connections(settings)
    load_certificate(settings.control_certificate, settings.control_key)  # a wrong one is refused before guests ask
    # The journal's thread must not keep requests waiting for Python's usual five milliseconds.
    sys.setswitchinterval(0.0005)
    signals = signals or Signals()
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(_serve(settings, read, passed, on_ready, signals))
    finally:
        # What is left to do ends by itself; a signal must not interrupt it with a traceback.
        signal.signal(signal.SIGINT, signal.SIG_DFL)


async def _serve(
    settings: Settings,
    read: Callable[[], Settings],
    passed: PassedSockets,
    on_ready: Callable[[], None],
    signals: Signals,
) -> None:
    signals.attach()
    notifier = SystemdNotifier.from_environment(os.environ)
    clock = SystemClock()
    driver = _driver(settings, clock)
    assembly = Assembly(settings, clock, _journal(settings), driver, sockets=passed.metadata)
    dispatcher = Dispatcher(assembly.node, assembly.journal, settings.mail)
    event_counters = EventCounters()
    assembly.leader.add(dispatcher)
    assembly.node.replica.subscribe(event_counters)
    async with AsyncExitStack() as parts:
        with signals.interruptible():
            gc.disable()  # nothing that is loaded is garbage
            sockets = ControlSockets(settings.data, settings.control, passed)
            parts.callback(sockets.close)
            await assembly.start(_exempt_fleet_from_collection, sockets.open)
            parts.push_async_callback(assembly.stop)
            reloader = Reloader(read, assembly, dispatcher)
            # The framework of the control plane takes longest to load; VMs are answered meanwhile.
            control = await asyncio.to_thread(
                _control, settings, sockets, assembly, dispatcher, event_counters, reloader
            )
            await control.open()
            parts.push_async_callback(control.close)
            gc.freeze()  # the modules of the control plane stay as well
            reloader.secured = control
            metadata, operators = _describe_listeners(settings)
            where = f"answering VMs on {metadata}, operators on {' and '.join(operators)}"
            log.info("serving", extra={"fields": {"metadata": metadata, "control": operators}})
            on_ready()
            notifier.ready(where, lambda: _is_alive(assembly.node, notifier))
        while not signals.stopping.is_set():
            await signals.next()
            with signals.interruptible():
                if signals.take_reload():
                    notifier.reloading()
                    await reloader.reload()
                    notifier.ready(f"{where}; {reloader.status}")
        notifier.stopping()


def _describe_listeners(settings: Settings) -> tuple[str, list[str]]:
    """Return where VMs are answered, and where operators are."""
    scheme = "https" if settings.control_certificate else "http"
    over_network = [f"{scheme}://{settings.control}"] if settings.control else []
    return f"http://{settings.metadata}", [str(settings.data / "control.sock"), *over_network]


def _is_alive(node: Node, notifier: SystemdNotifier) -> bool:
    """Tell whether the writer is: the event loop, which asks this, turns, and no append is stuck."""
    if node.writer.append_age < notifier.period:
        return True
    notifier.status(f"an append to the journal has taken {node.writer.append_age:.0f} s; is its disk well?")
    return False


def _at(passed: PassedSockets, read: Callable[[], Settings]) -> Callable[[], Settings]:
    """Return what reads the settings where passed sockets say where to listen; check that it is safe there."""

    def read_there() -> Settings:
        settings = read()
        for each in reversed(passed_at["metadata"]):
            settings = msgspec.structs.replace(settings, metadata=each)
            check(settings)
        for each in reversed(passed_at["control"]):
            settings = msgspec.structs.replace(settings, control=each)
            check(settings)
        return settings

    passed_at = {
        "metadata": [ListenAddress(*each.getsockname()[:2]) for each in passed.metadata],
        "control": [ListenAddress(*each.getsockname()[:2]) for each in passed.control],
    }
    return read_there


def _control(
    settings: Settings,
    sockets: ControlSockets,
    assembly: Assembly,
    dispatcher: Dispatcher,
    event_counters: EventCounters,
    reloader: Reloader,
) -> "ControlPlane":
    from forewarn.control.api.context import ApiContext  # noqa: PLC0415 - see its caller
    from forewarn.control.server.control_plane import ControlPlane  # noqa: PLC0415
    from forewarn.control.server.metrics import Metrics, MetricSources  # noqa: PLC0415

    plane = ApiContext(
        assembly.node,
        assembly.journal,
        assembly.records.last_asked,
        moves_live=assembly.driver.moves_live,
        moves_to_host=moves_to_host(assembly.driver),
        switches=can_switch(assembly.driver),
        capacity=assembly.driver if isinstance(assembly.driver, SupportsCapacity) else None,
        deliveries=dispatcher,
    )
    metadata = assembly.metadata
    sources = MetricSources(
        documents=metadata.documents,
        refusals=lambda: metadata.common_headers.refusals,
        control_refusals=lambda: plane.authenticator.refused,
        connections=lambda: assembly.connections,
        enrolled=lambda: len(assembly.document_cache.enrolled),
        outbox=dispatcher,
        reload=lambda: (reloader.last.at, reloader.last.is_successful),
    )
    plane.metrics = Metrics(assembly.node, event_counters, sources).render
    entrance = ControlPlane(plane, sockets, settings.control_certificate, settings.control_key)
    plane.listeners = lambda: (
        *_listeners("metadata", assembly.listening),
        *_listeners("control", entrance.listening),
    )
    return entrance


def _listeners(part: Literal["metadata", "control"], sockets: Iterable[socket]) -> Iterator["ListenerView"]:
    from forewarn.control.bodies import ListenerView  # noqa: PLC0415 - see _control

    for each in sockets:
        address = ListenAddress(*each.getsockname()[:2])
        yield ListenerView(part=part, address=str(address), inode=os.fstat(each.fileno()).st_ino)


def _exempt_fleet_from_collection() -> None:
    """Keep the garbage collector from the fleet: it lives as long as the process, and is large."""
    gc.collect()
    gc.freeze()
    gc.enable()


def _driver(settings: Settings, clock: Clock) -> Driver:
    kind = cast("DriverType", plugin_loader.load("forewarn.drivers", settings.driver))
    with _making("driver", settings.driver):
        made = kind.from_settings(settings.driver_settings, clock, settings.hurry, settings.driver_directory)
    return check_driver(settings.driver, made)


def _journal(settings: Settings) -> Journal:
    kind = cast("JournalType", plugin_loader.load("forewarn.journals", settings.journal_name))
    with _making("journal", settings.journal_name):
        made = kind.from_settings(settings.journal_location, settings.journal_directory, settings.kept_history)
    if settings.journal_name != SQLITE or settings.journal_directory != settings.data:
        _make_data_directory(settings.data)
    return check_journal(settings.journal_name, made)


@contextmanager
def _making(what: str, name: str) -> Iterator[None]:
    """Turn whatever goes wrong in a plugin's own code into one sentence that names it."""
    try:
        yield
    except ForewarnError:
        raise
    except Exception as error:
        said = str(error) or type(error).__name__
        raise BadInput(f"{what} {name!r} cannot be made: {said}; mend it, or name another") from error


def _make_data_directory(data: Path) -> None:
    """Make the directory of the control socket, where the journal does not make it."""
    try:
        private_directory(data)
    except OSError as error:
        raise BadInput(f"{data} cannot be made ({error.strerror}); name another directory with --data") from error


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop  # noqa: PLC0415 - it does not exist everywhere
    except ImportError:
        return None
    return uvloop.new_event_loop
