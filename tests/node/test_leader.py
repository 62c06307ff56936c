"""The leader: its parts work between ``lead`` and ``resign``, and at no other time."""

import asyncio
from collections.abc import Callable

import pytest

from forewarn.core.facts import Completed, ObservationRecorded
from forewarn.core.fleet import Fleet
from forewarn.core.model import Observation, ObservationKind
from forewarn.node.driver import Impact, ImpactDone, ImpactOutcome
from forewarn.node.feed import Commit
from forewarn.node.leader import Leader
from tests.node.harness import MINUTE, NodeHarness, run


class CountingDriver:
    """Does every impact at once, and tells what it is asked to report."""

    moves_live = False

    def __init__(self) -> None:
        self.performed: list[str] = []
        self.report: Callable[[Observation], None] = lambda _: None
        self.dead: list[Observation] = []
        """The machines that are dead now."""

    def perform(self, impact: Impact) -> ImpactOutcome:
        self.performed.append(impact.event.id)
        return ImpactDone()

    def outcome_of(self, impact: Impact) -> ImpactOutcome:
        return ImpactDone()

    def watch(self, report: Callable[[Observation], None]) -> None:
        self.report = report
        self.resync()

    def resync(self) -> None:
        for seen in self.dead:
            self.report(seen)

    def close(self) -> None:
        """Nothing is to be closed."""


class Part:
    """A part that notes what it is told."""

    is_idle = False

    def __init__(self, *, fails: bool = False) -> None:
        self.heard: list[str] = []
        self._fails = fails

    def load(self, fleet: Fleet) -> None:
        self.heard.append("load")
        if self._fails:
            raise LookupError

    def publish(self, commit: Commit) -> None:
        self.heard.append("publish")

    async def stop(self) -> None:
        self.heard.append("stop")


def test_nothing_is_done_before_it_leads_and_after_it_resigned() -> None:
    """What fell due meanwhile is derived from the fleet by the next one that leads, and done once."""

    async def story(harness: NodeHarness) -> None:
        driver = CountingDriver()
        leader = Leader(harness.node, driver)
        await harness.add_fleet()
        event = await harness.operate("restart", "web-0")
        harness.clock.advance(20 * MINUTE)
        for _ in range(5):
            await asyncio.sleep(0)
        assert (driver.performed, leader.busy) == ([], [])

        for vm in ("web-1", "web-2"):
            completed = harness.next(Completed)
            await leader.lead()
            harness.clock.advance(MINUTE)
            await completed
            await leader.resign()
            later = await harness.operate("restart", vm)
            harness.clock.advance(20 * MINUTE)

        assert len(driver.performed) == 2
        assert driver.performed[0] == event
        assert list(harness.node.replica.fleet.events) == [later]

    run(story)


def test_a_driver_is_listened_to_while_it_leads() -> None:
    """What is reported later is not recorded: another one leads then."""

    async def story(harness: NodeHarness) -> None:
        driver = CountingDriver()
        leader = Leader(harness.node, driver)
        await harness.add_fleet()
        await leader.lead()
        seen = Observation("web-0", ObservationKind.STOPPED, harness.clock.now())
        observed = harness.next(ObservationRecorded)
        driver.report(seen)
        await observed
        await leader.resign()
        before = harness.node.replica.revision

        driver.report(seen)
        await asyncio.sleep(0)

        assert harness.node.replica.revision == before

    run(story)


def test_what_happened_while_it_did_not_lead_is_found_when_it_leads_again() -> None:
    """Nobody may have listened. What is so now counts: a machine that others repaired meanwhile is left alone."""

    async def story(harness: NodeHarness) -> None:
        driver = CountingDriver()
        leader = Leader(harness.node, driver)
        await harness.add_fleet()
        await leader.lead()
        await leader.resign()
        crashes = [
            Observation(f"web-{n}", ObservationKind.CRASHED, harness.clock.now(), is_found=True) for n in range(2)
        ]
        for crash in crashes:
            driver.report(crash)
        driver.dead = crashes[1:]
        observed, completed = harness.next(ObservationRecorded), harness.next(Completed)
        await leader.lead()

        assert (await observed).observation.vm == "web-1"
        await completed
        await leader.resign()
        assert [fact.observation.vm for fact in harness.facts if isinstance(fact, ObservationRecorded)] == ["web-1"]
        assert len(driver.performed) == 1

    run(story)


def test_a_part_that_is_handed_in_follows_from_lead_to_resign() -> None:
    """As the notifications do; resigning again does nothing."""

    async def story(harness: NodeHarness) -> None:
        part, leader = Part(), Leader(harness.node, CountingDriver())
        leader.add(part)
        await harness.add_fleet(enrolled=False)
        assert part.heard == []
        await leader.lead()
        assert leader.busy == ["part"]
        await harness.operate("restart", "web-0")
        assert part.heard[:2] == ["load", "publish"]
        await leader.resign()
        heard = list(part.heard)
        await harness.add_fleet()
        await leader.resign()

        assert part.heard == heard
        assert heard[-1] == "stop"
        assert heard.count("stop") == 1

    run(story)


def test_a_part_that_cannot_start_leaves_none_running() -> None:
    """The service does not start; nothing is carried out by half of it."""

    async def story(harness: NodeHarness) -> None:
        driver = CountingDriver()
        leader = Leader(harness.node, driver)
        leader.add(Part(fails=True))
        await harness.add_fleet(enrolled=False)
        with pytest.raises(LookupError):
            await leader.lead()
        assert leader.busy == []

        await harness.operate("restart", "web-0")
        for _ in range(5):
            await asyncio.sleep(0)

        assert driver.performed == []

    run(story)
