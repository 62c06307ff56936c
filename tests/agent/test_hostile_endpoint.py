"""The agent against an endpoint that is not well: its clock differs, its document is too large or cannot be read."""

import asyncio
import json
import logging
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from forewarn import plugin_loader
from forewarn.agent.decision.rules import MOST_EVENTS
from forewarn.agent.handler import HandlerDone, HandlerOutcome, HandlerResult, HandlerUnknown, Task
from forewarn.agent.observation.status import ApprovalState
from forewarn.agent.runtime.loop import Agent
from forewarn.agent.settings import AgentSettings, load
from forewarn.wire.dates import show_time
from tests.agent.runtime.test_loop import play, until

pytestmark = pytest.mark.end_to_end


class Noting:
    """A handler that keeps its tasks."""

    repeats = True
    shared = False
    tasks: list[Task]

    @classmethod
    def from_settings(cls, settings: dict[str, object], directory: Path) -> "Noting":
        return cls()

    def do(self, task: Task) -> HandlerResult:
        Noting.tasks.append(task)
        return HandlerDone()

    undo = do

    def outcome_of(self, task: Task) -> HandlerOutcome:
        return HandlerUnknown()

    def close(self) -> None:
        pass


class Endpoint:
    """Shows the events that a test likes, with the Date that it likes."""

    def __init__(self) -> None:
        self.ahead = timedelta(0)
        self.events: list[dict[str, object]] = []
        self.incarnation = 1
        self.approved: list[str] = []
        self.answers = 1_000_000
        """How many documents are shown before it falls silent."""
        self.closed = threading.Event()
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                if "instance" not in self.path:
                    endpoint.answers -= 1
                    if endpoint.answers < 0:
                        endpoint.closed.wait()
                self._answer(b"web-0" if "instance" in self.path else endpoint.document())

            def do_POST(self) -> None:
                said = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                endpoint.approved += [each["EventId"] for each in said["StartRequests"]]
                self._answer(b"")

            def _answer(self, body: bytes) -> None:
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def date_time_string(self, timestamp: float | None = None) -> str:
                return show_time(endpoint.now())

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    def now(self) -> datetime:
        return datetime.now(UTC) + self.ahead

    def document(self) -> bytes:
        return json.dumps({"DocumentIncarnation": self.incarnation, "Events": self.events}).encode()

    def show(self, *events: dict[str, object]) -> None:
        self.incarnation += 1
        self.events = list(events)

    def event(self, id: str = "A", **fields: object) -> dict[str, object]:
        usual = {"EventId": id, "EventStatus": "Scheduled", "EventType": "Reboot", "Resources": ["web-0"]}
        return {**usual, "NotBefore": show_time(self.now() + timedelta(minutes=15)), **fields}


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    Noting.tasks = []
    monkeypatch.setattr(plugin_loader, "load", lambda *_: Noting)
    made = Endpoint()
    yield made
    made.closed.set()
    made.server.shutdown()
    made.server.server_close()
    made.thread.join()


def settings(directory: Path, endpoint: Endpoint, handlers: str = '["note"]') -> AgentSettings:
    path = directory / "agent.toml"
    path.write_text(
        f'url = "http://127.0.0.1:{endpoint.server.server_port}"\nstate = "{directory}/state"\n'
        f'socket = "off"\nhttp = "off"\n[[rules]]\nhandlers = {handlers}\n[handlers.note]\nkind = "noting"\n'
    )
    return load({}, {}, path)


@pytest.mark.parametrize("hours", [1, -1])
def test_a_vm_whose_clock_is_an_hour_off_prepares_and_approves(
    tmp_path: Path, endpoint: Endpoint, hours: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Its handlers have their time, by the VM's own clock; after a restart it puts back what it did."""
    endpoint.ahead = timedelta(hours=hours)
    endpoint.show(endpoint.event())

    async def prepare(agent: Agent) -> None:
        await until(lambda: endpoint.approved == ["A"])
        assert abs(agent.status().clock_offset - 3600 * hours) < 5
        assert "the endpoint's clock is used" in agent.status().clock_trouble

    async def put_back(agent: Agent) -> None:
        endpoint.show()
        await until(lambda: len(Noting.tasks) == 2 and not agent.status().events)

    play(settings(tmp_path, endpoint), prepare)
    left = Noting.tasks[0].deadline - datetime.now(UTC)
    assert timedelta(seconds=30) < left < timedelta(seconds=61)
    assert len([each for each in caplog.messages if "the endpoint's clock is used" in each]) == 1
    endpoint.ahead = timedelta(0)  # somebody has set the clock meanwhile
    play(settings(tmp_path, endpoint), put_back)
    assert [str(task.direction) for task in Noting.tasks] == ["do", "undo"]


def test_an_endpoint_that_falls_silent_while_its_clock_is_sampled_keeps_the_agent_from_nothing(
    tmp_path: Path, endpoint: Endpoint
) -> None:
    """What it has shown is prepared for, by this VM's clock."""
    endpoint.ahead, endpoint.answers = timedelta(hours=1), 1
    endpoint.show(endpoint.event())

    async def prepare(agent: Agent) -> None:
        async with asyncio.timeout(8):  # less than a request of the client may take
            await until(lambda: bool(Noting.tasks))
        assert agent.status().clock_offset == 0

    play(settings(tmp_path, endpoint), prepare, partial(Agent, sampling_timeout=0.5))


def test_a_bad_event_of_a_neighbour_does_not_make_the_agent_deaf(
    tmp_path: Path, endpoint: Endpoint, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged once, counted in the status, and the event of this VM is prepared for."""
    caplog.set_level(logging.INFO)
    bad = [
        endpoint.event("B", NotBefore="TBD"),
        endpoint.event("C", Resources=None),
        endpoint.event("D", DurationInSeconds=1.5),
    ]
    endpoint.show(bad[0], endpoint.event(), *bad[1:])

    async def story(agent: Agent) -> None:
        await until(lambda: endpoint.approved == ["A"])
        assert agent.status().unreadable == 3
        # What can no longer be read is not gone: nothing is put back.
        endpoint.show(*bad, endpoint.event(NotBefore="soon"))
        await until(lambda: agent.status().unreadable == 4)
        assert [view.approval for view in agent.status().events] == [ApprovalState.SENT]
        endpoint.show(*bad)
        await until(lambda: not agent.status().events)

    play(settings(tmp_path, endpoint), story)
    assert len([each for each in caplog.messages if "cannot be read" in each]) == 4
    assert len(Noting.tasks) == 2


def test_thousands_of_events_are_followed_up_to_the_limit(
    tmp_path: Path, endpoint: Endpoint, caplog: pytest.LogCaptureFixture
) -> None:
    """The event of this VM, which stands last, is prepared for; one line says that the rest is ignored."""
    others = [endpoint.event(f"N{number}", Resources=["db-0"]) for number in range(3_000)]
    endpoint.show(*others, endpoint.event())

    async def story(agent: Agent) -> None:
        await until(lambda: endpoint.approved == ["A"])
        assert len(agent.status().events) == MOST_EVENTS
        assert agent.status().ignored == 1_001
        endpoint.show(*others)
        await until(lambda: not any(view.concerns_me for view in agent.status().events))

    play(settings(tmp_path, endpoint), story)
    assert len([each for each in caplog.messages if "too many events" in each]) == 1
    assert len(Noting.tasks) == 2
