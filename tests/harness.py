"""A node on a memory journal behind a real control API, in a thread of its own, with a clock that stands still."""

import asyncio
import http.client
import json
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch
from uuid import uuid4

import msgspec
from litestar import Litestar
from msgspec.structs import asdict

from forewarn.clocks import ManualClock
from forewarn.config import toml
from forewarn.config.values import ListenAddress
from forewarn.control.api.app import make_app
from forewarn.control.api.context import ApiContext
from forewarn.control.server.control_plane import ControlPlane
from forewarn.control.server.sockets import LIMITS, ControlSockets, ServerLimits
from forewarn.core.commands import (
    ApplyDeclaration,
    Command,
    Enrol,
    ImpactResult,
    RecordAttempt,
    RecordFetched,
    ReportImpact,
)
from forewarn.core.facts import AnyFact, Fetch, Mark
from forewarn.core.model import NODE, Caller, CallerKind
from forewarn.core.notice import Rules
from forewarn.core.rollouts.commands import AdvanceRollout
from forewarn.fleetfile.diff import CurrentFleet, diff_fleet
from forewarn.fleetfile.parser import parse_fleet
from forewarn.journal.memory import MemoryJournal
from forewarn.journal.port import Journal
from forewarn.node.node import Node

FLEET = """
[[host]]
name = "h1"
[[host]]
name = "h2"
[[group]]
name = "web"
kind = "availability-set"
[[group]]
name = "pool"
kind = "scale-set"
terminate_notice = "PT5M"
[[vm]]
name = "web-0"
group = "web"
host = "h1"
address = "10.0.0.1"
[[vm]]
name = "web-1"
group = "web"
host = "h2"
update_domain = 1
fault_domain = 1
address = "10.0.0.2"
[[vm]]
name = "pool_0"
group = "pool"
host = "h1"
spot = true
[[vm]]
name = "db"
host = "h2"
"""
_Result = TypeVar("_Result")
_OPERATOR = Caller(CallerKind.OPERATOR, "ada")
_SPARE: list[Litestar] = []
"""Applications that no harness uses now: to assemble one takes longer than most tests, and only the plane differs."""


