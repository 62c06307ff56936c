"""Who asked and who was shown what: noted in memory, handed out in batches."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from forewarn.core.commands import Command, RecordAsked, RecordFetched
from forewarn.core.facts import Announced, Asked, Enrolled, Fetch, Fetched, FleetChanged, Mark, Started, SwitchedOff
from forewarn.core.model import EventType, GroupKind, GroupTerms, Vm
from forewarn.journal.port import NotWritten
from forewarn.metadata.document_cache import DocumentCache, VmEntry
from forewarn.metadata.request_records import RequestRecorder, RequestRecords, SweepResult
from tests.metadata.harness import EVENTS, NOW, event, get, harness, on_both_loops
from tests.node.harness import NodeHarness
from tests.node.harness import run as run_node

HOUR = 3600


@on_both_loops
async def test_a_first_fetch_is_noted_once() -> None:
    """That a VM was shown an event is noted the first time only, for each VM."""
    async with harness() as service:
        service.announce("e1")
        for source in ("127.0.0.1", "127.0.0.1", "127.0.0.2"):
            await service.ask(get(), source)
        assert service.records.take_fetches() == (Fetch("e1", "web-0", NOW), Fetch("e1", "web-1", NOW))
        assert service.records.take_fetches() == ()


@on_both_loops
async def test_only_what_is_new_is_noted() -> None:
    """After another event or another status, only events not shown before are noted."""
    async with harness() as service:
        service.announce("e1")
        await service.ask(get())
        service.announce("e2")
        service.commit(Started("e1", NOW, "due"))
        await service.ask(get())
        assert [fetch.event for fetch in service.records.take_fetches()] == ["e1", "e2"]


@on_both_loops
async def test_an_event_that_a_version_hides_was_not_shown() -> None:
    """A Terminate is noted when it is asked for in an api-version that shows it."""
    async with harness() as service:
        service.announce("e1", type=EventType.TERMINATE)
        await service.ask(get("/metadata/scheduledevents?api-version=2017-08-01"))
        assert service.records.take_fetches() == ()
        await service.ask(get())
        assert [fetch.event for fetch in service.records.take_fetches()] == ["e1"]


@on_both_loops
async def test_a_304_shows_nothing() -> None:
    """Who already has the document is not shown it."""
    async with harness() as service:
        service.announce("e1")
        await service.ask(get(EVENTS, 'If-None-Match: "web-2"'))
        assert service.records.take_fetches() == ()


@on_both_loops
async def test_the_sweep_reports_groups_whose_record_is_old() -> None:
    """A group that asked is reported once its recorded mark is six hours old, with who asked last and when."""
    async with harness() as service:
        service.move(HOUR)
        await service.ask(get(), "127.0.0.2")
        assert service.records.sweep().asked == []
        service.move(6 * HOUR)
        swept = service.records.sweep()
        (mark,) = swept.asked
        assert (mark.group, mark.at, mark.by) == ("web", NOW + timedelta(hours=1), "web-1")
        assert swept.idle == []
        service.commit(Asked((mark,)))
        assert service.records.sweep().asked == []


@on_both_loops
async def test_the_sweep_reports_groups_that_nobody_asks_for() -> None:
    """A group that is on and silent for a day is reported as idle, until it is switched off."""
    async with harness() as service:
        service.move(24 * HOUR - 1)
        assert service.records.sweep().idle == []
        service.move(1)
        assert [mark.group for mark in service.records.sweep().idle] == ["web"]
        service.commit(SwitchedOff("web", service.clock.now()))
        assert service.records.sweep().idle == []


@on_both_loops
async def test_the_sweep_goes_in_slices() -> None:
    """Each call looks at so many groups and no more, and says when it has seen all; groups may go between."""
    groups = tuple(GroupTerms(f"g{number}", GroupKind.SCALE_SET) for number in range(10))
    fleet = FleetChanged(groups=groups, vms=tuple(Vm(f"v{number}", f"g{number}") for number in range(10)))
    async with harness(facts=(fleet,)) as service:
        service.move(25 * HOUR)
        found = service.records.sweep(4).idle
        for mark in found:
            service.commit(SwitchedOff(mark.group, service.clock.now()))
        while not (swept := service.records.sweep(4)).is_over:
            found += swept.idle
        found += swept.idle
        assert sorted(mark.group for mark in found) == sorted(terms.name for terms in groups)
        service.records.sweep(100)
        assert len(service.document_cache.enrolled) == 6


@on_both_loops
async def test_switching_off_and_on_lists_a_group_once() -> None:
    """However often a group goes off and on between sweeps, it is swept once."""
    async with harness() as service:
        for _ in range(3):
            service.commit(SwitchedOff("web", NOW))
            service.commit(Enrolled("web", NOW, "web-0"))
        assert len(service.document_cache.enrolled) == 1


@on_both_loops
async def test_who_asked_last_is_known() -> None:
    """The group's last caller and the time of it can be told at any moment."""
    async with harness() as service:
        service.move(5)
        await service.ask(get(), "127.0.0.2")
        service.move(3)
        mark = service.records.last_asked("web")
        assert mark is not None
        assert (mark.by, mark.at) == ("web-1", NOW + timedelta(seconds=5))
        assert service.records.last_asked("nothing") is None


