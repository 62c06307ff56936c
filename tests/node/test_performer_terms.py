"""The performer after a change of leader: what another leader attempted is not repeated unless the driver fences."""

import asyncio
import threading
from datetime import timedelta
from uuid import uuid4

import pytest

from forewarn.core.commands import DeallocateVm, RecordAttempt
from forewarn.core.facts import Attempted, Completed, Failed, VmSwitched
from forewarn.core.model import NODE, Vm
from forewarn.journal.memory import MemoryJournal
from forewarn.node.driver import ImpactDone, ImpactNotBegun, ImpactOutcome, ImpactUnderway, ImpactUnknown
from forewarn.node.leader import Leader
from forewarn.node.performer import Performer
from tests.node.failing_journals import ForgetfulJournal
from tests.node.harness import OPERATOR, NodeHarness, run
from tests.node.test_performer import ImmediateDriver, ScriptedDriver

NOT_REPEATED = "unknown outcome, not repeated"


class FencingDriver(ScriptedDriver):
    """Says that it refuses a leader that was replaced."""

    fences_terms = True


class RecordingDriver(ScriptedDriver):
    """Says that it has records on its node."""

    has_local_records = True


async def attempt(harness: NodeHarness, term: int, node: str) -> str:
    """Have an event attempted by a leader that did not live to call its driver."""
    await harness.add_fleet()
    event = await harness.operate("restart", "web-0")
    await harness.approve(event)
    await harness.node.submit(RecordAttempt(id=uuid4().hex, by=NODE, event=event, term=term, node=node))
    return event


async def lead(
    harness: NodeHarness, driver: ScriptedDriver, term: int, node: str, *, ends: type[Completed | Failed]
) -> str:
    """Perform what was attempted as another leader; return how it ended."""
    harness.node.term, harness.node.name = term, node
    ended = harness.next(ends)
    performer = Performer(harness.node, driver)
    harness.node.replica.subscribe(performer)
    fact = await ended
    await performer.stop()
    return fact.reason if isinstance(fact, Failed) else fact.detail


@pytest.mark.parametrize("driver", [ScriptedDriver(), RecordingDriver()])
@pytest.mark.parametrize("term", [4, 0])
def test_a_driver_that_does_not_fence_is_not_called_for_another_leaders_attempt(
    driver: ScriptedDriver, term: int
) -> None:
    """Neither in a later term nor where the journal was copied to one node; the end names who attempted it."""

    async def story(harness: NodeHarness) -> None:
        await attempt(harness, 3, "n1")
        reason = await lead(harness, driver, term, "n2" if term else "", ends=Failed)

        assert driver.asked == []
        assert reason == (f"{NOT_REPEATED}: node n1 attempted it in term 3, and the driver does not fence terms")

    run(story)


def test_an_attempt_of_another_node_is_not_repeated_in_a_term_of_the_same_number() -> None:
    """The journal was restored from a backup, and its terms were counted again."""

    async def story(harness: NodeHarness) -> None:
        await attempt(harness, 3, "n1")
        driver = ScriptedDriver()
        reason = await lead(harness, driver, 3, "n2", ends=Failed)

        assert driver.asked == []
        assert reason.startswith(f"{NOT_REPEATED}: node n1 attempted it in term 3")

    run(story)


def test_an_attempt_of_a_single_node_is_not_repeated_by_a_cluster() -> None:
    """The journal was copied while an event was attempted."""

    async def story(harness: NodeHarness) -> None:
        await attempt(harness, 0, "")
        driver = RecordingDriver()
        reason = await lead(harness, driver, 1, "n1", ends=Failed)

        assert driver.asked == []
        assert reason == (
            f"{NOT_REPEATED}: it was attempted before several nodes shared the journal,"
            " and the driver does not fence terms"
        )

    run(story)


