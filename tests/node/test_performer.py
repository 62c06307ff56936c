"""The performer: append first, act after, and never knowingly twice."""

import asyncio
import threading
from collections.abc import Iterable
from datetime import datetime, timedelta
from uuid import uuid4

import pytest

from forewarn.core.commands import (
    ChangeFleet,
    Command,
    CordonHost,
    HostOperation,
    ImpactResult,
    MoveVm,
    OperateHost,
    RecordAttempt,
    ReportImpact,
    SetGroup,
)
from forewarn.core.errors import ForewarnError
from forewarn.core.facts import (
    Announced,
    AnyFact,
    Attempted,
    Completed,
    Failed,
    FleetChanged,
    StartedAtOnce,
    VmDeallocated,
    VmMoved,
)
from forewarn.core.model import EventType, EvictionPolicy, Host
from forewarn.journal.memory import MemoryJournal
from forewarn.node import driver
from forewarn.node.driver import Impact, ImpactDone, ImpactNotBegun, ImpactOutcome, ImpactUnderway, ImpactUnknown
from forewarn.node.leader import Leader
from forewarn.node.performer import Performer
from tests.node.failing_journals import FailingJournal, ForgetfulJournal
from tests.node.harness import OPERATOR, NodeHarness, run


class ScriptedDriver:
    """Gives the outcomes it was told to, in order, and remembers what it was asked."""

    moves_live = False
    is_immediate = False

    def __init__(self, *outcomes: ImpactOutcome | Exception) -> None:
        self._outcomes = list(outcomes)
        self.asked: list[tuple[str, tuple[str, ...]]] = []
        self.impacts: list[Impact] = []

    def perform(self, impact: Impact) -> ImpactOutcome:
        return self._answer("perform", impact)

    def outcome_of(self, impact: Impact) -> ImpactOutcome:
        return self._answer("outcome_of", impact)

    def close(self) -> None:
        pass

    def _answer(self, question: str, impact: Impact) -> ImpactOutcome:
        self.asked.append((question, tuple(vm.name for vm in impact.vms)))
        self.impacts.append(impact)
        outcome = self._outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    @property
    def questions(self) -> list[str]:
        return [question for question, _ in self.asked]


async def begin(
    harness: NodeHarness, outcomes: Iterable[ImpactOutcome | Exception]
) -> tuple[ScriptedDriver, Performer]:
    scripted = ScriptedDriver(*outcomes)
    performer = Performer(harness.node, scripted)
    harness.node.replica.subscribe(performer)
    await harness.add_fleet()
    return scripted, performer


def test_an_attempt_is_durable_before_the_driver_is_called() -> None:
    """The journal holds Attempted, then the end that the driver told."""

    async def story(harness: NodeHarness) -> None:
        scripted, performer = await begin(harness, [ImpactDone()])
        completed = harness.next(Completed)
        await harness.approve(await harness.operate("restart", "web-0"))
        await completed
        await performer.stop()

        assert scripted.asked == [("perform", ("web-0",))]
        assert [type(fact).__name__ for fact in harness.facts[-3:]] == ["Started", "Attempted", "Completed"]

    run(story)


def test_an_impact_under_way_is_asked_after_at_the_time_the_driver_named() -> None:
    """No thread waits for a long impact; how far it is, is known until it ends."""

    async def story(harness: NodeHarness) -> None:
        later = harness.clock.now() + timedelta(seconds=30)
        scripted, performer = await begin(harness, [ImpactUnderway(later, "half-way"), ImpactDone()])
        completed = harness.next(Completed)
        attempted = harness.next(Attempted)
        event = await harness.operate("restart", "web-0")
        await harness.approve(event)
        await attempted
        # No task waits: thousands of them would stop the event loop whenever garbage is collected.
        while harness.clock.next_call() != later or not performer.is_idle:
            await harness.node.replica.history("event:none")
        assert harness.node.progress == {event: "half-way"}
        harness.clock.advance(timedelta(seconds=30))
        await completed
        await performer.stop()

        assert scripted.questions == ["perform", "outcome_of"]
        assert harness.node.progress == {}

    run(story)


