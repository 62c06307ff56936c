"""The metadata service of a worker: what may be shown is shown before each answer, and approvals need a leader."""

import asyncio
import os
from collections.abc import Awaitable, Callable

from forewarn.core.errors import OutcomeUnknown
from forewarn.core.facts import Announced, Enrolled, Entry, FleetChanged
from forewarn.core.model import NODE, GroupKind, GroupTerms, Vm
from forewarn.core.notice import Rules
from forewarn.journal.memory import MemoryJournal
from forewarn.metadata.caller import CallerResolver
from forewarn.metadata.document_cache import DocumentCache
from forewarn.metadata.limits import Limits
from forewarn.metadata.long_poll import LongPoll
from forewarn.metadata.request import RequestCache
from forewarn.metadata.request_records import RequestRecords
from forewarn.node.replica import Replica
from forewarn.wire.approval import Approval
from forewarn.workers.follower import Follower
from forewarn.workers.metadata_service import WorkerMetadataService
from forewarn.workers.shared_limits import SharedRates
from forewarn.workers.shared_memory import SharedMemory
from tests.metadata.harness import EVENTS, NOW, event, get, post

APPROVAL = b'{"StartRequests":[{"EventId":"e1"}]}'
UNLIMITED = Limits(rate=0.0)
TAG = 'If-None-Match: "web-1"'


class Receiver:
    """A caller that waits for its response."""

    def __init__(self) -> None:
        self.delivered: list[bytes] = []

    def deliver(self, answer: bytes) -> None:
        self.delivered.append(answer)


class WorkerServiceHarness:
    """Two workers' services on one shared memory; the first is under test."""

    def __init__(self, limits: Limits) -> None:
        self.memory = SharedMemory.create(2)
        self.memory.shown[0] = 2
        journal = MemoryJournal()
        journal.load()
        vms = (Vm("web-0", "web", address="10.0.0.1"), Vm("off-0", "off", address="10.0.0.2"))
        kinds = (GroupTerms("web", GroupKind.AVAILABILITY_SET), GroupTerms("off", GroupKind.AVAILABILITY_SET))
        made = Entry(1, NOW, "c1", NODE, (FleetChanged(groups=kinds, vms=vms),))
        journal.append(0, [made, Entry(2, NOW, "c2", NODE, (Enrolled("web", NOW, "web-0"),))])
        replica = Replica(journal)
        self.now = 1_000.0
        self.document_cache = DocumentCache(self.seconds)
        replica.subscribe(self.document_cache)
        replica.load(journal.load())
        self.has_leader = True
        self.approved: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.service = WorkerMetadataService(
            self.document_cache,
            CallerResolver(self.document_cache),
            RequestRecords(self.document_cache, Rules(), self.seconds, lambda: NOW),
            limits,
            enrol=self._enrol,
            approve=self._approve,
            seconds=self.seconds,
            now=lambda: NOW,
        )
        self.follower = Follower(
            replica,
            journal,
            self.memory.shown,
            applied=lambda _: None,
            busy=lambda: None,
            failed=lambda _: None,
        )
        rates = SharedRates(self.memory.workers, 0)
        self.service.follow(self.follower, self.memory.shown, rates, lambda: self.has_leader)
        self.receiver = Receiver()

    def seconds(self) -> float:
        return self.now

    async def _enrol(self, group: str, vm: str) -> None:
        await self.approved

    def _approve(self, vm: str, said: Approval) -> "asyncio.Future[None]":
        return self.approved

    def take_event(self) -> None:
        """Take in an event that may not be shown yet."""
        self.follower.take((Entry(3, NOW, "c3", NODE, (Announced(event("e1")),)),))

    def ask(self, request: bytes, address: str = "10.0.0.1") -> bytes | LongPoll | None:
        head, _, body = request.partition(b"\r\n\r\n")
        read, _ = RequestCache().read(head + b"\r\n\r\n")
        return self.service.answer(read, body, address, self.receiver)

    def status(self, request: bytes, address: str = "10.0.0.1") -> int:
        answer = self.ask(request, address)
        assert isinstance(answer, bytes)
        return int(answer.split(b" ")[1])


def serve(story: Callable[[WorkerServiceHarness], Awaitable[None]], limits: Limits = UNLIMITED) -> None:
    async def play() -> None:
        harness = WorkerServiceHarness(limits)
        try:
            await story(harness)
        finally:
            await harness.follower.close()
            os.close(harness.memory.descriptor)

    asyncio.run(play())


