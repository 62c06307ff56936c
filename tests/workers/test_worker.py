"""A worker, from the first message of its leader to the last, on a real journal and a real port."""

import asyncio
import gc
import json
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from forewarn import logs
from forewarn.core.commands import Approve, Enrol
from forewarn.core.facts import Announced, Enrolled, Entry, FleetChanged
from forewarn.core.model import NODE, GroupKind, GroupTerms, Vm
from forewarn.journal.sqlite.journal import SqliteJournal
from forewarn.metadata.limits import Limits
from forewarn.workers import environment, locks
from forewarn.workers.channel import SocketChannel
from forewarn.workers.environment import ProcessEnvironment
from forewarn.workers.follower import CannotFollow
from forewarn.workers.messages import (
    Answer,
    Applied,
    Configure,
    Entries,
    Listen,
    Listening,
    Message,
    ReadTo,
    Ready,
    Show,
    StartFailed,
    Stop,
    Submit,
    WorkerReport,
    WorkerSettings,
    decode_for_leader,
)
from forewarn.workers.shared_memory import SharedMemory
from forewarn.workers.worker import Worker
from tests.metadata.harness import NOW, event, get, post
from tests.workers.harness import SETTINGS

APPROVAL = b'{"StartRequests":[{"EventId":"e1"}]}'


