"""Runs the service on this machine: picks its parts by the settings, and runs them until it is stopped."""

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from socket import socket
from typing import TYPE_CHECKING, Literal, cast

import msgspec

from forewarn import extras, logs, plugin_loader, socket_activation
from forewarn.clocks import Clock, SystemClock
from forewarn.cluster.cluster_node import ClusterNode
from forewarn.cluster.metadata_service import ClusterMetadataService
from forewarn.config.settings import SQLITE, Settings, check
from forewarn.config.values import ListenAddress
from forewarn.control.notifications.dispatcher import Dispatcher
from forewarn.control.server.event_counters import EventCounters
from forewarn.control.server.sockets import ControlSockets, load_certificate
from forewarn.core.errors import BadInput, ForewarnError
from forewarn.files import private_directory
from forewarn.journal.port import Journal, JournalType, check_journal
from forewarn.journal.shared import SharedJournal
from forewarn.metadata.service import MetadataService
from forewarn.node.driver import Driver, DriverType, SupportsCapacity, can_run_commands, can_switch, moves_to_host
from forewarn.node.driver_calls import check_driver
from forewarn.node.node import Node
from forewarn.reloading import Reloader, fit_connections
from forewarn.runtime import exempt_fleet_from_collection, loop_factory
from forewarn.signals import Signals
from forewarn.socket_activation import PassedSockets
from forewarn.systemd_notify import SystemdNotifier
from forewarn.wiring import Assembly
from forewarn.workers.pool import WorkerPool
from forewarn.workers.pool_setup import make_pool

if TYPE_CHECKING:
    from forewarn.cluster.peer_setup import ClusterPeers
    from forewarn.control.bodies import ListenerView
    from forewarn.control.server.control_plane import ControlPlane

log = logging.getLogger(__name__)

_STATUS_EVERY = 5.0


