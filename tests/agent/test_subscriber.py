"""A program in Python talks with a listening agent."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from forewarn.agent.local.address import LocalAddress, listen
from forewarn.agent.observation.status import AgentStatus
from forewarn.agent.subscriber import AgentSocket
from forewarn.client.changes import Change, ChangeKind
from forewarn.config.values import ListenAddress
from forewarn.core.errors import BadInput, Refused, Unavailable
from tests.agent.local.test_server import FakeAgent
from tests.agent.samples import NOW, REBOOT, SHOWN_ID

NEW = Change(ChangeKind.NEW, REBOOT)


class LocalServerHarness:
    """An agent that listens in a thread."""

    def __init__(self, agent: FakeAgent, loop: asyncio.AbstractEventLoop) -> None:
        self.agent = agent
        self._loop = loop

    def tell(self, change: Change) -> None:
        self._loop.call_soon_threadsafe(self.agent.listeners.publish, change)

    def end(self) -> None:
        asyncio.run_coroutine_threadsafe(self.agent.listeners.close(), self._loop).result(30)

    @property
    def place(self) -> LocalAddress:
        port = self.agent.listeners.port
        return ListenAddress("127.0.0.1", port) if port else self.agent.path


@contextmanager
def running(directory: Path, place: LocalAddress | None = None) -> Iterator[LocalServerHarness]:
    begun: Future[LocalServerHarness] = Future()

    async def listen_on() -> None:
        agent = FakeAgent(directory, place)
        await agent.listeners.open()
        stop = asyncio.Event()
        begun.set_result(LocalServerHarness(agent, asyncio.get_running_loop()))
        stops.append(stop)
        await stop.wait()
        await agent.listeners.close()

    stops: list[asyncio.Event] = []
    thread = threading.Thread(target=asyncio.run, args=(listen_on(),))
    thread.start()
    found = begun.result(30)
    try:
        yield found
    finally:
        found._loop.call_soon_threadsafe(stops[0].set)
        thread.join(30)


@pytest.fixture(params=["file", "port"])
def agent(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LocalServerHarness]:
    with running(tmp_path, ListenAddress("127.0.0.1", 0) if request.param == "port" else None) as found:
        yield found


@pytest.fixture
def program(agent: LocalServerHarness) -> Iterator[AgentSocket]:
    with AgentSocket(agent.place, token_file=agent.agent.token_file) as found:
        yield found


def test_changes_begin_with_what_is_there(agent: LocalServerHarness, program: AgentSocket) -> None:
    """Then each comes as it is told."""
    agent.agent.events = (REBOOT,)
    changes = program.changes()
    first = next(changes)
    agent.tell(Change(ChangeKind.CHANGED, REBOOT, REBOOT))

    assert (first.change, first.present, first.event.event_id) == ("new", True, SHOWN_ID)
    assert next(changes).change == "changed"


def test_a_program_holds_and_is_ready(agent: LocalServerHarness, program: AgentSocket) -> None:
    """While it reads changes, without mixing up what it asked for and what it is told."""
    assert program.hold("database", timedelta(minutes=2)) == ()
    changes = program.changes()
    agent.tell(NEW)
    change = next(changes)
    agent.tell(Change(ChangeKind.CHANGED, REBOOT, REBOOT))

    assert program.ready(change)
    assert not program.ready("another")
    assert agent.agent.held == [(REBOOT.id, "database", NOW + timedelta(minutes=2))]
    assert agent.agent.released == [(REBOOT.id, "database")]
    assert next(changes).change == "changed"


def test_the_status_comes_whole(agent: LocalServerHarness, program: AgentSocket) -> None:
    """As the record that the agent made."""
    agent.agent.events = (REBOOT,)
    result = program.status()

    assert isinstance(result, AgentStatus)
    assert (result.vm, result.events[0].rule, result.listeners) == ("web-0", "reboots", 0)


def test_what_the_agent_refuses_is_raised(program: AgentSocket) -> None:
    """In the agent's own words; the conversation goes on."""
    with pytest.raises(Refused, match="did you mean 'Reboot'"):
        program.hold("database", "120s", "Rebot")
    assert program.hold("database", "120s", "Reboot") == ()


def test_an_agent_that_ends_is_told(agent: LocalServerHarness, program: AgentSocket) -> None:
    """Whoever waits for changes is not left waiting."""
    changes = program.changes()
    agent.tell(NEW)
    next(changes)
    agent.end()

    with pytest.raises(Unavailable, match=r"lost the connection.*reconnect"):
        next(changes)


def test_it_connects_again_after_it_was_closed(program: AgentSocket) -> None:
    """With the next request."""
    program.status()
    program.close()

    assert program.status().vm == "web-0"


def test_where_no_agent_is_it_is_said(tmp_path: Path) -> None:
    """With the place and what to look for."""
    with pytest.raises(Unavailable, match=r"no agent answers on .*agent\.sock.*check that it runs"):
        AgentSocket(str(tmp_path / "agent.sock")).status()


def test_without_a_socket_there_is_nobody_to_ask() -> None:
    """The sentence names the setting."""
    with pytest.raises(BadInput, match="socket ="):
        AgentSocket("off")


def test_a_port_without_its_token_stays_closed(tmp_path: Path) -> None:
    """The agent's sentence names the file."""
    with running(tmp_path, ListenAddress("127.0.0.1", 0)) as found:
        wrong = tmp_path / "wrong"
        wrong.write_text("wrong\n")

        with AgentSocket(found.place, token_file=wrong) as program, pytest.raises(Refused, match="wrong token"):
            program.status()
        with (
            AgentSocket(found.place, token_file=tmp_path / "none") as program,
            pytest.raises(Unavailable, match="cannot be read"),
        ):
            program.status()
        with AgentSocket(found.place, token_file=found.agent.token_file) as program:
            assert program.status().vm == "web-0"


def test_what_is_no_agent_is_recognized(tmp_path: Path) -> None:
    """Something else may listen there."""
    path = tmp_path / "agent.sock"
    with listen(path) as listener, AgentSocket(path) as program:
        answering = threading.Thread(target=_answer, args=(listener,))
        answering.start()

        with pytest.raises(Unavailable, match="not from an agent"):
            program.status()
        answering.join(30)


def _answer(listener: socket.socket) -> None:
    listener.settimeout(30)
    visitor, _ = listener.accept()
    with visitor:
        visitor.recv(100)
        visitor.sendall(b"220 mail.example.org ready\r\n")
