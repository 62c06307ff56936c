"""Publication: nothing is shown before every worker holds it, and none of them can hold it up."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

from forewarn.clocks import ManualClock, Timer
from forewarn.core.facts import Asked, Enrolled, Entry, FleetChanged, Mark
from forewarn.core.model import NODE, Vm
from forewarn.workers.messages import Entries, ReadTo, Show, ToWorker, decode_for_worker
from forewarn.workers.publication import Publication
from tests.workers.harness import settle

AT = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)


class FakeMember:
    """A worker that has joined."""

    def __init__(self, known: int) -> None:
        self.known = known
        self.heard: list[ToWorker] = []
        self.killed_for = ""

    def send_encoded(self, body: bytes) -> None:
        self.heard.append(decode_for_worker(body))

    def kill(self, reason: str) -> None:
        assert not self.killed_for
        self.killed_for = reason


class LateClock(ManualClock):
    """Makes calls later than asked, as a process does that is stopped meanwhile."""

    late = timedelta()

    def call_later(self, delay: timedelta, do: Callable[[], None]) -> Timer:
        return super().call_later(delay + self.late, do)


class PublicationHarness:
    """A publication at revision 5, with two members."""

    def __init__(self) -> None:
        self.clock = LateClock()
        self.shown = [0]
        self.publication = Publication(self.shown, self.clock, 5)
        self.members = [FakeMember(5), FakeMember(5)]
        for member in self.members:
            self.publication.join(member)

    def publish(self, revision: int, *entries: Entry) -> "asyncio.Task[None]":
        return asyncio.create_task(self.publication.publish(revision, entries or (entry(revision),)))

    def apply(self, member: FakeMember, revision: int) -> None:
        member.known = revision
        self.publication.note_applied(member)


def entry(revision: int) -> Entry:
    return Entry(revision, AT, f"c{revision}", NODE, (Enrolled("web", AT, "web-0"),))


def play(story: Callable[[PublicationHarness], Awaitable[None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(20):
            await story(PublicationHarness())

    asyncio.run(run())


def test_a_revision_is_shown_when_every_member_has_applied_it() -> None:
    """Not before; then all are told, so that long polls are answered."""

    async def story(harness: PublicationHarness) -> None:
        first, second = harness.members
        publishing = harness.publish(6)
        await settle()
        assert first.heard == second.heard == [Entries((entry(6),))]
        harness.apply(first, 6)
        await settle()
        assert (harness.shown[0], publishing.done()) == (5, False)
        harness.apply(second, 6)
        await publishing
        assert harness.shown[0] == 6
        assert first.heard[-1] == second.heard[-1] == Show()

    play(story)


def test_without_members_a_revision_is_shown_at_once() -> None:
    """A leader that starts has none yet."""

    async def story(harness: PublicationHarness) -> None:
        for member in harness.members:
            harness.publication.remove(member)
        await harness.publication.publish(6, [entry(6)])
        assert harness.shown[0] == 6

    play(story)


def test_a_member_that_is_silent_for_a_second_is_killed_and_waited_for_until_it_is_gone() -> None:
    """It could answer until then, with something old."""

    async def story(harness: PublicationHarness) -> None:
        silent, quick = harness.members
        publishing = harness.publish(6)
        await settle()
        harness.apply(quick, 6)
        harness.clock.advance(SECOND - timedelta(milliseconds=10))
        assert [member.killed_for for member in harness.members] == ["", ""]
        harness.clock.advance(timedelta(milliseconds=10))
        reasons = [member.killed_for for member in harness.members]
        assert reasons == ["it had not applied revision 6 after 1 s", ""]
        harness.clock.advance(60 * SECOND)
        await settle()
        assert (harness.shown[0], publishing.done()) == (5, False)
        harness.publication.remove(silent)
        await publishing
        assert harness.shown[0] == 6

    play(story)


def test_a_leader_that_was_stopped_gives_its_members_their_time_again() -> None:
    """What they said meanwhile is not read yet; one that is silent then, too, is killed."""

    async def story(harness: PublicationHarness) -> None:
        silent, quick = harness.members
        harness.clock.late = SECOND
        publishing = harness.publish(6)
        await settle()
        harness.clock.late = timedelta()
        harness.clock.advance(2.9 * SECOND)
        harness.apply(quick, 6)
        assert [member.killed_for for member in harness.members] == ["", ""]
        harness.clock.advance(0.1 * SECOND)
        assert [bool(member.killed_for) for member in harness.members] == [True, False]
        harness.publication.remove(silent)
        await publishing

    play(story)


def test_a_member_that_takes_in_a_large_change_has_time_as_long_as_it_gives_signs_of_life() -> None:
    """A second after the last of them it is killed."""

    async def story(harness: PublicationHarness) -> None:
        busy, quick = harness.members
        publishing = harness.publish(6)
        await settle()
        harness.apply(quick, 6)
        for _ in range(10):
            harness.clock.advance(0.8 * SECOND)
            harness.publication.note_busy(busy)
        assert [member.killed_for for member in harness.members] == ["", ""]
        harness.clock.advance(1.1 * SECOND)
        assert busy.killed_for
        harness.publication.remove(busy)
        await publishing

    play(story)


def test_a_large_change_is_read_from_the_journal() -> None:
    """A thread of each worker decodes it, instead of the loop of the leader encoding it."""

    async def story(harness: PublicationHarness) -> None:
        vms = tuple(Vm(f"vm-{number}", "web") for number in range(1_000))
        publishing = harness.publish(6, Entry(6, AT, "c", NODE, (FleetChanged(vms=vms),)))
        await settle()
        assert harness.members[0].heard == [ReadTo(6)]
        for member in harness.members:
            harness.apply(member, 6)
        await publishing

    play(story)


def test_a_commit_of_many_bytes_is_read_from_the_journal() -> None:
    """Whatever its facts are: decoding it would take the event loop of every worker at once."""

    async def story(harness: PublicationHarness) -> None:
        marks = tuple(Mark(f"group-{number}", AT, "web-0") for number in range(20_000))
        publishing = harness.publish(6, Entry(6, AT, "c", NODE, (Asked(marks),)))
        await settle()
        assert harness.members[0].heard == [ReadTo(6)]
        harness.publication.join(late := FakeMember(5))
        assert late.heard == [ReadTo(6)]
        for member in (*harness.members, late):
            harness.apply(member, 6)
        await publishing

    play(story)


def test_what_was_recovered_from_the_journal_is_read_from_it() -> None:
    """The leader passes no entries when it has loaded its journal again."""

    async def story(harness: PublicationHarness) -> None:
        publishing = asyncio.create_task(harness.publication.publish(8))
        await settle()
        assert harness.members[0].heard == [ReadTo(8)]
        for member in harness.members:
            harness.apply(member, 8)
        await publishing

    play(story)


def test_a_member_that_knows_more_than_is_published_is_sent_nothing() -> None:
    """It loaded what was durable before it was published."""

    async def story(harness: PublicationHarness) -> None:
        first, second = harness.members
        first.known = 6
        publishing = harness.publish(6)
        await settle()
        assert first.heard == []
        harness.apply(second, 6)
        await publishing

    play(story)


def test_a_worker_that_joins_is_sent_what_it_lacks_and_counts_from_the_next_commit_on() -> None:
    """The last commits from memory, older ones from the journal; the commit under way does not wait for it."""

    async def story(harness: PublicationHarness) -> None:
        for revision in (6, 7, 8):
            publishing = harness.publish(revision)
            await settle()
            for member in harness.members:
                harness.apply(member, revision)
            await publishing
        under_way = harness.publish(9)
        await settle()
        near, far = FakeMember(7), FakeMember(3)
        for member in (near, far):
            harness.publication.join(member)
        assert near.heard == [Entries((entry(8),)), Entries((entry(9),))]
        assert far.heard == [ReadTo(9)]
        for member in harness.members:
            harness.apply(member, 9)
        await under_way
        next_ = harness.publish(10)
        await settle()
        for member in (*harness.members, near):
            harness.apply(member, 10)
        await settle()
        assert not next_.done()
        harness.apply(far, 10)
        await next_

    play(story)
