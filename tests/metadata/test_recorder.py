"""Who was shown what is recorded in batches, and at once where somebody wants to know."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

from forewarn.core.facts import Fetched, SwitchedOff
from forewarn.journal.port import NotWritten
from forewarn.metadata.desk import Desk, Seat
from forewarn.metadata.recorder import Recorder
from forewarn.metadata.records import Records
from tests.node.rig import Rig
from tests.node.rig import run as run_rig

VERSION = 6
SECOND = timedelta(seconds=1)


class Office:
    """A desk with a recorder, on the rig's node."""

    def __init__(self, rig: Rig) -> None:
        clock = rig.clock
        self.desk = Desk(clock.seconds)
        self.records = Records(self.desk, rig.node.rules, clock.seconds, clock.now)
        self.recorder = Recorder(rig.node, self.records)
        rig.node.feed.subscribe(self.desk)

    def show(self, vm: str) -> None:
        seat = self.desk.seat_of_vm(vm)
        assert isinstance(seat, Seat)
        self.records.note_shown(seat, seat.board, VERSION)

    async def settled(self) -> None:
        while not self.recorder.is_idle:  # noqa: ASYNC110 - it is idle within a few turns of the loop
            await asyncio.sleep(0)


def run(story: Callable[[Rig, Office], Awaitable[None]]) -> None:
    async def play(rig: Rig) -> None:
        office = Office(rig)
        await rig.add_fleet()
        await rig.operate("restart", "web-0")
        office.recorder.start()
        await story(rig, office)
        await office.recorder.stop()

    run_rig(play)


def fetches(rig: Rig) -> list[list[str]]:
    return [[fetch.vm for fetch in fact.fetches] for fact in rig.facts if isinstance(fact, Fetched)]


def test_fetches_are_recorded_together_in_a_moment() -> None:
    """Two seconds after the first of them, in one fact."""

    async def story(rig: Rig, office: Office) -> None:
        office.show("web-1")
        rig.clock.advance(SECOND)
        office.show("web-2")
        rig.clock.advance(0.9 * SECOND)
        await office.settled()
        assert fetches(rig) == []
        rig.clock.advance(0.1 * SECOND)
        await office.settled()
        assert fetches(rig) == [["web-1", "web-2"]]

    run(story)


def test_what_is_noted_while_it_records_is_recorded_next() -> None:
    """In a moment, without waiting for the sweep."""

    async def story(rig: Rig, office: Office) -> None:
        office.show("web-1")
        rig.clock.advance(2 * SECOND)
        await asyncio.sleep(0)
        assert not office.recorder.is_idle
        office.show("web-2")
        await office.settled()
        rig.clock.advance(2 * SECOND)
        await office.settled()
        assert fetches(rig) == [["web-1"], ["web-2"]]

    run(story)


def test_without_fetches_nothing_wakes_it_but_the_sweep() -> None:
    """Once a minute."""

    async def story(rig: Rig, _: Office) -> None:
        assert rig.clock.next_call() == rig.clock.now() + 60 * SECOND

    run(story)


def test_fetches_can_be_recorded_at_once() -> None:
    """And are not recorded again."""

    async def story(rig: Rig, office: Office) -> None:
        office.show("web-1")
        await office.recorder.record_fetches()
        assert fetches(rig) == [["web-1"]]
        rig.clock.advance(5 * SECOND)
        await office.settled()
        assert fetches(rig) == [["web-1"]]

    run(story)


def test_what_could_not_be_recorded_is_recorded_when_the_journal_can_be_written_again() -> None:
    """A full disk costs no note of who saw an event, and does not fill the log with attempts."""

    async def story(rig: Rig, office: Office) -> None:
        append, attempts = rig.node._journal.append, 0

        def fail(*_: object) -> None:
            nonlocal attempts
            attempts += 1
            raise NotWritten("the disk is full")

        rig.node._journal.append = fail  # type: ignore[method-assign, assignment]
        office.show("web-1")
        for _ in range(120):
            rig.clock.advance(SECOND)
            await office.settled()
        assert 1 < attempts < 12
        rig.node._journal.append = append  # type: ignore[method-assign]
        office.show("web-2")
        rig.clock.advance(60 * SECOND)
        await office.settled()
        assert fetches(rig) == [["web-1", "web-2"]]

    run(story)


def test_stopping_records_what_is_left() -> None:
    """What was noted in the last seconds is not lost by an orderly end."""

    async def story(rig: Rig, office: Office) -> None:
        office.show("web-1")
        await office.recorder.stop()
        assert fetches(rig) == [["web-1"]]

    run(story)


def test_the_sweep_goes_on_and_switches_idle_groups_off() -> None:
    """After 24 hours without a request."""

    async def story(rig: Rig, office: Office) -> None:
        for _ in range(24 * 60 + 1):
            rig.clock.advance(60 * SECOND)
            await office.settled()
        assert [fact.group for fact in rig.facts if isinstance(fact, SwitchedOff)] == ["web"]

    run(story)
