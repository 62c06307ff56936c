"""Programs on the local socket: they hear of every change, approvals wait for them, and nobody harms another."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from forewarn.agent.local.address import LocalAddress
from forewarn.agent.local.connection import MOST_WAITING
from forewarn.agent.local.protocol import LONGEST_LINE
from forewarn.agent.local.server import LocalServer
from forewarn.agent.observation.status import AgentStatus, ApprovalState
from forewarn.client.changes import Change, ChangeKind, Ending
from forewarn.clocks import ManualClock
from forewarn.config.values import ListenAddress
from forewarn.core.errors import Unavailable
from forewarn.core.model import EventStatus
from forewarn.wire.document import ScheduledEvent
from tests.agent.samples import NOW, REBOOT, SHOWN_ID, status, view

NEW = Change(ChangeKind.NEW, REBOOT)
OTHERS = replace(REBOOT, id="b", resources=("web-1",))
STARTED = replace(REBOOT, status=EventStatus.STARTED, not_before=None)
HOLD = {"hold": {"name": "database", "within": "120s"}}
Answer = dict[str, Any]


class Program:
    """A program on the other end."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, *requests: object) -> None:
        self.writer.write(b"".join(json.dumps(request).encode() + b"\n" for request in requests))

    async def hears(self) -> Answer:
        line = await self.reader.readline()
        heard: Answer = json.loads(line) if line else {}
        return heard

    async def asks(self, request: object) -> Answer:
        self.send(request)
        return await self.hears()

    async def leaves(self) -> None:
        self.writer.close()
        await self.writer.wait_closed()


class FakeAgent:
    """The agent's part, as far as its listeners see it."""

    def __init__(self, directory: Path, place: LocalAddress | None = None, **limits: Any) -> None:
        self.events: tuple[ScheduledEvent, ...] = ()
        self.approval = ApprovalState.WAITING
        self.held: list[tuple[str, str, datetime]] = []
        self.released: list[tuple[str, str]] = []
        self.clock = ManualClock(NOW)
        self.path = directory / "agent.sock"
        self.token_file = directory / "token"
        self.programs: list[Program] = []
        self.listeners = LocalServer(
            place or self.path,
            token_file=self.token_file,
            status=self.status,
            present=lambda: self.events,
            concerns=lambda event: "web-0" in event.resources,
            approved=lambda _: self.approval is ApprovalState.SENT,
            held=lambda *hold: self.held.append(hold),
            ready=lambda *word: self.released.append(word),
            clock=self.clock,
            **limits,
        )

    def status(self) -> AgentStatus:
        return status(*(view(event, self.approval) for event in self.events), listeners=self.listeners.count)

    async def program(self) -> Program:
        if self.listeners.port:
            program = Program(*await asyncio.open_connection("127.0.0.1", self.listeners.port))
        else:
            program = Program(*await asyncio.open_unix_connection(self.path))
        self.programs.append(program)
        return program

    async def has(self, count: int) -> None:
        """Wait until as many programs are connected."""
        await until(lambda: len(self.listeners._connections) == count)


async def until(is_so: Callable[[], bool]) -> None:
    """Let the loop turn until something is so; the test's own time limit ends what never is."""
    while not is_so():  # noqa: ASYNC110 nothing else tells of it
        await asyncio.sleep(0)


Check = Callable[[FakeAgent], Awaitable[None]]


def run(directory: Path, check: Check, place: LocalAddress | None = None, **limits: Any) -> None:
    """Let an agent listen for as long as the check takes."""

    async def whole() -> None:
        agent = FakeAgent(directory, place, **limits)
        await agent.listeners.open()
        try:
            async with asyncio.timeout(60):
                await check(agent)
        finally:
            await agent.listeners.close()
            for program in agent.programs:
                program.writer.close()

    asyncio.run(whole())


def test_a_subscriber_hears_what_is_there_and_then_every_change(tmp_path: Path) -> None:
    """First the answer, then the present as new, then one line for each change, in order."""

    async def check(agent: FakeAgent) -> None:
        agent.events = (OTHERS,)
        program = await agent.program()
        assert await program.asks({"subscribe": True}) == {"ok": True}
        present = await program.hears()
        agent.listeners.publish(NEW)
        agent.listeners.publish(Change(ChangeKind.STARTED, STARTED, REBOOT))
        agent.listeners.publish(Change(ChangeKind.GONE, STARTED, STARTED, Ending.COMPLETED))
        new, started, gone = [await program.hears() for _ in range(3)]

        assert (present["change"], present["present"], present["concerns_me"]) == ("new", True, False)
        assert new["event"]["EventId"] == SHOWN_ID
        assert (new["change"], new["concerns_me"]) == ("new", True)
        assert "present" not in new
        assert (started["change"], started["event"]["EventStatus"]) == ("started", "Started")
        assert (gone["change"], gone["ending"]) == ("gone", "completed")

    run(tmp_path, check)