@on_both_loops
async def test_after_a_start_nobody_is_said_to_have_asked() -> None:
    """A group that was on counts as asked at the start; who asked is known with the first request, not before."""
    async with harness() as service:
        service.document_cache.groups.clear()
        service.document_cache.load(service.fleet)
        service.move(5)
        counted = service.records.last_asked("web")
        assert counted is not None
        assert (counted.by, counted.at) == ("", NOW)
        await service.ask(get(), "127.0.0.2")
        heard = service.records.last_asked("web")
        assert heard is not None
        assert (heard.by, heard.at) == ("web-1", NOW + timedelta(seconds=5))


@on_both_loops
async def test_a_fetch_that_is_recorded_is_not_noted_again() -> None:
    """What the fleet already knows is not handed out a second time."""
    async with harness() as service:
        service.commit(Announced(event("e1", fetched_by=("web-0",))))
        await service.ask(get())
        assert service.records.take_fetches() == ()


VERSION = 6
SECOND = timedelta(seconds=1)


class RecorderHarness:
    """A document cache with a recorder, on the node of a harness."""

    def __init__(self, node_harness: NodeHarness) -> None:
        clock = node_harness.clock
        self.document_cache = DocumentCache(clock.seconds)
        self.records = RequestRecords(self.document_cache, node_harness.node.writer.rules, clock.seconds, clock.now)
        self.recorder = RequestRecorder(node_harness.node, self.records)
        node_harness.node.replica.subscribe(self.document_cache)

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

    run_node(play)


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
        append, attempts = node_harness.node.journal.append, 0

        def fail(*_: object) -> None:
            nonlocal attempts
            attempts += 1
            raise NotWritten("the disk is full")

        node_harness.node.journal.append = fail  # type: ignore[method-assign, assignment]
        harness.show("web-1")
        for _ in range(120):
            node_harness.clock.advance(SECOND)
            await harness.settled()
        assert 1 < attempts < 12
        node_harness.node.journal.append = append  # type: ignore[method-assign]
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


def test_many_records_are_submitted_in_slices() -> None:
    """One entry holds at most 2,000 marks or fetches, however many groups asked: a follower takes it in at once."""

    async def story(node_harness: NodeHarness, harness: RecorderHarness) -> None:
        now, count = node_harness.clock.now(), 200_000
        sizes: list[int] = []

        async def submit(command: Command) -> None:
            assert isinstance(command, RecordAsked | RecordFetched)
            sizes.append(len(command.marks if isinstance(command, RecordAsked) else command.fetches))

        harness.records.sweep = lambda **_: SweepResult(  # type: ignore[method-assign]
            [Mark(f"group-{n}", now, "vm") for n in range(count)], [], is_over=True
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(node_harness.node, "submit", submit)
            harness.records.add_fetches(tuple(Fetch("event", f"vm-{n}", now) for n in range(count)))
            node_harness.clock.advance(60 * SECOND)
            await harness.settled()
        assert sizes == [2_000] * (2 * count // 2_000)

    run(story)


def test_a_slice_that_could_not_be_recorded_stays_with_those_after_it() -> None:
    """What was recorded before it is not recorded again."""

    async def story(node_harness: NodeHarness, harness: RecorderHarness) -> None:
        fetched = tuple(Fetch("event", f"vm-{n}", node_harness.clock.now()) for n in range(5_000))
        kept: list[Fetch] = []
        errors = iter((None, NotWritten("the disk is full"), None, None))

        async def submit(command: Command) -> None:
            assert isinstance(command, RecordFetched)
            if error := next(errors):
                raise error
            kept.extend(command.fetches)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(node_harness.node, "submit", submit)
            harness.records.add_fetches(fetched)
            await harness.recorder.record_fetches()
            assert tuple(kept) == fetched[:2_000]
            await harness.recorder.record_fetches()
        assert tuple(kept) == fetched

    run(story)