def test_a_time_that_a_wrong_clock_made_is_not_waited_for() -> None:
    """The clock is an hour ahead while the driver names a time, and set right before anybody notices."""

    async def story(harness: NodeHarness) -> None:
        hour, soon = timedelta(hours=1), timedelta(seconds=30)
        later = harness.clock.now() + hour + soon
        scripted, performer = await begin(harness, [ImpactUnderway(later), ImpactDone()])
        event = await harness.operate("restart", "web-0")
        attempted, completed = harness.next(Attempted), harness.next(Completed)
        await harness.approve(event)
        harness.clock.step(hour)
        await attempted
        while harness.clock.next_call() != later:
            await harness.node.replica.history("event:none")
        harness.clock.step(-hour)
        harness.clock.advance(soon)
        async with asyncio.timeout(20):
            await completed
        await performer.stop()

        assert scripted.questions == ["perform", "outcome_of"]

    run(story)


class ImmediateDriver(ScriptedDriver):
    """A driver that never waits."""

    is_immediate = True


def test_a_driver_that_never_waits_is_attempted_with_the_start() -> None:
    """One entry holds Started and Attempted, and only then the driver is called, on the event loop."""

    async def story(harness: NodeHarness) -> None:
        threads: list[bool] = []

        class Watching(ImmediateDriver):
            def perform(self, impact: Impact) -> ImpactOutcome:
                threads.append(threading.current_thread() is threading.main_thread())
                assert impact.event.attempts == 1
                return super().perform(impact)

        scripted = Watching(ImpactDone())
        leader = Leader(harness.node, scripted)
        await leader.lead()
        await harness.add_fleet()
        completed = harness.next(Completed)
        await harness.approve(await harness.operate("restart", "web-0"))
        await completed
        await leader.resign()

        assert scripted.questions == ["perform"]
        assert threads == [True]
        entries = [[type(fact).__name__ for fact in entry.facts] for entry in harness.entries]
        assert ["Approved", "Started", "Attempted"] in entries

    run(story)


def test_after_a_crash_a_driver_that_never_waits_is_asked_first() -> None:
    """The attempt is on record although nobody knows whether the driver was called."""

    async def story(harness: NodeHarness) -> None:
        await harness.add_fleet()
        harness.node.writer.attempts_by = 0, "", ""
        await harness.approve(await harness.operate("restart", "web-0"))
        scripted = ImmediateDriver(ImpactNotBegun(), ImpactDone())
        completed = harness.next(Completed)
        performer = Performer(harness.node, scripted)
        harness.node.replica.subscribe(performer)
        await completed
        await performer.stop()

        assert scripted.questions == ["outcome_of", "perform"]
        assert [type(fact).__name__ for fact in harness.facts[-3:]] == ["Attempted", "Attempted", "Completed"]

    run(story)


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        (driver.ImpactFailed("the disk is broken"), "the disk is broken"),
        (ImpactUnknown("no record"), "unknown outcome, not repeated: no record"),
        (ImpactNotBegun(), "the driver did not begin"),
        (
            RuntimeError("boom"),
            f"{__name__}.ScriptedDriver.perform raised RuntimeError: boom at {__name__}:70",
        ),
    ],
)
def test_a_bad_outcome_ends_the_event_failed(outcome: ImpactOutcome | Exception, reason: str) -> None:
    """Whatever the driver does, the event ends, with the reason."""

    async def story(harness: NodeHarness) -> None:
        _, performer = await begin(harness, [outcome])
        failed = harness.next(Failed)
        await harness.approve(await harness.operate("restart", "web-0"))

        assert (await failed).reason == reason
        await performer.stop()

    run(story)


def test_the_new_host_of_a_moved_vm_is_recorded() -> None:
    """A redeploy whose driver names a host leaves the VM there."""

    async def story(harness: NodeHarness) -> None:
        _, performer = await begin(harness, [ImpactDone({"web-0": "h2"})])
        moved = harness.next(VmMoved)
        await harness.approve(await harness.operate("redeploy", "web-0"))

        assert (await moved).host == "h2"
        await performer.stop()

    run(story)


def test_an_event_whose_vms_are_all_gone_completes_without_the_driver() -> None:
    """There is nobody left to impact."""

    async def story(harness: NodeHarness) -> None:
        scripted, performer = await begin(harness, [])
        (event, _) = await harness.operate_host("freeze", "h1")
        for fact in (VmDeallocated("web-0", "test"),):
            harness.node.replica.fleet.evolve(fact)
        completed = harness.next(Completed)
        await harness.approve(event)

        assert (await completed).detail == "no VM was left to be impacted"
        assert scripted.asked == []
        await performer.stop()

    run(story)