def test_who_has_not_subscribed_hears_nothing(tmp_path: Path) -> None:
    """Only the answers to what it asks."""

    async def check(agent: FakeAgent) -> None:
        program = await agent.program()
        await agent.has(1)
        agent.listeners.publish(NEW)

        assert "status" in await program.asks({"status": True})

    run(tmp_path, check)


def test_the_status_is_told(tmp_path: Path) -> None:
    """With whoever asks among the listeners."""

    async def check(agent: FakeAgent) -> None:
        program = await agent.program()
        result = (await program.asks({"status": True}))["status"]

        assert (result["vm"], result["listeners"]) == ("web-0", 0)

    run(tmp_path, check)


def test_a_new_event_is_held_before_tell_returns(tmp_path: Path) -> None:
    """The approval can never overtake a hold."""

    async def check(agent: FakeAgent) -> None:
        program = await agent.program()
        assert await program.asks(HOLD) == {"ok": True, "held": []}
        agent.listeners.publish(NEW)

        assert agent.held == [(REBOOT.id, "database", NOW + timedelta(seconds=120))]

    run(tmp_path, check)


@pytest.mark.parametrize(
    ("event", "approval"),
    [(OTHERS, ApprovalState.WAITING), (STARTED, ApprovalState.WAITING), (REBOOT, ApprovalState.SENT)],
    ids=["others'", "started", "approved"],
)
def test_what_cannot_wait_is_not_held(tmp_path: Path, event: ScheduledEvent, approval: ApprovalState) -> None:
    """Events of other VMs, events that have started, and events that are approved."""

    async def check(agent: FakeAgent) -> None:
        agent.events, agent.approval = (event,), approval
        program = await agent.program()
        assert await program.asks(HOLD) == {"ok": True, "held": []}
        agent.listeners.publish(Change(ChangeKind.NEW, event))

        assert agent.held == []

    run(tmp_path, check)


def test_an_event_that_comes_to_concern_this_vm_is_held(tmp_path: Path) -> None:
    """It is as good as new."""

    async def check(agent: FakeAgent) -> None:
        program = await agent.program()
        await program.asks(HOLD)
        agent.listeners.publish(Change(ChangeKind.NEW, OTHERS))
        agent.listeners.publish(Change(ChangeKind.CHANGED, replace(OTHERS, resources=("web-0", "web-1")), OTHERS))

        assert [name for _, name, _ in agent.held] == ["database"]

    run(tmp_path, check)


def test_who_registers_late_holds_what_is_there(tmp_path: Path) -> None:
    """At once, and the answer names it."""

    async def check(agent: FakeAgent) -> None:
        agent.events = (REBOOT,)
        program = await agent.program()

        assert await program.asks(HOLD) == {"ok": True, "held": [SHOWN_ID]}
        assert agent.held == [(REBOOT.id, "database", NOW + timedelta(seconds=120))]

    run(tmp_path, check)


def test_a_holder_says_that_it_is_ready(tmp_path: Path) -> None:
    """In any case of the id; for what is not held there is nothing to do."""

    async def check(agent: FakeAgent) -> None:
        agent.events = (REBOOT,)
        program = await agent.program()
        await program.asks(HOLD)

        assert await program.asks({"ready": REBOOT.id, "name": "database"}) == {"ok": True, "held": [SHOWN_ID]}
        assert await program.asks({"ready": "elsewhere", "name": "database"}) == {"ok": True, "held": []}
        assert "there is no holder 'databse'" in (await program.asks({"ready": SHOWN_ID, "name": "databse"}))["error"]
        assert agent.released == [(REBOOT.id, "database")]

    run(tmp_path, check)


def test_a_program_that_crashed_keeps_its_hold_and_may_come_back(tmp_path: Path) -> None:
    """From another connection, under its name; its deadline stays where it was."""

    async def check(agent: FakeAgent) -> None:
        first = await agent.program()
        await first.asks(HOLD)
        agent.events = (REBOOT,)
        agent.listeners.publish(NEW)
        await first.leaves()
        await agent.has(0)
        agent.clock.advance(timedelta(seconds=60))
        again = await agent.program()

        assert await again.asks(HOLD) == {"ok": True, "held": [SHOWN_ID]}
        assert await again.asks({"ready": SHOWN_ID, "name": "database"}) == {"ok": True, "held": [SHOWN_ID]}
        assert agent.held == [(REBOOT.id, "database", NOW + timedelta(seconds=120))]
        assert agent.released == [(REBOOT.id, "database")]

    run(tmp_path, check)