class ApiResponse(msgspec.Struct, frozen=True):
    """What the API answered."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class _Unix(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=20)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(20)
        self.sock.connect(str(self._path))


class ApiHarness:
    """What a test holds: the directory that commands name, and the node behind it."""

    def __init__(
        self,
        directory: Path,
        *,
        moves_live: bool = False,
        moves_to_host: bool = False,
        switches: bool = False,
        limit: int = 0,
        journal: Journal | None = None,
        limits: ServerLimits = LIMITS,
    ) -> None:
        self.directory = directory
        self.clock = ManualClock()
        self.journal = journal or MemoryJournal()
        self.node = Node(self.journal, self.clock, Rules(user_operation_limit=limit))
        self.asked: dict[str, Mark] = {}
        self.context = ApiContext(
            self.node,
            self.journal,
            self.asked.get,
            moves_live=moves_live,
            moves_to_host=moves_to_host,
            switches=switches,
            metrics=lambda: b"",
        )
        self.control_plane = ControlPlane(
            self.context, ControlSockets(directory, ListenAddress("127.0.0.1", 0)), limits=limits
        )
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever)
        self._app: Litestar | None = None

    def run(self, work: Callable[[], Awaitable[_Result]]) -> _Result:
        """Have something done on the service's own loop."""

        async def do() -> _Result:
            return await work()

        return asyncio.run_coroutine_threadsafe(do(), self.loop).result(30)

    def do(self, command: Command) -> tuple[AnyFact, ...]:
        return self.run(lambda: self.node.submit(command))

    def connect(self, token: str | None = None) -> http.client.HTTPConnection:
        """Connect as the local operator; over TCP with a token, or with none when it is empty."""
        if token is None:
            return _Unix(self.directory / "control.sock")
        return http.client.HTTPConnection("127.0.0.1", self.control_plane.port, timeout=20)

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        token: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> ApiResponse:
        """Send one request; bytes are sent as they are, anything else as JSON."""
        sent = body if body is None or isinstance(body, bytes) else msgspec.json.encode(body)
        connection = self.connect(token)
        bearing = {"Authorization": f"Bearer {token}"} if token else {}
        connection.request(method, path, sent, {**bearing, **(headers or {})})
        answer = connection.getresponse()
        said = ApiResponse(answer.status, {key.lower(): value for key, value in answer.getheaders()}, answer.read())
        connection.close()
        return said

    def token(self, name: str, role: str = "operator", *groups: str, **more: object) -> str:
        """Create a token and return what its bearer shows."""
        said = self.ask("POST", "/v1/tokens", {"name": name, "role": role, "groups": groups, **more})
        assert said.status == 201, said
        return str(said.json["token"])

    def declare(self, text: str) -> None:
        """Make the fleet what the text of a fleet file says."""
        last = CurrentFleet.last_applied(self.node.replica.fleet)
        change = asdict(diff_fleet(parse_fleet(toml.parse(text, "fleet.toml")), last))
        seen = self.node.replica.fleet.last_applied.revision
        self.do(ApplyDeclaration(id=uuid4().hex, by=_OPERATOR, seen=seen, **change))

    def enrol(self, group: str, vm: str) -> None:
        """Let a VM ask for the first time."""
        self.asked[group] = Mark(group, self.clock.now(), vm)
        self.do(Enrol(id=uuid4().hex, by=Caller(CallerKind.VM, vm), group=group, vm=vm))

    def show(self, event: str, vm: str, at: datetime | None = None) -> None:
        """Record that a VM was shown an event, now or earlier."""
        fetch = Fetch(event, vm, at or self.clock.now())
        self.do(RecordFetched(id=uuid4().hex, by=NODE, fetches=(fetch,)))

    def attempt(self, event: str, term: int = 0, node: str = "") -> None:
        """Let the driver be called for a started event."""
        self.do(RecordAttempt(id=uuid4().hex, by=NODE, event=event, term=term, node=node))

    def finish(self, event: str) -> None:
        """Let the driver do what a started event announced."""
        self.attempt(event)
        self.do(ReportImpact(id=uuid4().hex, by=NODE, event=event, result=ImpactResult.DONE))

    def advance_rollouts(self) -> None:
        """Let every rollout do what it can do now."""
        while any(self._advance(name) for name in list(self.node.replica.fleet.rollouts)):
            pass

    def _advance(self, rollout: str) -> bool:
        return bool(self.do(AdvanceRollout(id=uuid4().hex, by=NODE, rollout=rollout)))

    def recorded(self) -> list[AnyFact]:
        """Return everything that has happened."""
        return [fact for entry in self.journal.entries(0, 10_000) for fact in entry.facts]

    def start(self) -> None:
        self._thread.start()
        self.run(self.node.start)

    def open(self) -> None:
        """Begin to answer."""
        app = _SPARE.pop() if _SPARE else make_app(self.context)
        app.state["context"] = self.context
        with patch("forewarn.control.server.control_plane.make_app", return_value=app):
            self.run(self.control_plane.open)
        self._app = app

    def stop(self) -> None:
        self.run(self.control_plane.close)
        if self._app is not None:
            _SPARE.append(self._app)
        self.run(self.node.stop)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(30)
        self.loop.close()


@contextmanager
def open_harness(
    directory: Path,
    *,
    moves_live: bool = False,
    moves_to_host: bool = False,
    limit: int = 0,
    journal: Journal | None = None,
    limits: ServerLimits = LIMITS,
) -> Iterator[ApiHarness]:
    """Open a control plane in a directory, with the small fleet declared; on a memory journal unless one is given."""
    harness = ApiHarness(
        directory, moves_live=moves_live, moves_to_host=moves_to_host, limit=limit, journal=journal, limits=limits
    )
    harness.start()
    try:
        harness.open()
        harness.declare(FLEET)
        yield harness
    finally:
        harness.stop()
