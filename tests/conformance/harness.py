"""A whole service with a small fleet, on a memory journal and a clock that stands still, asked over real sockets."""

import asyncio
import http.client
import json
import os
import socket
import threading
import tomllib
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic
from typing import Any, Self, TypeVar
from uuid import uuid4

import msgspec

from forewarn.clocks import ManualClock
from forewarn.config.settings import Settings
from forewarn.config.values import ListenAddress
from forewarn.core.commands import (
    CancelEvent,
    DeallocateVm,
    HostOperation,
    OperateHost,
    OperateVm,
    StartVm,
    VmOperation,
)
from forewarn.core.errors import ForewarnError
from forewarn.core.facts import Announced, AnyFact, StartedAtOnce
from forewarn.core.fleet import Fleet
from forewarn.core.model import Caller, CallerKind
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.journal.memory import MemoryJournal
from forewarn.node.feed import Commit
from forewarn.wiring import Assembly

OPERATOR = Caller(CallerKind.OPERATOR, "ada")
NOON = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
EVENTS = "/metadata/scheduledevents"
NEWEST = "2020-07-01"
PATIENCE = 60.0

FLEET = Path(__file__).with_name("fleet.toml")
ADDRESSES = {vm["name"]: vm["address"] for vm in tomllib.loads(FLEET.read_text(encoding="utf-8"))["vm"]}
_Answer = TypeVar("_Answer")