def test_a_program_that_is_gone_holds_no_new_event(tmp_path: Path) -> None:
    """Nobody could tell it."""

    async def check(agent: FakeAgent) -> None:
        program = await agent.program()
        await program.asks(HOLD)
        await program.leaves()
        await agent.has(0)
        agent.listeners.publish(NEW)

        assert agent.held == []

    run(tmp_path, check)


def test_an_event_that_is_gone_is_held_no_more(tmp_path: Path) -> None:
    """Nor is it taken hold of when it goes; should it come again, it is held again."""

    async def check(agent: FakeAgent) -> None:
        canceled = Change(ChangeKind.GONE, REBOOT, REBOOT, Ending.CANCELED)
        program = await agent.program()
        await program.asks(HOLD)
        agent.listeners.publish(canceled)
        assert agent.held == []
        agent.listeners.publish(NEW)
        agent.listeners.publish(canceled)
        assert await program.asks({"ready": SHOWN_ID, "name": "database"}) == {"ok": True, "held": []}
        agent.listeners.publish(NEW)

        assert len(agent.held) == 2

    run(tmp_path, check)


def test_nonsense_is_answered_line_by_line(tmp_path: Path) -> None:
    """And the next good line is done."""

    async def check(agent: FakeAgent) -> None:
        program = await agent.program()
        program.writer.write(b'GET / HTTP/1.1\r\n\xff\xfe\n\n{"status": tru\n')
        program.send({"hold": {"name": "a", "within": "soon"}}, {"subscribe": True})
        heard = [await program.hears() for _ in range(5)]

        assert ["error" in each for each in heard] == [True, True, True, True, False]

    run(tmp_path, check)


def test_lines_may_come_in_pieces(tmp_path: Path) -> None:
    """A line is what ends in a newline, however it travels."""

    async def check(agent: FakeAgent) -> None:
        program = await agent.program()
        for piece in (b'{"subs', b'cribe": t', b'rue}\n{"status": true}\n{'):
            program.writer.write(piece)
            await program.writer.drain()
            await asyncio.sleep(0)

        assert await program.hears() == {"ok": True}
        assert "status" in await program.hears()

    run(tmp_path, check)


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_a_huge_line_costs_its_program_the_connection(tmp_path: Path, end: bytes) -> None:
    """With a sentence, as soon as it is too long."""

    async def check(agent: FakeAgent) -> None:
        program = await agent.program()
        program.writer.write(b"x" * (LONGEST_LINE + 1) + end)

        assert "longer than 65536 bytes" in (await program.hears())["error"]
        assert await program.hears() == {}
        await agent.has(0)

    run(tmp_path, check)


def test_who_never_reads_is_let_go_with_a_reason(tmp_path: Path) -> None:
    """What waits for it is bounded, and everybody else hears everything."""

    async def check(agent: FakeAgent) -> None:
        deaf, other = await agent.program(), await agent.program()
        await deaf.asks({"subscribe": True})
        await other.asks({"subscribe": True})
        deaf.reader._transport.pause_reading()  # type: ignore[attr-defined]
        long = Change(ChangeKind.NEW, replace(REBOOT, description="x" * 10_000))
        for _ in range(200):
            agent.listeners.publish(long)
            assert (await other.hears())["change"] == "new"
        deaf.reader._transport.resume_reading()  # type: ignore[attr-defined]
        late = (await deaf.reader.read()).splitlines()

        assert "too much data is unread" in json.loads(late[-1])["error"]
        assert MOST_WAITING / 10_000 < len(late) < 200

    run(tmp_path, check)


def test_who_never_reads_at_all_is_cut_off(tmp_path: Path) -> None:
    """Last words are not waited for."""

    async def check(agent: FakeAgent) -> None:
        deaf = await agent.program()
        await deaf.asks({"subscribe": True})
        deaf.reader._transport.pause_reading()  # type: ignore[attr-defined]
        for _ in range(200):
            agent.listeners.publish(Change(ChangeKind.NEW, replace(REBOOT, description="x" * 10_000)))
        await agent.has(0)

    run(tmp_path, check, close_timeout=0.0)


