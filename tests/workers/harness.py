"""A pool of workers that are no processes: the test reads what the leader tells them, and answers for them."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from forewarn.metadata.document_cache import DocumentCache
from forewarn.metadata.limits import Limits
from forewarn.metadata.request_records import RequestRecords
from forewarn.workers.messages import (
    Applied,
    Configure,
    Entries,
    Listen,
    Listening,
    Message,
    ReadTo,
    Ready,
    ToWorker,
    WorkerSettings,
    decode_for_worker,
    encode,
)
from forewarn.workers.pool import WorkerPool
from forewarn.workers.shared_memory import SharedMemory
from tests.node.harness import NodeHarness

SETTINGS = WorkerSettings(
    journal="sqlite",
    journal_location="",
    journal_directory="/nowhere",
    history=86_400.0,
    host="127.0.0.1",
    port=8254,
    identity="address",
    default_vm="",
    answer_ttl=0,
    hosts=(),
    limits=Limits(),
    log_level="info",
    log_format="human",
    leader_timeout=60.0,
)


class FakeWorker:
    """A worker process and its channel, as the leader has them."""

    def __init__(
        self, number: int, pid: int, received: Callable[[bytes], None], ended: Callable[[str], None]
    ) -> None:
        self.number = number
        self.pid = pid
        self.channel = self
        self.heard: list[ToWorker] = []
        self.is_killed = False
        self.is_closed = False
        self._news = asyncio.Event()
        self._received = received
        self._ended = ended

    def send(self, message: Message) -> None:
        self.send_encoded(encode(message))

    def send_encoded(self, body: bytes) -> None:
        self.heard.append(decode_for_worker(body))
        self._news.set()

    def close(self) -> None:
        self.is_closed = True

    def kill(self) -> None:
        self.is_killed = True

    def say(self, *messages: Message) -> None:
        """Tell the leader something."""
        for message in messages:
            self._received(encode(message))

    def end(self, how: str = "was killed by signal 9") -> None:
        """Let the leader know that the process is gone."""
        self._ended(how)

    async def hears(self, kind: type[Message]) -> None:
        """Wait until the leader has told it something of a kind."""
        while not self.heard_of(kind):
            self._news.clear()
            await self._news.wait()

    def heard_of(self, kind: type[Message]) -> list[ToWorker]:
        return [each for each in self.heard if isinstance(each, kind)]

    def apply(self) -> None:
        """Say that everything is applied that the leader has sent."""
        reached = [each.revision for each in self.heard if isinstance(each, ReadTo)]
        reached += [each.entries[-1].revision for each in self.heard if isinstance(each, Entries)]
        self.say(Applied(max(reached)))


class PoolHarness:
    """A leader with a pool of such workers."""

    def __init__(self, node: NodeHarness, workers: int = 2) -> None:
        self.node = node
        self.memory = SharedMemory.create(workers)
        clock = node.clock
        self.document_cache = DocumentCache(clock.seconds)
        node.node.replica.subscribe(self.document_cache)
        self.records = RequestRecords(self.document_cache, node.node.writer.rules, clock.seconds, clock.now)
        self.started: list[FakeWorker] = []
        self.ended_others = 0
        self.pool = WorkerPool(
            node.node, self.records, self.memory, SETTINGS, self._start, end_others=self._end_others
        )
        node.node.writer.publisher = self.pool.publication

    async def _start(
        self, number: int, received: Callable[[bytes], None], ended: Callable[[str], None]
    ) -> FakeWorker:
        made = FakeWorker(number, 1000 + len(self.started), received, ended)
        self.started.append(made)
        return made

    async def _end_others(self, keep: Callable[[int], bool]) -> None:
        assert [keep(worker.pid) for worker in self.started] == [True] * len(self.started)
        assert not any(worker.heard_of(Listen) for worker in self.started)
        self.ended_others += 1

    @property
    def present(self) -> list[FakeWorker]:
        """The last process of each number."""
        return list({worker.number: worker for worker in self.started}.values())

    async def start(self) -> None:
        """Start the pool, and let its workers begin to answer."""
        starting = asyncio.ensure_future(self.pool.start())
        await settle()
        for worker in self.present:
            self.join(worker)
        await settle()
        for worker in self.present:
            worker.say(Listening((("127.0.0.1:8254", 7),)))
        await starting

    def join(self, worker: FakeWorker) -> None:
        assert worker.heard[0] == Configure(SETTINGS)
        worker.say(Ready(self.node.node.replica.revision))

    async def stop(self) -> None:
        stopping = asyncio.ensure_future(self.pool.stop())
        await settle()
        for worker in self.present:
            worker.end("ended with exit code 0")
        await stopping
        os.close(self.memory.descriptor)


@asynccontextmanager
async def pool_of(node: NodeHarness, workers: int = 2) -> AsyncIterator[PoolHarness]:
    """A pool of which every worker answers."""
    harness = PoolHarness(node, workers)
    await harness.start()
    try:
        yield harness
    finally:
        node.node.writer.publisher = None
        await harness.stop()


async def settle() -> None:
    """Let everything happen that waits for nothing but its turn."""
    for _ in range(20):
        await asyncio.sleep(0)
