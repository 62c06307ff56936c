"""One guest: the programs of a VM as a simulated process, and the requests they send to the metadata service."""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Protocol

import msgspec

from forewarn.simulator.environment.clock import SimulatedClock
from forewarn.simulator.environment.loop import SimulatedLoop, SimulatedProcess
from forewarn.simulator.environment.service import ENDPOINT
from forewarn.simulator.exchanges import Exchange, VmExchange
from forewarn.simulator.plan import PlannedVm

TARGET = "/metadata/scheduledevents?api-version="
METADATA = (("Metadata", "true"),)
_ROAMING = 0.3
"""Chance that a guest connects anew before a request, where there are several nodes."""
_RESPONSE_LIMIT = 10.0
"""Seconds after which a guest no longer waits for a response."""


class Freshness(Protocol):
    """How far nodes are behind what is durable."""

    def as_of(self) -> float:
        """Return the second up to which every node that may answer holds everything."""

    def lag(self) -> float:
        """Return the seconds by which a node is behind, or was a moment ago."""


class SimulatedGuest:
    """The guest of one VM. It outlives its processes, as a disk and a battery-backed clock do."""

    def __init__(
        self, vm: PlannedVm, loop: SimulatedLoop, directory: Path, random: Random, see: Callable[[Exchange], None]
    ) -> None:
        self.vm = vm
        self.loop = loop
        self.directory = directory
        """Its disk."""
        self.random = random
        self.see = see
        self.clock = SimulatedClock(loop)
        self.process = SimulatedProcess(vm.name, vm.address)
        self.process.is_alive = False
        self.boots = 0
        self.is_quiet = False
        """Whether it misbehaves no more."""
        self.nodes: Freshness | None = None
        """Tells how far nodes are behind, where there are several."""
        self.wrong: list[str] = []
        """What must never happen in a guest."""

    @property
    def boot_id(self) -> str:
        return f"{self.vm.name}-boot-{self.boots}"

    def begin(
        self, method: str, target: str, body: bytes = b"", *, waits: bool = False, tag: str = ""
    ) -> "PendingExchange":
        """Note that a request is being sent."""
        return PendingExchange(self, method, target, body, waits=waits, tag=tag)


class PendingExchange:
    """A request without a response yet. It is reported once: when the response is there, or none will come."""

    def __init__(
        self, guest: SimulatedGuest, method: str, target: str, body: bytes, *, waits: bool, tag: str
    ) -> None:
        self._guest = guest
        self._method = method
        self._target = target
        self._body = body
        self._waits = waits
        self._tag = tag
        self._sent_at = guest.loop.time()
        self._as_of = guest.nodes.as_of() if guest.nodes else None
        self._process = guest.process
        self._process.on_kill[self] = self._lose

    def end(self, status: int = 0, response: bytes = b"", headers: dict[str, str] | None = None) -> VmExchange:
        """Report the response, or with status 0 that none came."""
        exchange = VmExchange(
            self._guest.vm.name,
            self._method,
            self._target,
            self._body,
            self._sent_at,
            self._guest.loop.time(),
            status,
            response,
            headers or {},
            self._guest.vm.guest,
            self._waits,
            self._tag,
            self._as_of,
            self._guest.nodes.lag() if self._guest.nodes else 0.0,
        )
        if self._process.on_kill.pop(self, None):
            self._guest.see(exchange)
        return exchange

    def _lose(self) -> None:
        self.end()


class ReadEvent(msgspec.Struct, rename={"id": "EventId", "status": "EventStatus", "resources": "Resources"}):
    """What guests read of an event; all api-versions have it."""

    id: str
    status: str
    resources: list[str]


class GuestConnection:
    """A plain HTTP connection to the metadata service, kept open between requests."""

    def __init__(self, guest: SimulatedGuest) -> None:
        self._guest = guest
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self.tag = ""
        """The ETag of the newest document, where the guest asks several nodes."""
        self.shown: list[ReadEvent] = []
        """The events of that document."""

    async def request(
        self,
        method: str,
        target: str,
        body: bytes = b"",
        headers: Iterable[tuple[str, str]] = METADATA,
        limit: float = _RESPONSE_LIMIT,
    ) -> VmExchange:
        """Send a request and wait for the response; a failure is a response with status 0."""
        lines = [
            f"{method} {target} HTTP/1.1",
            "Host: 169.254.169.254",
            *(f"{name}: {text}" for name, text in headers),
        ]
        if method == "POST":
            lines.append(f"Content-Length: {len(body)}")
        content = "\r\n".join([*lines, "", ""]).encode() + body
        waits = any(name == "Prefer" for name, _ in headers)
        tag = next((text for name, text in headers if name == "If-None-Match"), "")
        return (await self.send(content, [(method, target, body)], limit, waits=waits, tag=tag))[0]

    async def send(
        self,
        content: bytes,
        requests: Iterable[tuple[str, str, bytes]],
        limit: float = _RESPONSE_LIMIT,
        *,
        waits: bool = False,
        tag: str = "",
    ) -> list[VmExchange]:
        """Send bytes that make up these requests, and read a response to each."""
        pending = [self._guest.begin(*request, waits=waits, tag=tag) for request in requests]
        exchanges: list[VmExchange] = []
        try:
            async with asyncio.timeout(limit):
                reader, writer = await self._open()
                writer.write(content)
                while len(exchanges) < len(pending):
                    exchanges += [pending[len(exchanges)].end(*await _read_response(reader))]
        except (OSError, TimeoutError, EOFError, ValueError, asyncio.LimitOverrunError):
            self.close()
            exchanges += [each.end() for each in pending[len(exchanges) :]]
        if exchanges and exchanges[-1].headers.get("connection", "").lower() == "close":
            self.close()
        return exchanges

    @property
    def roams(self) -> bool:
        return self._guest.nodes is not None

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None

    def _goes_elsewhere(self) -> bool:
        return self.roams and self._guest.random.random() < _ROAMING

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._streams is not None and (self._streams[0].at_eof() or self._goes_elsewhere()):
            self.close()
        if self._streams is None:
            self._streams = await asyncio.open_connection(*ENDPOINT)
        return self._streams


class _ReadDocument(msgspec.Struct, rename="pascal"):
    events: list[ReadEvent]


_read_document = msgspec.json.Decoder(_ReadDocument).decode


def events_of(exchange: VmExchange) -> list[ReadEvent]:
    """Return the events of a response; none where it is not a document."""
    if exchange.status == 200 and exchange.method == "GET":
        with suppress(msgspec.MsgspecError):
            return _read_document(exchange.response).events
    return []


def approval_of(ids: Iterable[str]) -> bytes:
    """Return the body that approves events."""
    return msgspec.json.encode({"StartRequests": [{"EventId": id_} for id_ in ids]})


async def _read_response(reader: asyncio.StreamReader) -> tuple[int, bytes, dict[str, str]]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    status = int(head[0][9:12])
    headers = {name.lower(): text.strip() for name, _, text in (line.partition(":") for line in head[1:] if line)}
    length = 0 if status in (204, 304) else int(headers.get("content-length", "0"))
    return status, await reader.readexactly(length) if length else b"", headers