@pytest.mark.parametrize(
    ("outcome", "questions", "end"),
    [
        (ImpactDone(), ["outcome_of"], Completed),
        (ImpactNotBegun(), ["outcome_of", "perform"], Completed),
        (ImpactUnknown(), ["outcome_of"], Failed),
    ],
)
def test_after_a_crash_the_driver_is_asked_before_anything_is_repeated(
    outcome: ImpactOutcome, questions: list[str], end: type[Completed | Failed]
) -> None:
    """An attempt without a report is asked after; only what was not begun is performed."""
    journal = MemoryJournal()

    async def crash(harness: NodeHarness) -> None:
        later = harness.clock.now() + timedelta(days=1)
        _, performer = await begin(harness, [ImpactUnderway(later)])
        attempted = harness.next(Attempted)
        await harness.approve(await harness.operate("restart", "web-0"))
        await attempted
        await performer.stop()

    async def recover(harness: NodeHarness) -> None:
        scripted = ScriptedDriver(outcome, ImpactDone())
        performer = Performer(harness.node, scripted)
        ended = harness.next(end)
        performer.load(harness.node.replica.fleet)
        await ended
        await performer.stop()

        assert scripted.questions == questions

    run(crash, journal)
    run(recover, journal)


def test_a_started_event_that_was_never_attempted_is_performed_after_a_crash() -> None:
    """Killed between start and attempt: the driver is called once, by the next process."""
    journal = MemoryJournal()

    async def crash(harness: NodeHarness) -> None:
        await harness.add_fleet()
        await harness.approve(await harness.operate("restart", "web-0"))

    async def recover(harness: NodeHarness) -> None:
        scripted = ScriptedDriver(ImpactDone())
        performer = Performer(harness.node, scripted)
        ended = harness.next(Completed)
        performer.load(harness.node.replica.fleet)
        await ended
        await performer.stop()

        assert scripted.questions == ["perform"]

    run(crash, journal)
    run(recover, journal)


def test_the_word_of_a_driver_is_repeated_until_it_is_recorded() -> None:
    """A journal that fails for a while loses no outcome."""
    journal = FailingJournal()

    class Breaking(ScriptedDriver):
        def _answer(self, question: str, impact: Impact) -> ImpactOutcome:
            journal.fails = "before"
            return super()._answer(question, impact)

    async def story(harness: NodeHarness) -> None:
        performer = Performer(harness.node, Breaking(ImpactDone()))
        harness.node.replica.subscribe(performer)
        await harness.add_fleet()
        completed = harness.next(Completed)
        await harness.approve(await harness.operate("restart", "web-0"))
        while harness.clock.next_call() is None:
            await harness.node.replica.history("event:none")
        journal.fails = ""
        harness.clock.advance(timedelta(seconds=1))
        await completed
        await performer.stop()

    run(story, journal)


def test_a_fact_about_the_fleet_starts_nothing() -> None:
    """Only a start is carried out."""

    async def story(harness: NodeHarness) -> datetime:
        scripted, performer = await begin(harness, [])
        await harness.operate("restart", "web-0")
        await performer.stop()
        assert scripted.asked == []
        assert any(isinstance(fact, FleetChanged) for fact in harness.facts)
        return harness.clock.now()

    run(story)


@pytest.mark.parametrize(
    ("operation", "eviction", "deletes"),
    [
        ("evict", EvictionPolicy.DEALLOCATE, False),
        ("evict", EvictionPolicy.DELETE, True),
        ("delete", EvictionPolicy.DEALLOCATE, True),
        ("restart", EvictionPolicy.DELETE, False),
    ],
)
def test_the_driver_is_told_whether_machines_go_for_good(
    operation: str, eviction: EvictionPolicy, *, deletes: bool
) -> None:
    """A deleted VM's machine is to be removed, and an evicted one's where the group's policy says so."""

    async def story(harness: NodeHarness) -> None:
        scripted, performer = await begin(harness, [ImpactDone()])
        await harness.node.submit(SetGroup(id=uuid4().hex, by=OPERATOR, group="web", eviction=eviction))
        completed = harness.next(Completed)
        event = await harness.operate(operation, "web-0")
        if operation != "delete":
            await harness.approve(event)
        await completed
        await performer.stop()

        assert [impact.deletes for impact in scripted.impacts] == [deletes]
        assert [impact.candidates for impact in scripted.impacts] == [()]

    run(story)


