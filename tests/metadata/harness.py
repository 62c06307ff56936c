"""A metadata service on a real socket and a clock that only the test moves, and callers with bare sockets."""

import asyncio
import functools
import inspect
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import uvloop

from forewarn.clocks import ManualClock
from forewarn.core.errors import ForewarnError
from forewarn.core.facts import (
    Announced,
    AnyFact,
    Enrolled,
    Entry,
    FleetChanged,
)
from forewarn.core.fleet import Fleet
from forewarn.core.model import NODE, Event, EventSource, EventStatus, EventType, GroupKind, GroupTerms, Vm
from forewarn.core.notice import Rules
from forewarn.metadata.caller import CallerResolver
from forewarn.metadata.connections import ConnectionRegistry
from forewarn.metadata.document_cache import DocumentCache
from forewarn.metadata.limits import Limits
from forewarn.metadata.listener import MetadataListener, bind
from forewarn.metadata.request_records import RequestRecords
from forewarn.metadata.service import MetadataService
from forewarn.node.feed import Commit
from forewarn.wire.approval import Approval

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
DATE = b"Thu, 01 Jan 2026 12:00:00 GMT"
EVENTS = "/metadata/scheduledevents?api-version=2020-07-01"
GENEROUS = Limits(rate=0.0, connections_per_caller=0)