def test_a_driver_that_fences_is_asked_and_then_called_in_the_new_term() -> None:
    """The question and the call both carry the new term; the attempt is recorded with term and node."""

    async def story(harness: NodeHarness) -> None:
        await attempt(harness, 3, "n1")
        driver = FencingDriver(ImpactNotBegun(), ImpactDone())
        await lead(harness, driver, 4, "n2", ends=Completed)

        calls = [(impact.term, impact.attempt, impact.attempted_elsewhere) for impact in driver.impacts]
        assert driver.questions == ["outcome_of", "perform"]
        assert calls == [(4, 1, True), (4, 2, False)]
        attempts = [fact for fact in harness.facts if isinstance(fact, Attempted)]
        assert [(fact.term, fact.node) for fact in attempts] == [(3, "n1"), (4, "n2")]

    run(story)


@pytest.mark.parametrize(
    ("outcome", "ends", "words"),
    [
        (ImpactDone(detail="it was"), Completed, "it was"),
        (ImpactUnknown("the record is torn"), Failed, f"{NOT_REPEATED}: the record is torn"),
        (
            ImpactNotBegun(),
            Failed,
            f"{NOT_REPEATED}: node n1 attempted it in term 3, and there is no record of it on this node",
        ),
    ],
)
def test_a_node_that_leads_again_finds_its_own_records(
    outcome: ImpactOutcome, ends: type[Completed | Failed], words: str
) -> None:
    """Where there is none, the event ends as unknown: the record may have been on a disk that is gone."""

    async def story(harness: NodeHarness) -> None:
        await attempt(harness, 3, "n1")
        driver = RecordingDriver(outcome)

        assert await lead(harness, driver, 5, "n1", ends=ends) == words
        assert driver.questions == ["outcome_of"]

    run(story)


def test_what_was_under_way_is_not_performed_in_a_later_term() -> None:
    """The record was locked at first; then there was nothing in it."""

    async def story(harness: NodeHarness) -> None:
        await attempt(harness, 3, "n1")
        later = harness.clock.now() + timedelta(seconds=30)
        driver = RecordingDriver(ImpactUnderway(later), ImpactNotBegun())
        ended = asyncio.create_task(lead(harness, driver, 5, "n1", ends=Failed))
        while harness.clock.next_call() != later:
            await asyncio.to_thread(bool)
        harness.clock.advance(timedelta(seconds=30))

        assert (await ended).endswith("and there is no record of it on this node")
        assert driver.questions == ["outcome_of", "outcome_of"]

    run(story)


def test_a_call_that_was_begun_in_an_earlier_term_is_not_made_any_more() -> None:
    """Its thread looks whether it may act while its node loses the lease, and goes on when it has another one."""

    async def story(harness: NodeHarness) -> None:
        looks, goes_on = threading.Event(), threading.Event()

        def may_act(_: int) -> bool:
            looks.set()
            return goes_on.wait(20)

        driver = ScriptedDriver(ImpactDone())
        leader = Leader(harness.node, driver)
        leader.may_act = may_act
        harness.node.term, harness.node.name = 3, "n1"
        await harness.add_fleet()
        await leader.lead()
        await harness.approve(await harness.operate("restart", "web-0"))
        await asyncio.to_thread(looks.wait)
        await leader.resign()
        harness.node.term = 5
        goes_on.set()
        failed = harness.next(Failed)
        await leader.lead()
        assert (await failed).reason.startswith(f"{NOT_REPEATED}: node n1 attempted it in term 3")
        while leader._performing._under_way:
            await asyncio.to_thread(bool)
        await leader.resign()

        assert driver.asked == []

    run(story)


def test_an_attempt_with_the_start_is_performed_by_its_own_leader_only() -> None:
    """A leader that was replaced may learn of what the next one started while it stops."""

    async def story(harness: NodeHarness) -> None:
        harness.node.term, harness.node.name = 3, "n1"
        driver = ScriptedDriver()
        performer = Performer(harness.node, driver)
        harness.node.replica.subscribe(performer)
        await harness.add_fleet()
        harness.node.writer.attempts_by = 4, "n2", ""
        failed = harness.next(Failed)
        await harness.approve(await harness.operate("restart", "web-0"))
        await failed
        await performer.stop()

        assert driver.asked == []

    run(story)