def test_the_driver_of_a_move_is_told_the_other_hosts_and_who_stands_there() -> None:
    """The choice among them is the driver's, so it is told which neighbours a VM would meet."""

    async def story(harness: NodeHarness) -> None:
        scripted, performer = await begin(harness, [ImpactDone()])
        completed = harness.next(Completed)
        await harness.approve(await harness.operate("redeploy", "web-0"))
        await completed
        await performer.stop()

        (impact,) = scripted.impacts
        assert impact.moves
        assert [(candidate.host.name, [vm.name for vm in candidate.vms]) for candidate in impact.candidates] == [
            ("h2", ["web-1"])
        ]

    run(story)


def test_a_live_migration_is_a_move_though_it_is_felt_as_a_freeze() -> None:
    """The redeploy of a host is a move whatever its type; a plain freeze is none."""

    async def story(harness: NodeHarness) -> None:
        scripted, performer = await begin(harness, [ImpactDone(), ImpactDone()])
        live = OperateHost(id=uuid4().hex, by=OPERATOR, operation=HostOperation.REDEPLOY, host="h2", live=True)
        (announced,) = (fact for fact in await harness.node.submit(live) if isinstance(fact, Announced))
        for event in (announced.event.id, await harness.operate("freeze", "web-0")):
            completed = harness.next(Completed)
            await harness.approve(event)
            await completed
        await performer.stop()

        assert [(impact.event.type, impact.moves) for impact in scripted.impacts] == [
            (EventType.FREEZE, True),
            (EventType.FREEZE, False),
        ]
        assert not any(impact.is_failure for impact in scripted.impacts)

    run(story)


def test_no_berth_is_on_a_host_that_failed_and_none_on_a_degraded_one_while_others_are_up() -> None:
    """A driver is never offered a host that has failed."""

    async def story(harness: NodeHarness) -> None:
        scripted, performer = await begin(harness, [ImpactDone()] * 4)
        more = (Host("h3"), Host("h4"))
        await harness.node.submit(ChangeFleet(id=uuid4().hex, by=OPERATOR, hosts=more))
        offered = []
        for operation, host in (
            (HostOperation.FAIL, "h3"),
            (HostOperation.DEGRADE, "h4"),
            (HostOperation.FAIL, "h2"),
        ):
            moved = harness.next(Completed)
            facts = await harness.node.submit(
                OperateHost(id=uuid4().hex, by=OPERATOR, operation=operation, host=host)
            )
            if any(isinstance(fact, StartedAtOnce) for fact in facts):
                await moved
            completed = harness.next(Completed)
            await harness.approve(await harness.operate("redeploy", "web-0"))
            await completed
            asked = next(each for each in reversed(scripted.impacts) if each.event.operation == "vm redeploy")
            offered.append([candidate.host.name for candidate in asked.candidates])
        await performer.stop()

        assert offered == [["h2", "h4"], ["h2"], ["h4"]]

    run(story)


def test_a_move_to_a_named_host_has_that_berth_alone() -> None:
    """And nothing is done to a VM that stands there by then."""

    async def story(harness: NodeHarness) -> None:
        scripted, performer = await begin(harness, [ImpactDone({"web-0": "h2"})])
        move = MoveVm(id=uuid4().hex, by=OPERATOR, vm="web-0", host="h2", can_move=True, live=True)
        await harness.node.submit(ChangeFleet(id=uuid4().hex, by=OPERATOR, hosts=(Host("h3"),)))
        (announced,) = (fact for fact in await harness.node.submit(move) if isinstance(fact, Announced))
        completed = harness.next(Completed)
        await harness.approve(announced.event.id)
        await completed
        await performer.stop()

        (impact,) = scripted.impacts
        assert impact.moves
        assert [candidate.host.name for candidate in impact.candidates] == ["h2"]
        assert harness.node.replica.fleet.vms["web-0"].standing_on == "h2"

    run(story)


