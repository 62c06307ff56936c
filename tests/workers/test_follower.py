"""A follower: it takes entries in before they may be shown, and shows them when they may be."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import NoReturn

import pytest

from forewarn.core.facts import Enrolled, Entry, FleetChanged
from forewarn.core.model import NODE, GroupKind, GroupTerms, Vm
from forewarn.journal.memory import MemoryJournal
from forewarn.metadata.document_cache import DocumentCache
from forewarn.node.followed_entries import changed_records
from forewarn.node.large_change import LargeChangeSizes
from forewarn.node.replica import Replica
from forewarn.workers.follower import CannotFollow, FellBehind, Follower

AT = datetime(2026, 1, 1, tzinfo=UTC)


def vm_added(revision: int, name: str) -> Entry:
    added = FleetChanged(
        groups=(GroupTerms(name, GroupKind.AVAILABILITY_SET),),
        vms=(Vm(name, group=name, address=f"10.0.0.{revision}"),),
    )
    return Entry(revision, AT, f"c{revision}", NODE, (added,))


def many_added(revision: int, count: int) -> Entry:
    names = [f"many-{number}" for number in range(count)]
    vms = tuple(Vm(name, group="many", address=f"10.1.{at // 250}.{at % 250}") for at, name in enumerate(names))
    return Entry(
        revision,
        AT,
        f"c{revision}",
        NODE,
        (FleetChanged(groups=(GroupTerms("many", GroupKind.AVAILABILITY_SET),), vms=vms),),
    )


class FollowerHarness:
    """A follower at revision 1, the shown revision, and what it told the leader."""

    def __init__(self) -> None:
        self.journal = MemoryJournal()
        self.replica = Replica(self.journal)
        self.document_cache = DocumentCache(lambda: 0.0)
        self.replica.subscribe(self.document_cache)
        self.journal.load()
        self.append(vm_added(1, "a"))
        self.replica.load(self.journal.load())
        self.shown = [1]
        self.applied: list[int] = []
        self.signs = 0
        self.failures: list[CannotFollow] = []
        self._news = asyncio.Event()
        self.follower = Follower(
            self.replica,
            self.journal,
            self.shown,
            applied=self._note,
            busy=self._sign,
            failed=self._fail,
            sizes=LargeChangeSizes(decided_aside=10, prepared_aside=20),
        )

    def _note(self, revision: int) -> None:
        self.applied.append(revision)
        self._news.set()

    def _fail(self, error: CannotFollow) -> None:
        self.failures.append(error)
        self._news.set()

    def _sign(self) -> None:
        self.signs += 1

    def append(self, *entries: Entry) -> None:
        self.journal.append(entries[0].revision - 1, entries)

    @property
    def vms(self) -> list[str]:
        """The VMs that callers are answered as."""
        return sorted(entry.vm.name for entry in self.document_cache.vm_entries.values())

    async def failed(self, number: int) -> None:
        async with asyncio.timeout(20):
            while len(self.failures) < number:
                self._news.clear()
                await self._news.wait()

    async def applied_to(self, revision: int) -> None:
        async with asyncio.timeout(20):
            while revision not in self.applied:
                self._news.clear()
                await self._news.wait()


def follow(story: Callable[[FollowerHarness], Awaitable[None]]) -> None:
    async def play() -> None:
        harness = FollowerHarness()
        try:
            await story(harness)
        finally:
            await harness.follower.close()

    asyncio.run(play())


def test_what_is_applied_is_not_shown_before_it_may_be() -> None:
    """The leader is told that it can be shown; callers see it when the shown revision says so."""

    async def story(harness: FollowerHarness) -> None:
        harness.follower.take((vm_added(2, "b"), vm_added(3, "c")))
        assert harness.applied == [3]
        harness.follower.catch_up()
        assert (harness.follower.revision, harness.follower.known, harness.vms) == (1, 3, ["a"])
        harness.shown[0] = 3
        harness.follower.catch_up()
        assert (harness.follower.revision, harness.vms) == (3, ["a", "b", "c"])

    follow(story)


def test_the_next_entries_show_those_before() -> None:
    """The leader sends them only after it has shown the others."""

    async def story(harness: FollowerHarness) -> None:
        harness.follower.take((vm_added(2, "b"),))
        harness.shown[0] = 2
        harness.follower.take((vm_added(3, "c"),))
        assert (harness.applied, harness.vms) == ([2, 3], ["a", "b"])

    follow(story)


def test_entries_that_are_shown_already_are_taken_in_at_once() -> None:
    """A worker that joins reads what the others have shown, and keeps what they have not."""

    async def story(harness: FollowerHarness) -> None:
        harness.shown[0] = 2
        harness.append(vm_added(2, "b"), vm_added(3, "c"))
        harness.follower.read_to(3)
        await harness.applied_to(3)
        assert (harness.follower.revision, harness.follower.known, harness.vms) == (2, 3, ["a", "b"])

    follow(story)


def test_entries_that_come_while_the_journal_is_read_wait_for_their_turn() -> None:
    """They are taken in after those that are read."""

    async def story(harness: FollowerHarness) -> None:
        harness.shown[0] = 3
        harness.append(vm_added(2, "b"), vm_added(3, "c"))
        harness.follower.read_to(3)
        harness.follower.take((vm_added(4, "d"),))
        assert harness.applied == []
        await harness.applied_to(4)
        assert (harness.applied, harness.vms) == ([3, 4], ["a", "b", "c"])

    follow(story)


@pytest.mark.parametrize("count", [15, 300])
def test_a_large_change_is_read_beside_the_answers_and_shown_at_once(count: int) -> None:
    """The leader gets signs of life meanwhile."""

    async def story(harness: FollowerHarness) -> None:
        harness.append(many_added(2, count))
        harness.follower.read_to(2)
        await harness.applied_to(2)
        assert harness.signs >= 1
        assert harness.vms == ["a"]
        harness.shown[0] = 2
        harness.follower.catch_up()
        assert len(harness.vms) == count + 1
        assert harness.replica.fleet.vms["many-3"].address in harness.document_cache.vm_entries

    follow(story)


def test_a_worker_that_does_not_hold_what_is_shown_says_so() -> None:
    """It must not answer, because another worker may have shown more."""

    async def story(harness: FollowerHarness) -> None:
        harness.follower.take((vm_added(2, "b"),))
        harness.shown[0] = 3
        with pytest.raises(FellBehind, match="revision 3 is shown"):
            harness.follower.catch_up()

    follow(story)


def test_a_journal_that_lacks_what_the_leader_names_is_reported() -> None:
    """So is one that cannot be read; the worker ends."""

    async def story(harness: FollowerHarness) -> None:
        harness.follower.read_to(9)
        await harness.failed(1)
        harness.journal.entries = _fail_to_read  # type: ignore[method-assign,assignment]
        harness.follower.read_to(9)
        await harness.failed(2)
        assert [str(each) for each in harness.failures] == [
            "the journal does not hold revision 9",
            "the journal was not read: the disk is gone",
        ]

    follow(story)


def _fail_to_read(*_: object) -> NoReturn:
    raise OSError("the disk is gone")


def test_records_of_the_fleet_are_counted() -> None:
    """Only they make a change large."""
    small = Entry(2, AT, "c", NODE, (Enrolled("a", AT, "a"),))

    assert changed_records([small]) == 0
    assert changed_records([many_added(2, 15), vm_added(3, "b")]) == 18


def test_a_worker_that_joins_is_not_asked_to_show_what_it_still_reads() -> None:
    """A commit in flight when it joined is shown without it; it shows the commit when it has read it."""

    async def story(harness: FollowerHarness) -> None:
        harness.append(vm_added(2, "b"))
        harness.follower.read_to(2)
        harness.shown[0] = 2
        harness.follower.show()
        await harness.applied_to(2)
        harness.follower.show()
        assert harness.follower.revision == 2

    follow(story)