def test_in_the_same_term_an_attempt_is_asked_after_as_ever() -> None:
    """A part that failed is loaded again; no other leader was there."""

    async def story(harness: NodeHarness) -> None:
        await attempt(harness, 3, "n1")
        driver = ScriptedDriver(ImpactNotBegun(), ImpactDone())
        await lead(harness, driver, 3, "n1", ends=Completed)

        assert driver.questions == ["outcome_of", "perform"]

    run(story)


def test_an_attempt_with_the_start_carries_the_term_too() -> None:
    """A driver that never waits is attempted in the entry that starts the event."""

    async def story(harness: NodeHarness) -> None:
        harness.node.term, harness.node.name = 7, "n3"
        driver = ImmediateDriver(ImpactDone())
        leader = Leader(harness.node, driver)
        await leader.lead()
        await harness.add_fleet()
        completed = harness.next(Completed)
        await harness.approve(await harness.operate("restart", "web-0"))
        await completed
        await leader.resign()

        assert [(fact.term, fact.node) for fact in harness.facts if isinstance(fact, Attempted)] == [(7, "n3")]
        assert [(impact.term, impact.attempt) for impact in driver.impacts] == [(7, 1)]

    run(story)


def test_an_attempt_of_another_leader_is_not_taken_for_the_own_one() -> None:
    """The one was lost with its leader's lease; then the next leader recorded one."""
    journal = ForgetfulJournal()

    async def story(harness: NodeHarness) -> None:
        harness.node.term, harness.node.name = 3, "n1"
        driver = ScriptedDriver()
        performer = Performer(harness.node, driver)
        harness.node.replica.subscribe(performer)
        await harness.add_fleet()
        event = await harness.operate("restart", "web-0")
        journal.forgets = Attempted
        await harness.approve(event)
        while (due := harness.clock.next_call()) is None:
            await asyncio.to_thread(bool)
        fleet = harness.node.replica.fleet
        fleet.evolve(Attempted(event, harness.clock.now(), 4, "n2"))
        harness.clock.advance(due - harness.clock.now())
        while not performer.is_idle:
            await asyncio.to_thread(bool)

        assert driver.asked == []
        await performer.stop()

    run(story, journal)


def test_with_one_node_nothing_of_terms_is_recorded() -> None:
    """The stored bytes are those of earlier releases."""

    async def story(harness: NodeHarness) -> None:
        driver = ScriptedDriver(ImpactDone())
        performer = Performer(harness.node, driver)
        harness.node.replica.subscribe(performer)
        await harness.add_fleet()
        completed = harness.next(Completed)
        await harness.approve(await harness.operate("restart", "web-0"))
        await completed
        await performer.stop()

        (attempted,) = [fact for fact in harness.facts if isinstance(fact, Attempted)]
        assert attempted == Attempted(attempted.event, attempted.at, group="web")
        assert [(impact.term, impact.attempted_elsewhere) for impact in driver.impacts] == [(0, False)]

    run(story, MemoryJournal())


class SwitchingDriver(ScriptedDriver):
    """Starts and stops VMs, and notes in which term."""

    def __init__(self) -> None:
        super().__init__()
        self.terms: list[int | None] = []

    def switch(self, vm: Vm, *, on: bool, term: int | None = None) -> ImpactOutcome:
        self.terms.append(term)
        return ImpactDone()


class FencingSwitch(SwitchingDriver):
    """Refuses a leader that was replaced."""

    fences_terms = True


@pytest.mark.parametrize(("driver", "terms"), [(SwitchingDriver(), [None]), (FencingSwitch(), [4])])
def test_a_vm_is_switched_in_every_term(driver: SwitchingDriver, terms: list[int | None]) -> None:
    """A request names where the VM is to be, so it is safe to repeat; a driver that fences gets the term."""

    async def story(harness: NodeHarness) -> None:
        harness.node.term, harness.node.name = 4, "n2"
        await harness.add_fleet()
        await harness.node.submit(DeallocateVm(id=uuid4().hex, by=OPERATOR, vm="web-0", can_switch=True))
        switched = harness.next(VmSwitched)
        leader = Leader(harness.node, driver)
        await leader.lead()
        await switched
        await leader.resign()

        assert driver.terms == terms

    run(story)