def test_an_answer_shows_what_may_be_shown_and_nothing_more() -> None:
    """As soon as the shown revision has risen, even if nothing else told this worker."""

    async def story(harness: WorkerServiceHarness) -> None:
        harness.take_event()
        assert b'ETag: "web-1"' in bytes(harness.ask(get()) or b"")  # type: ignore[arg-type]
        harness.memory.shown[0] = 3
        assert b'ETag: "web-2"' in bytes(harness.ask(get()) or b"")  # type: ignore[arg-type]

    serve(story)


def test_a_long_poll_is_answered_when_its_change_may_be_shown() -> None:
    """Not when it is applied."""

    async def story(harness: WorkerServiceHarness) -> None:
        assert isinstance(harness.ask(get(EVENTS, TAG, "Prefer: wait=60")), LongPoll)
        harness.take_event()
        harness.follower.catch_up()
        assert harness.receiver.delivered == []
        harness.memory.shown[0] = 3
        harness.follower.catch_up()
        assert b'ETag: "web-2"' in harness.receiver.delivered[0]

    serve(story)


def test_a_long_poll_that_ends_by_itself_shows_what_may_be_shown() -> None:
    """The tick comes before the leader's message."""

    async def story(harness: WorkerServiceHarness) -> None:
        harness.ask(get(EVENTS, TAG, "Prefer: wait=5"))
        harness.take_event()
        harness.memory.shown[0] = 3
        harness.now += 10
        harness.service.tick()
        assert [b'ETag: "web-2"' in each for each in harness.receiver.delivered] == [True]

    serve(story)


def test_without_a_leader_documents_are_shown_and_approvals_put_off() -> None:
    """An approval, and the first request of a group that is off, are to be repeated."""

    async def story(harness: WorkerServiceHarness) -> None:
        harness.has_leader = False
        assert harness.status(get()) == 200
        assert harness.status(post(APPROVAL)) == 503
        assert b"Retry-After: 1\r\n" in bytes(harness.ask(post(APPROVAL)) or b"")  # type: ignore[arg-type]
        assert harness.status(get(), "10.0.0.2") == 503
        assert harness.status(post(b"nonsense", target="/metadata/scheduledevents")) == 400

    serve(story)


def test_an_approval_that_the_leader_took_with_it_is_to_be_repeated() -> None:
    """It may have been recorded; a second approval does no harm."""

    async def story(harness: WorkerServiceHarness) -> None:
        assert harness.ask(post(APPROVAL)) is None
        harness.has_leader = False
        harness.approved.set_exception(OutcomeUnknown("the leader ended"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert harness.receiver.delivered[0].startswith(b"HTTP/1.1 503")

    serve(story)


def test_a_first_request_that_the_leader_took_with_it_is_to_be_repeated() -> None:
    """Like an approval: 503 with Retry-After, not an error of the service."""

    async def story(harness: WorkerServiceHarness) -> None:
        assert harness.ask(get(), "10.0.0.2") is None
        await asyncio.sleep(0)
        harness.has_leader = False
        harness.approved.set_exception(OutcomeUnknown("the leader ended"))
        while not harness.receiver.delivered:  # noqa: ASYNC110 - a few turns of the loop
            await asyncio.sleep(0)
        assert harness.receiver.delivered[0].startswith(b"HTTP/1.1 503")
        assert b"Retry-After: 1\r\n" in harness.receiver.delivered[0]

    serve(story)


def test_the_rate_of_a_vm_counts_what_other_workers_admitted() -> None:
    """And what this one admits counts in the others."""

    async def story(harness: WorkerServiceHarness) -> None:
        other = SharedRates(harness.memory.workers, 1)
        entry = harness.document_cache.vm_entries["10.0.0.1"]
        assert harness.status(get()) == 200
        copied = entry.__class__(entry.vm, entry.documents)
        other.take_in(copied)
        assert copied.spent_until == entry.spent_until == 1_001.0
        copied.spent_until = 1_002.0
        other.publish(copied, 1_000.0)
        assert harness.status(get()) == 429
        harness.now += 4.0
        assert harness.status(get()) == 200

    serve(story, Limits(rate=1.0, burst=2))