@pytest.fixture(autouse=True)
def _process_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker has a process for itself; here it must leave log and garbage collector alone."""
    monkeypatch.setattr(logs, "set_up", lambda *_: None)
    monkeypatch.setattr(environment, "exempt_fleet_from_collection", gc.enable)


class WorkerHarness:
    """The leader's end of a worker that runs in this process."""

    def __init__(self, directory: Path, settings: WorkerSettings) -> None:
        self.directory = directory
        self.settings = settings
        self.memory = SharedMemory.create(1)
        self.memory.shown[0] = 2
        self.memory.leader_alive_at = 1e12
        self.worker = Worker(0, self.memory, ProcessEnvironment(0), report_every=0.01)
        self.heard: list[Message] = []
        self.is_closed = asyncio.Event()
        self._news = asyncio.Event()
        self.journal = SqliteJournal(directory)
        self.journal.load()
        vms = (Vm("web-0", "web", address="127.0.0.1"), Vm("web-1", "web", address="127.0.0.2"))
        groups = (GroupTerms("web", GroupKind.AVAILABILITY_SET),)
        self.append(Entry(1, NOW, "c1", NODE, (FleetChanged(groups=groups, vms=vms),)))
        self.append(Entry(2, NOW, "c2", NODE, (Enrolled("web", NOW, "web-0"),)))

    def append(self, entry: Entry) -> Entry:
        self.journal.append(entry.revision - 1, [entry])
        return entry

    def hear(self, body: bytes) -> None:
        self.heard.append(decode_for_leader(body))
        self._news.set()

    async def next(self, kind: type[Message]) -> Message:
        """Return the next message of a kind that the worker sends."""
        while True:
            for at, message in enumerate(self.heard):
                if isinstance(message, kind):
                    del self.heard[: at + 1]
                    return message
            self._news.clear()
            await self._news.wait()

    async def listen(self) -> None:
        self.channel.send(Configure(self.settings))
        assert await self.next(Ready) == Ready(2)
        self.channel.send(Listen())
        listening = await self.next(Listening)
        assert isinstance(listening, Listening)
        ((address, _),) = listening.addresses
        self.port = int(address.rpartition(":")[2])

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        """Send one request, and return its status and body."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        body = await reader.readexactly(length)
        writer.close()
        await writer.wait_closed()
        return int(head.split(b" ")[1]), body

    async def incarnation(self) -> int:
        status, body = await self.ask(get())
        assert status == 200
        return int(json.loads(body)["DocumentIncarnation"])

    channel: SocketChannel
    port: int


@asynccontextmanager
async def a_worker(directory: Path, **changes: object) -> AsyncIterator[WorkerHarness]:
    limits = Limits(rate=0.0, connections_per_caller=0)
    settings = replace(SETTINGS, journal_directory=str(directory), port=0, limits=limits, **changes)
    harness = WorkerHarness(directory, settings)
    ours, theirs = socket.socketpair()
    harness.channel = await SocketChannel.open(ours, harness.hear, harness.is_closed.set)
    harness.worker.channel = await SocketChannel.open(theirs, harness.worker.receive, harness.worker.lose_leader)
    running = asyncio.create_task(harness.worker.run())
    try:
        async with asyncio.timeout(20):
            yield harness
            harness.worker.stop()
            await running
    finally:
        running.cancel()
        harness.journal.close()
        harness.channel.close()
        os.close(harness.memory.descriptor)


def play(directory: Path, story: Callable[[WorkerHarness], Awaitable[None]], **changes: object) -> None:
    async def run() -> None:
        async with a_worker(directory, **changes) as harness:
            await story(harness)

    asyncio.run(run())


def test_a_worker_shows_a_commit_when_it_may(tmp_path: Path) -> None:
    """Whether it was sent or read from the journal; it answers as soon as it is told to listen."""

    async def story(harness: WorkerHarness) -> None:
        await harness.listen()
        assert await harness.incarnation() == 1
        harness.channel.send(Entries((harness.append(Entry(3, NOW, "c3", NODE, (Announced(event("e1")),))),)))
        assert await harness.next(Applied) == Applied(3)
        assert await harness.incarnation() == 1
        harness.memory.shown[0] = 3
        assert await harness.incarnation() == 2
        harness.append(Entry(4, NOW, "c4", NODE, (Announced(event("e2")),)))
        harness.channel.send(ReadTo(4))
        assert await harness.next(Applied) == Applied(4)
        harness.memory.shown[0] = 4
        harness.channel.send(Show())
        assert await harness.incarnation() == 3

    play(tmp_path, story)


def test_an_approval_is_passed_on_and_answered_when_the_leader_answers(tmp_path: Path) -> None:
    """By the VM that asked; a refusal is passed back with its reason."""

    async def story(harness: WorkerHarness) -> None:
        await harness.listen()
        for kind, reason, status in (("", "", 200), ("Refused", "there is no event e1", 400)):
            asking = asyncio.create_task(harness.ask(post(APPROVAL)))
            submitted = await harness.next(Submit)
            assert isinstance(submitted, Submit)
            assert isinstance(submitted.command, Approve)
            assert (submitted.command.by.name, submitted.command.events) == ("web-0", ("e1",))
            harness.channel.send(Answer(submitted.id, kind, reason))
            assert (await asking)[0] == status

    play(tmp_path, story)


def test_the_first_request_of_a_group_is_passed_on(tmp_path: Path) -> None:
    """The document is shown when the enrolment is durable and may be shown."""

    async def story(harness: WorkerHarness) -> None:
        alone = FleetChanged(
            groups=(GroupTerms("db", GroupKind.STANDALONE),), vms=(Vm("db", "db", address="127.0.0.1"),)
        )
        moved = FleetChanged(vms=(Vm("web-0", "web"),), before_vms=(Vm("web-0", "web", address="127.0.0.1"),))
        await harness.listen()
        harness.channel.send(Entries((harness.append(Entry(3, NOW, "c3", NODE, (moved, alone))),)))
        await harness.next(Applied)
        harness.memory.shown[0] = 3
        asking = asyncio.create_task(harness.ask(get()))
        submitted = await harness.next(Submit)
        assert isinstance(submitted, Submit)
        assert isinstance(submitted.command, Enrol)
        harness.channel.send(Entries((harness.append(Entry(4, NOW, "c4", NODE, (Enrolled("db", NOW, "db"),))),)))
        await harness.next(Applied)
        harness.memory.shown[0] = 4
        harness.channel.send(Answer(submitted.id))
        assert (await asking)[0] == 200

    play(tmp_path, story)


def test_a_worker_tells_what_it_counted_and_ends_when_it_is_told_to(tmp_path: Path) -> None:
    """The last report comes after the last answer."""

    async def story(harness: WorkerHarness) -> None:
        await harness.listen()
        for _ in range(3):
            await harness.incarnation()
        harness.channel.send(Stop())
        await harness.is_closed.wait()
        (*_, report) = [each for each in harness.heard if isinstance(each, WorkerReport)]
        assert sum(served for served, _ in report.documents) == 3

    play(tmp_path, story)


def test_without_a_leader_a_worker_answers_until_its_time_is_over(tmp_path: Path) -> None:
    """Documents as they are, approvals with 503; its age is in a file, and a signal ends it."""

    async def story(harness: WorkerHarness) -> None:
        await harness.listen()
        harness.worker.terminate()  # while there is a leader, it says when to stop
        assert await harness.incarnation() == 1
        harness.channel.close()
        while not (tmp_path / "worker-1.prom").exists():
            assert (await harness.ask(get()))[0] == 200
        assert (await harness.ask(post(APPROVAL)))[0] == 503
        harness.worker.terminate()
        await harness.is_closed.wait()

    play(tmp_path, story)
    assert not (tmp_path / "worker-1.prom").exists()


def test_a_worker_ends_only_when_the_process_of_its_leader_has_ended(tmp_path: Path) -> None:
    """A leader that gives no sign of life may be busy, and nobody else can write meanwhile."""

    async def story(harness: WorkerHarness) -> None:
        await harness.listen()
        harness.memory.leader_alive_at = 0.0
        for _ in range(5):
            await harness.next(WorkerReport)
        assert not harness.is_closed.is_set()
        harness.channel.close()
        await harness.is_closed.wait()

    play(tmp_path, story)


def test_a_worker_that_joins_during_a_commit_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told to show the commit while it still reads it; it answers nobody yet."""
    ended: list[CannotFollow] = []
    monkeypatch.setattr(ProcessEnvironment, "end", lambda _, error: ended.append(error))

    async def story(harness: WorkerHarness) -> None:
        asyncio.get_running_loop().set_exception_handler(harness.worker.handle)
        harness.channel.send(Configure(harness.settings))
        assert await harness.next(Ready) == Ready(2)
        harness.append(Entry(3, NOW, "c3", NODE, (Enrolled("web", NOW, "web-1"),)))
        harness.channel.send(ReadTo(3))
        harness.memory.shown[0] = 3
        harness.channel.send(Show())
        assert await harness.next(Applied) == Applied(3)
        assert ended == []

    play(tmp_path, story)


def test_a_worker_holds_its_lock_before_it_is_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a new leader could not find it."""
    held: list[Path] = []

    async def story(harness: WorkerHarness) -> None:
        monkeypatch.setattr(locks, "hold", held.append)
        harness.channel.send(Configure(harness.settings))
        await harness.next(Ready)
        assert held == [tmp_path]

    play(tmp_path, story)


def test_a_worker_that_cannot_listen_says_why(tmp_path: Path) -> None:
    """And ends, so that the leader can tell its operator."""

    async def story(harness: WorkerHarness) -> None:
        harness.channel.send(Configure(harness.settings))
        await harness.next(Ready)
        harness.channel.send(Listen())
        failed = await harness.next(StartFailed)
        assert isinstance(failed, StartFailed)
        assert failed.reason.startswith("cannot listen on 192.0.2.1:")
        await harness.is_closed.wait()

    play(tmp_path, story, host="192.0.2.1")
