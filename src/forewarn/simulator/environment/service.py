"""The service as one simulated process: the real node, metadata plane and control API on simulated parts."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from forewarn.config.settings import Settings
from forewarn.config.values import ListenAddress
from forewarn.control.api.app import make_app
from forewarn.control.api.context import PEER, ApiContext, Peer
from forewarn.control.notifications.dispatcher import Dispatcher
from forewarn.core.errors import ForewarnError
from forewarn.core.facts import Entry
from forewarn.core.fleet import Fleet
from forewarn.core.model import Caller, CallerKind
from forewarn.drivers.program_runner import BEGUN
from forewarn.journal.port import Journal
from forewarn.metadata.connections import ConnectionRegistry
from forewarn.metadata.listener import Acceptor
from forewarn.metadata.service import MetadataService
from forewarn.node.driver import can_run_commands, can_switch, moves_to_host
from forewarn.node.feed import Commit
from forewarn.node.large_change import LargeChangeSizes
from forewarn.simulator.environment.clock import SimulatedClock
from forewarn.simulator.environment.gates import SimulatedGates
from forewarn.simulator.environment.loop import SimulatedLoop, SimulatedProcess
from forewarn.simulator.environment.machines import DriverBehaviour, Machines, MachinesDriver
from forewarn.simulator.environment.network import Network
from forewarn.simulator.environment.operator_programs import (
    OperatorProgram,
    SimulatedCommandDriver,
    SimulatedWebhookDriver,
)
from forewarn.simulator.environment.receivers import Receivers
from forewarn.simulator.environment.workers import WorkerSite
from forewarn.wiring import Assembly, MetadataServer, hosts_of, limits_of

SimulatedDriver = MachinesDriver | SimulatedCommandDriver | SimulatedWebhookDriver
_PATIENCE = 20.0
"""Seconds that operators wait for a response."""
ENDPOINT = ("169.254.169.254", 80)


class SimulatedServer:
    """Accepts the connections of VMs from the simulated network."""

    port = ENDPOINT[1]

    def __init__(
        self, service: MetadataService, settings: Settings, network: Network, process: SimulatedProcess
    ) -> None:
        self._registry = ConnectionRegistry(service, limits_of(settings), hosts_of(settings))
        self._network = network
        self._process = process
        self._endpoints = (ENDPOINT, (process.address, ENDPOINT[1])) if process.node else (ENDPOINT,)
        """A node is also reached by an address of its own."""

    async def start(self) -> None:
        self._registry.start()
        for endpoint in self._endpoints:
            self._network.listen(endpoint, self._process, lambda: Acceptor(self._registry))

    async def stop(self) -> None:
        for endpoint in self._endpoints:
            self._network.ignore(endpoint, self._process)
        await self._registry.stop(5.0)


class ControlResponse:
    """A response of the control API."""

    def __init__(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.status = status
        self.body = body
        self.headers = headers


class Service:
    """Starts, stops and kills the service; what survives is handed in: disk, clock, machines and fleet file."""

    def __init__(
        self,
        loop: SimulatedLoop,
        network: Network,
        clock: SimulatedClock,
        machines: Machines,
        behaviour: DriverBehaviour,
        make_journal: Callable[[], Journal],
        settings: Settings,
        receivers: Receivers,
        random: Random,
    ) -> None:
        self.name = ""
        """The name of the node; empty where it is the only one."""
        self._receivers = receivers
        self._loop = loop
        self._network = network
        self._clock = clock
        self._machines = machines
        self._behaviour = behaviour
        self._make_journal = make_journal
        self.settings = settings
        self._random = random
        self.driver_directory = settings.data / "driver"
        """Where the driver keeps its records."""
        self.gates = SimulatedGates()
        """What the gates of rollouts ask; shared by all nodes."""
        self.workers = 0
        """How many workers answer guests; 0 where the service does."""
        self.site = WorkerSite(loop, network, ENDPOINT, random, make_journal)
        self.process: SimulatedProcess | None = None
        self.assembly: Assembly | None = None
        self.start_failure = ""
        """Why the last start failed; empty if it did not."""
        self.is_serving = False
        self.large_changes = False
        """Whether every change of the fleet is treated as a large one."""
        self.moves_live = True
        """Whether its driver moves running guests."""
        self.on_change: Callable[[], None] = lambda: None
        """Told when the service serves, and when its process has ended."""
        self.driver = "machines"
        """Which driver it has: ``machines``, ``immediate``, ``command`` or ``webhook``."""
        self.program = OperatorProgram(machines, behaviour, loop, random)
        self.planned_kills: dict[str, int] = {}
        """Callbacks after which the next ``start`` or ``stop`` is killed; shared by all nodes."""
        self.on_fault: Callable[[str], None] = lambda _: None
        """Told when it was killed during a start or stop."""
        self._starts = 0
        self.app: Any = None
        """The application of the control API; made once, and given the context of each start."""
        self.on_commit: Callable[[float, Entry, Fleet], None] = lambda *_: None
        """Told of every committed entry, for the transcript."""
        self._stopping: asyncio.Event | None = None

    @property
    def is_alive(self) -> bool:
        """Whether there is a process: one that starts, serves or stops."""
        return self.process is not None and self.process.is_alive

    def start(self) -> None:
        """Start a new process, where none is alive."""
        if self.is_alive:
            return
        self._starts += 1
        self.start_failure = ""
        self.process = process = self._make_process()
        process.kill_after = self.planned_kills.pop("start", None)
        process.on_kill[self] = partial(self._on_end, process)
        self._loop.spawn(process, self._run(process))

    def _make_process(self) -> SimulatedProcess:
        return SimulatedProcess(f"service-{self._starts}")

    def kill(self) -> None:
        """End the process at once."""
        if self.process is not None:
            self._loop.kill(self.process)

    def _on_end(self, process: SimulatedProcess) -> None:
        is_stopping = self._stopping is not None and self._stopping.is_set()
        if process.kill_after is not None and process.kill_after < 0 and (is_stopping or not self.is_serving):
            self.on_fault(f"killed during {'stop' if self.is_serving else 'start'}")
        self.is_serving = False
        self.on_change()

    def stop(self) -> None:
        """Ask the process to end, as SIGTERM does."""
        if self._stopping is not None and self.is_serving and self.process is not None:
            self._stopping.set()
            self.process.kill_after = self.planned_kills.pop("stop", self.process.kill_after)

    def apply_fleet_file(self) -> None:
        """Have the fleet file applied by the running service, as a reload does."""
        if self.process is not None and self.is_serving and self.assembly is not None and self.settings.fleet:
            self._loop.spawn(self.process, self._apply_fleet_file(self.assembly, self.settings.fleet))

    def tear_driver_record(self) -> bool:
        """Append half a line to a record of an unfinished event, as a crash leaves it; tell whether there is one."""
        if self.driver == "command":  # a program that still runs holds its record
            half, found = b"[0, fal", [] if self.program.runs else self._records(lambda content: content == BEGUN)
        else:
            half, found = b'\n{"line":"step","na', self._records(lambda content: b'"line":"ended"' not in content)
        if found:
            with found[-1].open("ab") as file:
                file.write(half)
        return bool(found)

    def _records(self, is_wanted: Callable[[bytes], bool]) -> list[Path]:
        records = (path for path in sorted(self.driver_directory.glob("*")) if path.is_file())
        return [path for path in records if is_wanted(path.read_bytes())]

    def forget(self) -> None:
        """End the last process, at the end of a simulation."""
        self.on_change = lambda: None
        self.kill()
        self.process = self.assembly = None

    async def _apply_fleet_file(self, assembly: Assembly, path: Path) -> None:
        with suppress(ForewarnError):
            await assembly.apply_fleet_file(path, "reload")

    async def request(
        self, method: str, path: str, body: bytes = b"", *, token: str = "", key: str = "", user: str = "operator"
    ) -> ControlResponse | None:
        """Send a request to the control API; None where no response came. Call it from a process of its own."""
        sent_at = self._loop.time()
        await asyncio.sleep(self._network.travel_time())
        if self._network.is_lost():
            await self._give_up(sent_at)
            return None
        process = self.process
        if process is None or not process.is_alive or not self.is_serving or self.app is None:
            return None
        answered: asyncio.Future[ControlResponse | None] = self._loop.create_future()
        process.on_kill[answered] = partial(self._break, answered)
        self._loop.spawn(process, self._respond(answered, method, path, body, token, key, user))
        response = await answered
        process.on_kill.pop(answered, None)
        if response is not None and self._network.is_lost():
            await self._give_up(sent_at)
            return None
        await asyncio.sleep(self._network.travel_time())
        return response

    async def _give_up(self, sent_at: float) -> None:
        """Wait until the caller expects no response any more: the request was lost, or the response."""
        self.on_fault("control request lost")
        await asyncio.sleep(max(sent_at + _PATIENCE - self._loop.time(), 0.0))

    def _break(self, answered: "asyncio.Future[ControlResponse | None]") -> None:
        if not answered.done():
            answered.set_result(None)

    async def _respond(
        self,
        answered: "asyncio.Future[ControlResponse | None]",
        method: str,
        path: str,
        body: bytes,
        token: str,
        key: str,
        user: str,
    ) -> None:
        path, _, query = path.partition("?")
        headers = [(b"host", b"control"), (b"content-type", b"application/json")]
        headers += [(b"authorization", f"Bearer {token}".encode())] if token else []
        headers += [(b"idempotency-key", key.encode())] if key else []
        headers += [(b"content-length", str(len(body)).encode())] if body else []
        state: dict[str, Any] = {}
        if not token:
            state[PEER] = Peer(Caller(CallerKind.OPERATOR, user, "control.sock"), 0)
        scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": headers,
            "client": ("10.9.9.9", 50000),
            "server": ("control", 80),
            "state": state,
            "extensions": {},
        }
        sent: list[bytes] = []
        status = 0
        response_headers: dict[str, str] = {}
        is_given = False

        async def receive() -> dict[str, Any]:
            nonlocal is_given
            if is_given:
                await self._loop.create_future()  # the caller stays connected
            is_given = True
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            nonlocal status, response_headers
            if message["type"] == "http.response.start":
                status = message["status"]
                response_headers = {name.decode().lower(): value.decode() for name, value in message["headers"]}
            elif message["type"] == "http.response.body":
                sent.append(message.get("body", b""))

        assert self.app is not None  # noqa: S101 - the caller looked
        try:
            await self.app(scope, receive, send)
        finally:
            if not answered.done():
                answered.set_result(ControlResponse(status, b"".join(sent), response_headers) if status else None)

    async def _run(self, process: SimulatedProcess) -> None:
        settings = self.settings
        driver = self._make_driver(process, self.driver_directory)
        assembly = self.assembly = self._assemble(self._make_journal(), driver)
        dispatcher = Dispatcher(assembly.node, assembly.journal, settings.mail, channels=self._receivers)
        assembly.leader.add(dispatcher)
        assembly.leader.rollout_checker = self.gates
        if self.large_changes:
            assembly.node.writer.large_change_sizes = LargeChangeSizes(2, 2)
        try:
            await self._open(assembly)
        except ForewarnError as error:
            self.start_failure = str(error)
            self._loop.kill(process)
            return
        await self._serve(process, assembly, driver, dispatcher)

    def _assemble(self, journal: Journal, driver: SimulatedDriver) -> Assembly:
        return Assembly(self.settings, self._clock, journal, driver, server=self._server_maker())

    async def _open(self, assembly: Assembly) -> None:
        await assembly.start()

    def _join(self, context: ApiContext) -> None:
        """Tell the control API of other nodes."""

    def _answer_peers(self) -> None:
        """Answer what other nodes pass on."""

    async def _close(self, assembly: Assembly) -> None:
        await assembly.stop()

    def _server_maker(self) -> Callable[[MetadataService], MetadataServer]:
        process = self.process
        assert process is not None  # noqa: S101 - it is being started

        def make(metadata: MetadataService) -> MetadataServer:
            if self.workers and self.assembly is not None:
                sizes = LargeChangeSizes(2, 2) if self.large_changes else LargeChangeSizes()
                return self.site.make_pool(self.assembly, process, self.workers, sizes)
            return SimulatedServer(metadata, self.settings, self._network, process)

        return make

    def _make_driver(self, process: SimulatedProcess, directory: Path) -> SimulatedDriver:
        live = self.moves_live
        match self.driver:
            case "command":
                return SimulatedCommandDriver(self.program, process, self._clock, directory, live=live)
            case "webhook":
                return SimulatedWebhookDriver(self.program, process, self._loop, self._clock, directory, live=live)
            case _:
                return MachinesDriver(
                    self._machines,
                    self._behaviour,
                    self._clock,
                    self._loop,
                    process,
                    directory,
                    self._random,
                    moves_live=live,
                    is_immediate=self.driver == "immediate",
                    fences_terms=self.driver != "unfenced",
                )

    async def _serve(
        self, process: SimulatedProcess, assembly: Assembly, driver: SimulatedDriver, dispatcher: Dispatcher
    ) -> None:
        stopping = self._stopping = asyncio.Event()
        context = ApiContext(
            assembly.node,
            assembly.journal,
            assembly.records.last_asked,
            moves_live=driver.moves_live,
            moves_to_host=moves_to_host(driver),
            switches=can_switch(driver),
            runs_commands=can_run_commands(driver),
            checker=self.gates,
            deliveries=dispatcher,
        )
        self._join(context)
        context.follow()
        assembly.node.replica.subscribe(_CommitReporter(self._loop, self.on_commit))
        if self.app is None:
            self.app = make_app(context)
        else:
            self.app.state.context = context
        self._answer_peers()
        self.is_serving = True
        self.on_change()
        await stopping.wait()
        await self._close(assembly)
        self._loop.kill(process)


class _CommitReporter:
    """Passes committed entries on."""

    def __init__(self, loop: SimulatedLoop, report: Callable[[float, Entry, Fleet], None]) -> None:
        self._loop = loop
        self._report = report

    def load(self, fleet: Fleet) -> None:
        pass

    def publish(self, commit: Commit) -> None:
        for entry in commit.entries:
            self._report(self._loop.time(), entry, commit.fleet)


def settings_of(directory: Path, *, hurry: float, fleet: Path | None, user_operation_limit: int = 0) -> Settings:
    """Return the settings of a simulated service."""
    return Settings(
        data=directory,
        metadata=ListenAddress(*ENDPOINT),
        fleet=fleet,
        hurry=hurry,
        rate_limit=0.0,
        user_operation_limit=user_operation_limit,
    )