def on_both_loops(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run an async test on uvloop, and in `make test` on plain asyncio too."""
    plain = pytest.param(asyncio.run, marks=pytest.mark.end_to_end)
    return _run_on(test, [plain, uvloop.run], ["asyncio", "uvloop"])


def on_plain_asyncio(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run an async test that replaces methods of its loop, which uvloop's does not allow."""
    return _run_on(test, [asyncio.run], ["asyncio"])


def _run_on(test: Callable[..., Awaitable[None]], runners: list[Any], names: list[str]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(run_loop: Callable[..., None], **arguments: Any) -> None:
        run_loop(_within_time(test(**arguments)))

    own = inspect.signature(test)
    runner = inspect.Parameter("run_loop", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    run.__signature__ = own.replace(parameters=[runner, *own.parameters.values()])  # type: ignore[attr-defined]
    tests: Callable[..., None] = pytest.mark.parametrize("run_loop", runners, ids=names)(run)
    return tests


async def _within_time(test: Awaitable[None]) -> None:
    """Let a test fail whose callers wait for an answer that never comes."""
    async with asyncio.timeout(20):
        await test


def get(target: str = EVENTS, *fields: str, method: str = "GET", metadata: str = "true") -> bytes:
    """Write a request with the fields that every request needs, and more."""
    lines = [f"{method} {target} HTTP/1.1", "Host: 169.254.169.254", *fields]
    if metadata:
        lines.append(f"Metadata: {metadata}")
    return "\r\n".join([*lines, "", ""]).encode()


def post(body: bytes, *fields: str, target: str = EVENTS) -> bytes:
    return get(target, f"Content-Length: {len(body)}", *fields, method="POST") + body


def event(id_: str, *, group: str = "web", **changes: Any) -> Event:
    """Make an event of the group."""
    fields: dict[str, Any] = {
        "id": id_,
        "type": EventType.REBOOT,
        "source": EventSource.USER,
        "group": group,
        "resources": ("web-0",),
        "status": EventStatus.SCHEDULED,
        "not_before": NOW + timedelta(minutes=15),
        "announced_at": NOW,
        "operation": "restart",
        "description": "Virtual machine is going to be restarted as requested by authorized user.",
    }
    return Event(**(fields | changes))


class MetadataHarness:
    """The service and what the test can do to it."""

    def __init__(self, limits: Limits, default_vm: str = "") -> None:
        self.clock = ManualClock(NOW)
        self.fleet = Fleet()
        self.document_cache = DocumentCache(self.seconds)
        self.records = RequestRecords(self.document_cache, Rules(), self.seconds, self.clock.now)
        self.enrolments: list[tuple[str, str]] = []
        self.approvals: list[tuple[str, tuple[str, ...]]] = []
        self.failure: ForewarnError | None = None
        self.gate = asyncio.Event()
        self.gate.set()
        self.service = MetadataService(
            self.document_cache,
            CallerResolver(self.document_cache, default_vm),
            self.records,
            limits,
            enrol=self._enrol,
            approve=self._approve,
            seconds=self.seconds,
            now=self.clock.now,
        )
        self.registry = ConnectionRegistry(self.service, limits)
        self.document_cache.load(self.fleet)
        self._revision = 0

    def seconds(self) -> float:
        return self.clock.now().timestamp()

    def commit(self, *facts: AnyFact) -> None:
        """Make facts durable and known."""
        self._revision += 1
        for fact in facts:
            self.fleet.evolve(fact)
        entry = Entry(self._revision, self.clock.now(), "command", NODE, facts)
        self.document_cache.publish(Commit((entry,), self.fleet))

    def announce(self, id_: str, **changes: Any) -> None:
        self.commit(Announced(event(id_, **changes)))

    def move(self, seconds: float) -> None:
        """Let time pass."""
        self.clock.advance(timedelta(seconds=seconds))
        self.service.tick()

    async def _enrol(self, group: str, vm: str) -> None:
        self.enrolments.append((group, vm))
        await self.gate.wait()
        if self.failure:
            raise self.failure
        self.commit(Enrolled(group, self.clock.now(), vm))

    async def _approve(self, vm: str, said: Approval) -> None:
        self.approvals.append((vm, said.events))
        await self.gate.wait()
        if self.failure:
            raise self.failure


WEB = FleetChanged(
    groups=(GroupTerms("web", GroupKind.AVAILABILITY_SET),),
    vms=(Vm("web-0", "web", address="127.0.0.1"), Vm("web-1", "web", address="127.0.0.2")),
)


@asynccontextmanager
async def harness(
    limits: Limits = GENEROUS,
    *,
    facts: Iterable[AnyFact] = (WEB,),
    is_enrolled: bool = True,
    default_vm: str = "",
    tick: float = 1.0,
    pause: float = 0.5,
) -> AsyncIterator["RunningMetadataHarness"]:
    """Run a service whose fleet is one group of two VMs, at 127.0.0.1 and 127.0.0.2."""
    running = RunningMetadataHarness(limits, default_vm)
    running.registry = ConnectionRegistry(running.service, limits, tick=tick)
    running.commit(*facts)
    if is_enrolled:
        running.commit(*(Enrolled(group, NOW, "") for group in running.fleet.groups))
    running.listener = MetadataListener(running.registry, bind("127.0.0.1", 0), pause=pause)
    await running.listener.start()
    try:
        yield running
    finally:
        for caller in running.callers:
            caller.close()
        running.gate.set()
        await running.listener.stop(grace=0.2)


class RunningMetadataHarness(MetadataHarness):
    """A service that listens."""

    listener: MetadataListener

    def __init__(self, limits: Limits, default_vm: str) -> None:
        super().__init__(limits, default_vm)
        self.callers: list[Caller] = []

    async def call(self, request: bytes = b"", source: str = "127.0.0.1") -> "Caller":
        """Connect from an address and send the first bytes."""
        wire = socket.socket()
        wire.setblocking(False)
        wire.bind((source, 0))
        caller = Caller(wire)
        self.callers.append(caller)
        await asyncio.get_running_loop().sock_connect(wire, ("127.0.0.1", self.listener.port))
        if request:
            await caller.send(request)
        return caller

    async def ask(self, request: bytes, source: str = "127.0.0.1") -> "ParsedResponse":
        """Send one request on a connection of its own."""
        caller = await self.call(request, source)
        answer = await caller.answer(is_head=request.startswith(b"HEAD"))
        caller.close()
        return answer

    async def settle(self) -> None:
        """Let the service do what it has to do with all that was sent before."""
        for _ in range(3):
            await self.ask(get("/metadata/versions"), source="127.0.0.2")


class ParsedResponse:
    """One answer, taken apart."""

    def __init__(self, head: bytes, body: bytes) -> None:
        self.head = head
        self.body = body
        lines = head.decode().split("\r\n")
        self.status = int(lines[0].split(" ")[1])
        self.fields = {line.partition(":")[0].lower(): line.partition(":")[2].strip() for line in lines[1:] if line}

    def __bytes__(self) -> bytes:
        return self.head + self.body


class Caller:
    """A bare socket."""

    def __init__(self, wire: socket.socket) -> None:
        self.wire = wire
        self._loop = asyncio.get_running_loop()
        self._received = b""

    async def send(self, sent: bytes) -> None:
        await self._loop.sock_sendall(self.wire, sent)

    async def send_slowly(self, sent: bytes) -> None:
        """Send byte by byte, each in a packet of its own."""
        self.wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in sent:
            await self._loop.sock_sendall(self.wire, bytes([byte]))
            await asyncio.sleep(0)

    async def answer(self, *, is_head: bool = False) -> ParsedResponse:
        """Read one answer."""
        while b"\r\n\r\n" not in self._received:
            await self._more()
        end = self._received.index(b"\r\n\r\n") + 4
        head, self._received = self._received[:end], self._received[end:]
        length = re.search(rb"(?i)content-length: (\d+)", head)
        size = int(length[1]) if length and not is_head else 0
        while len(self._received) < size:
            await self._more()
        body, self._received = self._received[:size], self._received[size:]
        return ParsedResponse(head, body)

    async def rest(self) -> bytes:
        """Read until the service closes the connection."""
        while more := await asyncio.wait_for(self._loop.sock_recv(self.wire, 65536), 60):
            self._received += more
        return self._received

    async def _more(self) -> None:
        more = await asyncio.wait_for(self._loop.sock_recv(self.wire, 65536), 60)
        if not more:
            raise ConnectionError(f"closed after {self._received!r}")
        self._received += more

    def has_nothing(self) -> bool:
        """Return whether no byte has arrived that was not read."""
        try:
            return not self._received and self.wire.recv(1, socket.MSG_PEEK) is None
        except BlockingIOError:
            return True

    def close(self) -> None:
        self.wire.close()