@pytest.mark.parametrize(
    ("refused", "message"),
    [
        (RecordAttempt, "an event waits to be carried out"),
        (ReportImpact, "the end of an event waits to be recorded"),
    ],
)
def test_what_is_refused_by_mistake_is_submitted_again_after_a_pause(
    refused: type[Command], message: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Without a recorded attempt the driver is not called; with one, it is called once. Refusals are logged once."""

    async def story(harness: NodeHarness) -> None:
        scripted, performer = await begin(harness, [ImpactDone()])
        submit, times = harness.node.submit, 0

        async def refuse(command: Command) -> tuple[AnyFact, ...]:
            nonlocal times
            if isinstance(command, refused):
                times += 1
                raise ForewarnError("the service made a mistake")
            return await submit(command)

        monkeypatch.setattr(harness.node, "submit", refuse)
        completed = harness.next(Completed)
        await harness.approve(await harness.operate("restart", "web-0"))
        for tried, pause in ((1, 1), (2, 1), (3, 2), (4, 4)):
            while times < tried or not performer.is_idle:  # noqa: ASYNC110 - it has no event of its own
                await asyncio.sleep(0)
            assert scripted.questions == ([] if refused is RecordAttempt else ["perform"])
            harness.clock.advance(timedelta(seconds=pause - 0.01))
            await asyncio.sleep(0)
            assert times == tried, "the pause is not over"
            monkeypatch.setattr(harness.node, "submit", submit if tried == 4 else refuse)
            harness.clock.advance(timedelta(seconds=0.02))
        await completed
        await performer.stop()

        assert scripted.questions == ["perform"]

    run(story)
    logged = [each.message for each in caplog.records if each.name == "forewarn.node.performer"]
    assert logged == [message]


def test_an_event_that_has_ended_is_not_attempted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The refusal of its attempt is the end of the work for it."""

    async def story(harness: NodeHarness) -> None:
        scripted, performer = await begin(harness, [])
        submit = harness.node.submit

        async def end_first(command: Command) -> tuple[AnyFact, ...]:
            if isinstance(command, RecordAttempt):
                await submit(
                    ReportImpact(id=uuid4().hex, by=OPERATOR, event=command.event, result=ImpactResult.FAILED)
                )
            return await submit(command)

        monkeypatch.setattr(harness.node, "submit", end_first)
        failed = harness.next(Failed)
        await harness.approve(await harness.operate("restart", "web-0"))
        await failed
        while not performer.is_idle:  # noqa: ASYNC110 - it has no event of its own
            await asyncio.sleep(0)
        assert scripted.asked == []
        assert harness.clock.next_call() is None

    run(story)


def test_after_an_unexpected_error_the_driver_is_asked_first(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A mistake of the service leaves no event Started: it is taken up again after a pause, as after a crash."""

    async def story(harness: NodeHarness) -> None:
        scripted, performer = await begin(harness, [ImpactDone(), ImpactDone()])

        async def break_down(*_: object) -> None:
            raise ZeroDivisionError("a bug")

        monkeypatch.setattr(performer, "_report", break_down)
        completed = harness.next(Completed)
        await harness.approve(await harness.operate("restart", "web-0"))
        while harness.clock.next_call() is None:
            await asyncio.to_thread(bool)
        monkeypatch.undo()
        harness.clock.advance(timedelta(seconds=1))
        await completed
        await performer.stop()

        assert scripted.questions == ["perform", "outcome_of"]

    run(story)
    logged = [each.message for each in caplog.records if each.name == "forewarn.node.performer"]
    assert logged == ["an event was not carried out, and is tried again"]


def test_an_attempt_that_turns_out_to_be_recorded_is_not_recorded_again() -> None:
    """Its outcome was unknown at first; the driver is called once."""
    journal = ForgetfulJournal()

    async def story(harness: NodeHarness) -> None:
        scripted, performer = await begin(harness, [ImpactDone()])
        event = await harness.operate("restart", "web-0")
        completed = harness.next(Completed)
        journal.forgets = Attempted
        await harness.approve(event)
        while harness.clock.next_call() is None:
            await asyncio.to_thread(bool)
        journal.forgets, journal.is_gone = None, False
        harness.clock.advance(timedelta(seconds=1))
        await completed
        await performer.stop()

        assert scripted.questions == ["perform"]
        facts = [fact for entry in journal.entries() for fact in entry.facts]
        assert sum(isinstance(fact, Attempted) for fact in facts) == 1

    run(story, journal)


def test_no_candidate_is_cordoned() -> None:
    """A driver is never offered a host that receives no VMs."""

    async def story(harness: NodeHarness) -> None:
        scripted, performer = await begin(harness, [ImpactDone()])
        await harness.node.submit(ChangeFleet(id=uuid4().hex, by=OPERATOR, hosts=(Host("h3"),)))
        await harness.node.submit(CordonHost(id=uuid4().hex, by=OPERATOR, host="h2", is_cordoned=True))
        completed = harness.next(Completed)
        await harness.approve(await harness.operate("redeploy", "web-0"))
        await completed
        await performer.stop()

        assert [candidate.host.name for candidate in scripted.impacts[0].candidates] == ["h3"]

    run(story)