def serve(
    read: Callable[[], Settings], on_ready: Callable[[], None] = lambda: None, signals: Signals | None = None
) -> None:
    """Run the service until it is stopped; call ``on_ready`` once it answers.

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
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
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
    pools: list[WorkerPool] = []

    def make_pool_of_workers(_: MetadataService) -> WorkerPool:
        pools.append(make_pool(assembly, passed.metadata))
        return pools[0]

    server = make_pool_of_workers if settings.workers else None
    journal = _journal(settings)
    service = ClusterMetadataService if isinstance(journal, SharedJournal) else MetadataService
    assembly = Assembly(settings, clock, journal, driver, server, passed.metadata, service)
    cluster, peers = _cluster(settings, assembly, journal) if isinstance(journal, SharedJournal) else (None, None)
    dispatcher = Dispatcher(assembly.node, assembly.journal, settings.mail)
    event_counters = EventCounters()
    assembly.leader.add(dispatcher)
    assembly.node.replica.subscribe(event_counters)
    async with AsyncExitStack() as parts:
        with signals.interruptible():
            gc.disable()  # nothing that is loaded is garbage
            sockets = ControlSockets(settings.data, settings.control, passed)
            parts.callback(sockets.close)
            if peers:
                parts.push_async_callback(peers.close)
                await peers.open()
            await assembly.start(exempt_fleet_from_collection, sockets.open)
            parts.push_async_callback(assembly.stop)
            reloader = Reloader(read, assembly, dispatcher)
            # The framework of the control plane takes longest to load; VMs are answered meanwhile.
            control = await asyncio.to_thread(
                _control, settings, sockets, assembly, dispatcher, event_counters, reloader, pools, cluster
            )
            if peers:
                reloader.read_peer_certificates = peers.read_certificates_again
                control.context.forwarder = peers.control
                control.context.cluster_status = peers.status.collect
            await control.open()
            if peers and control.app:
                peers.answer_control(control.app)
            parts.push_async_callback(control.close)
            gc.freeze()  # the modules of the control plane stay as well
            reloader.secured = control
            metadata, operators = _describe_listeners(settings)
            where = f"answering VMs on {metadata}, operators on {' and '.join(operators)}"
            log.info("serving", extra={"fields": {"metadata": metadata, "control": operators}})
            on_ready()
            status = ServiceStatus(where, assembly.node, notifier, pools, cluster)
            notifier.ready(where, status.check_life)
            telling = asyncio.create_task(status.keep_telling())
            parts.callback(telling.cancel)
        while not signals.stopping.is_set():
            await signals.next()
            with signals.interruptible():
                if signals.take_reload():
                    notifier.reloading()
                    await reloader.reload()
                    status.reload = reloader.status
                    notifier.ready(status.text)
        notifier.stopping()
        if cluster:
            await cluster.drain()  # everything is answered meanwhile


class ServiceStatus:
    """What the service manager shows: addresses, what is stuck, the last reload, workers and nodes."""

    def __init__(
        self,
        where: str,
        node: Node,
        notifier: SystemdNotifier,
        pools: Sequence[WorkerPool],
        cluster: ClusterNode | None,
    ) -> None:
        self._where = where
        self._node = node
        self._notifier = notifier
        self._pools = pools
        self._cluster = cluster
        self.reload = ""
        """The result of the last reload."""

    @property
    def text(self) -> str:
        summaries = [each.summary for pool in self._pools for each in pool.views()]
        if self._cluster:
            summaries.append(self._cluster.view().summary)
        return "; ".join(filter(None, (self._where, self._stuck, *summaries, self.reload)))

    @property
    def _stuck(self) -> str:
        """What has taken longer than the watchdog waits."""
        if (age := self._node.writer.append_age) >= self._notifier.period > 0:
            return f"an append to the journal has taken {age:.0f} s; is its disk well?"
        if (age := max((pool.stuck_for for pool in self._pools), default=0.0)) >= self._notifier.period > 0:
            return f"a commit has waited {age:.0f} s for the end of a worker that was killed; is its disk well?"
        return ""

    def check_life(self) -> bool:
        """Return whether the writer is alive: the event loop, which asks this, turns, and no commit is stuck."""
        if not self._stuck:
            return True
        self._notifier.status(self.text)
        return False

    async def keep_telling(self) -> None:
        """Keep the status up to date, if it has what changes by itself."""
        while self._pools or self._cluster:
            self._notifier.status(self.text)
            await asyncio.sleep(_STATUS_EVERY)


def _cluster(
    settings: Settings, assembly: Assembly, journal: SharedJournal
) -> "tuple[ClusterNode, ClusterPeers | None]":
    """Make this process one of the nodes that share the journal."""
    node = ClusterNode(assembly, journal, settings.node_name, str(settings.cluster or ""))
    if settings.cluster is None:
        return node, None
    from forewarn.cluster.peer_setup import ClusterPeers  # noqa: PLC0415 - it loads the control plane's server

    return node, ClusterPeers(assembly, node, settings.cluster)


def _describe_listeners(settings: Settings) -> tuple[str, list[str]]:
    """Return where VMs are answered, and where operators are."""
    scheme = "https" if settings.control_certificate else "http"
    over_network = [f"{scheme}://{settings.control}"] if settings.control else []
    return f"http://{settings.metadata}", [str(settings.data / "control.sock"), *over_network]


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
    pools: "Sequence[WorkerPool]",
    cluster: ClusterNode | None,
) -> "ControlPlane":
    from forewarn.control.api.context import ApiContext  # noqa: PLC0415 - see its caller
    from forewarn.control.bodies import ListenerView  # noqa: PLC0415
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
        runs_commands=can_run_commands(assembly.driver),
        checker=assembly.leader.rollout_checker,
        deliveries=dispatcher,
    )
    metadata = assembly.metadata
    pool = pools[0] if pools else None
    sources = MetricSources(
        documents=pool.documents if pool else metadata.documents,
        refusals=pool.refusals if pool else lambda: metadata.common_headers.refusals,
        control_refusals=lambda: plane.authenticator.refused,
        connections=lambda: pool.connections if pool else assembly.connections,
        delays=pool.delays if pool else lambda: metadata.delays,
        enrolled=lambda: len(assembly.document_cache.enrolled),
        outbox=dispatcher,
        workers=pool.views if pool else tuple,
        cluster=cluster.view if cluster else None,
        reload=lambda: (reloader.last.at, reloader.last.is_successful),
    )
    plane.metric_sources = sources
    plane.metrics = Metrics(assembly.node, event_counters, sources).render
    entrance = ControlPlane(plane, sockets, settings.control_certificate, settings.control_key)
    if pool:
        plane.workers = pool.views
    if cluster:
        plane.cluster = cluster.view
    plane.listeners = lambda: (
        *_listeners("metadata", assembly.listening),
        *(ListenerView(part="metadata", address=at, inode=inode) for at, inode in (pool.addresses if pool else ())),
        *_listeners("control", entrance.listening, is_tls=settings.control_certificate is not None),
    )
    return entrance


def _listeners(
    part: Literal["metadata", "control"], sockets: Iterable[socket], *, is_tls: bool = False
) -> Iterator["ListenerView"]:
    from forewarn.control.bodies import ListenerView  # noqa: PLC0415 - see _control

    for each in sockets:
        address = ListenAddress(*each.getsockname()[:2])
        yield ListenerView(part=part, address=str(address), inode=os.fstat(each.fileno()).st_ino, is_tls=is_tls)


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