def test_a_flood_of_wishes_does_not_keep_others_waiting(tmp_path: Path) -> None:
    """Each program has its turn: a change is heard long before the flood is answered."""

    async def check(agent: FakeAgent) -> None:
        flooding, other = await agent.program(), await agent.program()
        asked = 0

        def answered() -> AgentStatus:
            nonlocal asked
            asked += 1
            return status()

        agent.listeners._status = answered
        await other.asks({"subscribe": True})
        flooding.writer.write(b'{"status":true}\n' * 4_000)
        await until(lambda: bool(asked))
        agent.listeners.publish(Change(ChangeKind.NEW, OTHERS))
        assert (await other.hears())["change"] == "new"
        assert asked < 1_000

        for _ in range(4_000):
            assert "status" in await flooding.hears()

    run(tmp_path, check)


def test_holders_are_bounded(tmp_path: Path) -> None:
    """Thousands of names on one connection are refused beyond the bound; the agent lives."""

    async def check(agent: FakeAgent) -> None:
        agent.events = (REBOOT,)
        program = await agent.program()
        program.send(*({"hold": {"name": f"p{number}", "within": "1s"}} for number in range(3_000)))
        answers = [await program.hears() for _ in range(3_000)]

        assert sum("ok" in each for each in answers) == 64
        assert "there are 64 holders already" in answers[-1]["error"]
        assert len(agent.held) == 64

    run(tmp_path, check)


def test_connections_are_bounded(tmp_path: Path) -> None:
    """One too many is told so; when one has left, the next may come."""

    async def check(agent: FakeAgent) -> None:
        programs = [await agent.program() for _ in range(3)]
        await agent.has(3)
        refused = await agent.program()
        assert "are connected already" in (await refused.hears())["error"]
        assert await refused.hears() == {}
        await programs[0].leaves()
        await agent.has(2)

        assert await (await agent.program()).asks({"subscribe": True}) == {"ok": True}

    run(tmp_path, check, most_connections=3)


def test_who_leaves_without_hearing_the_answers_is_not_answered_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nor does the log fill with what could not be said to it."""

    async def check(agent: FakeAgent) -> None:
        program = await agent.program()
        program.writer.write(b'{"status":true}\n' * 1_000)
        await agent.has(1)
        program.writer.transport.abort()
        await agent.has(0)

    run(tmp_path, check)
    assert caplog.records == []


def test_who_leaves_in_the_middle_of_a_line_harms_nobody(tmp_path: Path) -> None:
    """Half a request is no request."""

    async def check(agent: FakeAgent) -> None:
        program = await agent.program()
        program.writer.write(b'{"hold": {"name": "data')
        await program.leaves()
        other = await agent.program()
        assert await other.asks({"subscribe": True}) == {"ok": True}
        await agent.has(1)
        agent.listeners.publish(NEW)

        assert (await other.hears())["change"] == "new"
        assert agent.held == []

    run(tmp_path, check)


def test_a_second_agent_is_told_of_the_first(tmp_path: Path) -> None:
    """And takes nothing from it; after the first has closed, its file is gone."""

    async def check(agent: FakeAgent) -> None:
        with pytest.raises(Unavailable, match="another agent listens"):
            await FakeAgent(tmp_path).listeners.open()
        assert await (await agent.program()).asks({"subscribe": True}) == {"ok": True}
        await agent.listeners.close()

        assert not agent.path.exists()

    run(tmp_path, check)


LOOPBACK = ListenAddress("127.0.0.1", 0)


def test_a_port_is_opened_by_the_token(tmp_path: Path) -> None:
    """Alone in the first line, or beside the first request; afterwards it is not needed."""

    async def check(agent: FakeAgent) -> None:
        token = agent.token_file.read_text().strip()
        first, second = await agent.program(), await agent.program()

        assert await first.asks({"token": token}) == {"ok": True}
        assert await first.asks({"subscribe": True}) == {"ok": True}
        assert "status" in await second.asks({"token": token, "status": True})

    run(tmp_path, check, LOOPBACK)


@pytest.mark.parametrize(
    "line",
    [b'{"token": "wrong", "status": true}', b'{"token": "\xc3\xa9"}', b'{"subscribe": true}', b"GET / HTTP/1.1"],
)
def test_without_the_token_nothing_is_told(tmp_path: Path, line: bytes) -> None:
    """A wrong one, none, and nonsense: a sentence that names the file, and the end."""

    async def check(agent: FakeAgent) -> None:
        program = await agent.program()
        program.writer.write(line + b'\n{"status": true}\n')

        assert str(agent.token_file) in (await program.hears())["error"]
        assert await program.hears() == {}

    run(tmp_path, check, LOOPBACK)


def test_who_shows_no_token_in_time_is_let_go(tmp_path: Path) -> None:
    """Strangers do not take the places of programs."""

    async def check(agent: FakeAgent) -> None:
        assert "no token within" in (await (await agent.program()).hears())["error"]

    run(tmp_path, check, LOOPBACK, timeout=0.0)