class Reply(msgspec.Struct, frozen=True):
    """What came back."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def header(self, name: str) -> str:
        return dict(self.headers).get(name, "")

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        return str(self.json["error"])


class ServiceHarness:
    """The service, its VMs and its operator."""

    def __init__(self, directory: Path, **settings: object) -> None:
        # An address of this process alone, so that tests in other processes cannot take its port.
        self.host = f"127.{77 + (os.getpid() >> 16 & 63)}.{os.getpid() >> 8 & 255}.{os.getpid() & 255}"
        self.port = _free_port(self.host)
        self.clock = ManualClock(NOON)
        usual = {
            "data": directory,
            "metadata": ListenAddress(self.host, self.port),
            "fleet": FLEET,
            "rate_limit": 0.0,
        }
        self._settings = msgspec.structs.replace(Settings(), **(usual | settings))
        self._facts: list[AnyFact] = []
        self._news = threading.Condition()
        self._ready = threading.Event()
        self._stopping: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=asyncio.run, args=(self._live(),), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(PATIENCE)
        return self

    def __exit__(self, *exc: object) -> None:
        if self._loop and self._stopping:
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(PATIENCE)

    async def _live(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        driver = SimulatedDriver.from_settings({}, self.clock, 1.0)
        self.assembly = Assembly(self._settings, self.clock, MemoryJournal(), driver)
        self.assembly.node.replica.subscribe(self)
        await self.assembly.start()
        self._ready.set()
        await self._stopping.wait()
        await self.assembly.stop()

    def load(self, fleet: Fleet) -> None:
        """Follow the feed."""

    def publish(self, commit: Commit) -> None:
        with self._news:
            self._facts.extend(fact for entry in commit.entries for fact in entry.facts)
            self._news.notify_all()

    def within(self, work: Callable[[], Awaitable[_Answer]]) -> _Answer:
        """Do something on the service's own event loop."""
        assert self._loop is not None

        async def do() -> _Answer:
            return await work()

        return asyncio.run_coroutine_threadsafe(do(), self._loop).result(PATIENCE)

    def pass_time(self, until: str = "", **time: float) -> None:
        """Let time pass, then all that follows at once; with ``until``, as far as a fact of that name."""
        seen = len(self._facts)
        self._move(timedelta(**time))
        deadline = monotonic() + PATIENCE
        while until and until not in self._tags(seen):
            assert monotonic() < deadline, f"no fact {until!r} came"
            self._move(timedelta())  # a timer set meanwhile, for a time already past, goes off too

    def let_it_end(self, fact: str = "completed") -> None:
        """Let the impact that was begun last come to its end."""
        self.wait_for("attempted")
        self.pass_time(until=fact, seconds=61)

    def _move(self, step: timedelta) -> None:
        async def move() -> None:
            self.clock.advance(step)
            self.assembly.metadata.tick()
            for _ in range(5):
                await asyncio.sleep(0)
            await self.assembly.node.writer.confirm()

        self.within(move)

    def wait_for(self, tag: str) -> None:
        """Return once a fact of that name was committed."""
        with self._news:
            came = self._news.wait_for(lambda: tag in self._tags(), PATIENCE)
        assert came, f"no fact {tag!r} came"

    def _tags(self, after: int = 0) -> list[object]:
        return [fact.__struct_config__.tag for fact in self._facts[after:]]

    def operate(self, operation: str, vm: str, **more: object) -> str:
        """Do something to a VM; return the id of its event, as the wire has it."""
        command = OperateVm(id=uuid4().hex, by=OPERATOR, operation=VmOperation(operation), vm=vm)
        return self._announced(msgspec.structs.replace(command, **more))[0]

    def operate_host(self, operation: str, host: str, **more: object) -> list[str]:
        """Do something to a host; return the ids of its events."""
        command = OperateHost(id=uuid4().hex, by=OPERATOR, operation=HostOperation(operation), host=host)
        return self._announced(msgspec.structs.replace(command, **more))

    def deallocate(self, vm: str) -> None:
        self.within(lambda: self.assembly.node.submit(DeallocateVm(id=uuid4().hex, by=OPERATOR, vm=vm)))

    def start(self, vm: str) -> None:
        self.within(lambda: self.assembly.node.submit(StartVm(id=uuid4().hex, by=OPERATOR, vm=vm)))

    def cancel(self, event: str) -> str:
        """Cancel an event; return why that is refused, if it is."""
        command = CancelEvent(id=uuid4().hex, by=OPERATOR, event=event.lower())
        try:
            self.within(lambda: self.assembly.node.submit(command))
        except ForewarnError as error:
            return str(error)
        return ""

    def _announced(self, command: OperateVm | OperateHost) -> list[str]:
        facts = self.within(lambda: self.assembly.node.submit(command))
        return [fact.event.id.upper() for fact in facts if isinstance(fact, Announced | StartedAtOnce)]

    def get(
        self,
        target: str = f"{EVENTS}?api-version={NEWEST}",
        vm: str = "web-0",
        method: str = "GET",
        body: bytes | None = None,
        **headers: str,
    ) -> Reply:
        """Ask as a VM; headers are added to ``Metadata: true``, and an empty one is left out."""
        named = {"Metadata": "true"} | {name.replace("_", "-"): value for name, value in headers.items()}
        return self.ask(method, target, {name: value for name, value in named.items() if value}, vm, body)

    def ask(
        self, method: str, target: str, headers: Mapping[str, str], vm: str = "web-0", body: bytes | None = None
    ) -> Reply:
        """Send exactly these headers, beside Host and what a body needs."""
        connection = http.client.HTTPConnection(
            self.host, self.port, timeout=PATIENCE, source_address=(ADDRESSES.get(vm, vm), 0)
        )
        try:
            connection.request(method, target, body, dict(headers))
            answer = connection.getresponse()
            return Reply(answer.status, tuple(answer.getheaders()), answer.read())
        finally:
            connection.close()

    def send(self, request: bytes, vm: str = "web-0") -> bytes:
        """Send bytes and return all that comes back until the service closes or nothing more is owed."""
        with self.connect(vm) as connection:
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: connection.recv(65_536), b""))

    @contextmanager
    def connect(self, vm: str = "web-0") -> Iterator[socket.socket]:
        with socket.create_connection((self.host, self.port), PATIENCE, (ADDRESSES.get(vm, vm), 0)) as connection:
            yield connection

    def document(self, vm: str = "web-0", version: str = NEWEST) -> Any:
        """Return what a VM is shown."""
        reply = self.get(f"{EVENTS}?api-version={version}", vm)
        assert reply.status == 200, reply
        return reply.json

    def events(self, vm: str = "web-0", version: str = NEWEST) -> list[dict[str, Any]]:
        shown: list[dict[str, Any]] = self.document(vm, version)["Events"]
        return shown

    def enrol(self, *vms: str) -> None:
        """Let VMs ask for the first time."""
        for vm in vms or ADDRESSES:
            self.document(vm)

    def approve(self, *events: str, vm: str = "web-0", version: str = NEWEST, **headers: str) -> Reply:
        body = {"StartRequests": [{"EventId": event} for event in events]}
        return self.post(json.dumps(body).encode(), vm, version, **headers)

    def post(self, body: bytes, vm: str = "web-0", version: str = NEWEST, **headers: str) -> Reply:
        return self.get(f"{EVENTS}?api-version={version}", vm, "POST", body, **headers)


def _free_port(host: str) -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])
