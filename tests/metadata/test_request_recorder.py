"""Who was shown what is recorded in batches, and at once where somebody wants to know."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

from forewarn.core.facts import Fetched, SwitchedOff
from forewarn.journal.port import NotWritten
from forewarn.metadata.document_cache import DocumentCache, VmEntry
from forewarn.metadata.request_recorder import RequestRecorder
from forewarn.metadata.request_records import RequestRecords
from tests.node.harness import NodeHarness
from tests.node.harness import run as run_rig

VERSION = 6
SECOND = timedelta(seconds=1)


class RecorderHarness:
    """A desk with a recorder, on the rig's node."""

    def __init__(self, node_harness: NodeHarness) -> None:
        clock = node_harness.clock
        self.document_cache = DocumentCache(clock.seconds)
        self.records = RequestRecords(self.document_cache, node_harness.node.rules, clock.seconds, clock.now)
        self.recorder = RequestRecorder(node_harness.node, self.records)
        node_harness.node.feed.subscribe(self.document_cache)

    def show(self, vm: str) -> None:
        vm_entry = self.document_cache.entry_of_vm(vm)
        assert isinstance(vm_entry, VmEntry)
        self.records.note_shown(vm_entry, vm_entry.documents, VERSION)

    async def settled(self) -> None:
        while not self.recorder.is_idle:  # noqa: ASYNC110 - it is idle within a few turns of the loop
            await asyncio.sleep(0)


def run(story: Callable[[NodeHarness, RecorderHarness], Awaitable[None]]) -> None:
    async def play(node_harness: NodeHarness) -> None:
        harness = RecorderHarness(node_harness)
        await node_harness.add_fleet()
        await node_harness.operate("restart", "web-0")
        harness.recorder.start()
        await story(node_harness, harness)
        await harness.recorder.stop()

    run_rig(play)


def fetches(node_harness: NodeHarness) -> list[list[str]]:
    return [[fetch.vm for fetch in fact.fetches] for fact in node_harness.facts if isinstance(fact, Fetched)]


def test_fetches_are_recorded_together_in_a_moment() -> None:
    """Two seconds after the first of them, in one fact."""

    async def story(node_harness: NodeHarness, harness: RecorderHarness) -> None:
        harness.show("web-1")
        node_harness.clock.advance(SECOND)
        harness.show("web-2")
        node_harness.clock.advance(0.9 * SECOND)
        await harness.settled()
        assert fetches(node_harness) == []
        node_harness.clock.advance(0.1 * SECOND)
        await harness.settled()
        assert fetches(node_harness) == [["web-1", "web-2"]]

    run(story)


def test_what_is_noted_while_it_records_is_recorded_next() -> None:
    """In a moment, without waiting for the sweep."""

    async def story(node_harness: NodeHarness, harness: RecorderHarness) -> None:
        harness.show("web-1")
        node_harness.clock.advance(2 * SECOND)
        await asyncio.sleep(0)
        assert not harness.recorder.is_idle
        harness.show("web-2")
        await harness.settled()
        node_harness.clock.advance(2 * SECOND)
        await harness.settled()
        assert fetches(node_harness) == [["web-1"], ["web-2"]]

    run(story)


def test_without_fetches_nothing_wakes_it_but_the_sweep() -> None:
    """Once a minute."""

    async def story(node_harness: NodeHarness, _: RecorderHarness) -> None:
        assert node_harness.clock.next_call() == node_harness.clock.now() + 60 * SECOND

    run(story)


def test_fetches_can_be_recorded_at_once() -> None:
    """And are not recorded again."""

    async def story(node_harness: NodeHarness, harness: RecorderHarness) -> None:
        harness.show("web-1")
        await harness.recorder.record_fetches()
        assert fetches(node_harness) == [["web-1"]]
        node_harness.clock.advance(5 * SECOND)
        await harness.settled()
        assert fetches(node_harness) == [["web-1"]]

    run(story)


def test_what_could_not_be_recorded_is_recorded_when_the_journal_can_be_written_again() -> None:
    """A full disk costs no note of who saw an event, and does not fill the log with attempts."""

    async def story(node_harness: NodeHarness, harness: RecorderHarness) -> None:
        append, attempts = node_harness.node._journal.append, 0

        def fail(*_: object) -> None:
            nonlocal attempts
            attempts += 1
            raise NotWritten("the disk is full")

        node_harness.node._journal.append = fail  # type: ignore[method-assign, assignment]
        harness.show("web-1")
        for _ in range(120):
            node_harness.clock.advance(SECOND)
            await harness.settled()
        assert 1 < attempts < 12
        node_harness.node._journal.append = append  # type: ignore[method-assign]
        harness.show("web-2")
        node_harness.clock.advance(60 * SECOND)
        await harness.settled()
        assert fetches(node_harness) == [["web-1", "web-2"]]

    run(story)


def test_stopping_records_what_is_left() -> None:
    """What was noted in the last seconds is not lost by an orderly end."""

    async def story(node_harness: NodeHarness, harness: RecorderHarness) -> None:
        harness.show("web-1")
        await harness.recorder.stop()
        assert fetches(node_harness) == [["web-1"]]

    run(story)


def test_the_sweep_goes_on_and_switches_idle_groups_off() -> None:
    """After 24 hours without a request."""

    async def story(node_harness: NodeHarness, harness: RecorderHarness) -> None:
        for _ in range(24 * 60 + 1):
            node_harness.clock.advance(60 * SECOND)
            await harness.settled()
        assert [fact.group for fact in node_harness.facts if isinstance(fact, SwitchedOff)] == ["web"]

    run(story)
