"""The executor: what is due is submitted, what only the outside can do is done, and a crash loses nothing."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from msgspec.structs import replace

from forewarn.clocks import ManualClock, Timer
from forewarn.core.commands import Command
from forewarn.core.facts import AnyFact, Entry
from forewarn.core.model import Vm
from forewarn.core.rollouts.commands import AdvanceRollout, PauseRollout, ResumeRollout, StartRollout
from forewarn.core.rollouts.facts import (
    RolloutChecked,
    RolloutEnded,
    RolloutHostChanged,
    RolloutStarted,
    RolloutWaveStarted,
)
from forewarn.core.rollouts.model import HealthGate, HostStep, RolloutOperation, RolloutTerms
from forewarn.drivers.simulated import SimulatedDriver, SimulatedSettings
from forewarn.journal.memory import MemoryJournal
from forewarn.journal.port import JournalFailed
from forewarn.node.driver import (
    HostCommand,
    HostCommandEnded,
    HostCommandOutcome,
    ImpactNotBegun,
    ImpactUnderway,
)
from forewarn.node.leader import Leader
from forewarn.node.rollout_checks import GateResult, RolloutChecker
from tests.node.harness import OPERATOR, NodeHarness, run

REBOOT = RolloutTerms(operation=RolloutOperation.REBOOT, all_hosts=True)
COMMAND = RolloutTerms(operation=RolloutOperation.COMMAND, hosts=("h1",), command="update")


def simulated(clock: ManualClock) -> SimulatedDriver:
    return SimulatedDriver(SimulatedSettings(), clock, 1.0)


async def start(harness: NodeHarness, terms: RolloutTerms, name: str = "k") -> None:
    await harness.node.submit(StartRollout(id=uuid4().hex, by=OPERATOR, name=name, terms=terms, runs_commands=True))


async def settled(harness: NodeHarness, leader: Leader) -> None:
    for _ in range(20):
        await asyncio.sleep(0)
    while leader.busy or not harness.node.is_idle:  # noqa: ASYNC110 - there is nothing else to wait for
        await asyncio.sleep(0)


async def play(harness: NodeHarness, leader: Leader, until: Callable[[], bool], step: float = 30.0) -> None:
    """Let time pass until something has come about."""
    for _ in range(500):
        await settled(harness, leader)
        if until():
            return
        harness.clock.advance(timedelta(seconds=step))
    raise AssertionError("it has not come about")


def has_ended(harness: NodeHarness) -> bool:
    return any(isinstance(fact, RolloutEnded) for fact in harness.facts)


async def lead(harness: NodeHarness, driver: object, checker: RolloutChecker | None = None) -> Leader:
    leader = Leader(harness.node, driver)  # type: ignore[arg-type]  # it is a driver
    if checker:
        leader.rollout_checker = checker
    await leader.lead()
    return leader


def test_a_rollout_goes_through_all_hosts_by_itself() -> None:
    """Commits and the clock are all it needs."""

    async def story(harness: NodeHarness) -> None:
        await harness.add_fleet()
        leader = await lead(harness, simulated(harness.clock))
        await start(harness, REBOOT)
        await play(harness, leader, lambda: has_ended(harness))
        await leader.resign()
        waves = [fact.hosts for fact in harness.facts if isinstance(fact, RolloutWaveStarted)]
        assert waves == [("h1",), ("h2",)]
        assert harness.node.replica.fleet.rollouts == {}

    run(story)


SETTLING = RolloutTerms(operation=RolloutOperation.REBOOT, hosts=("h1",), settle=2)


def test_a_timer_that_rings_while_a_round_ends_is_not_lost() -> None:
    """Between the last step of a round and its end the clock moves on to the time that the round waits for."""

    class HastyClock(ManualClock):
        def call_at(self, when: datetime, do: Callable[[], None]) -> Timer:
            if when - self.now() <= timedelta(seconds=2):
                asyncio.get_running_loop().call_soon(self.advance_to, when)
            return super().call_at(when, do)

    async def story(harness: NodeHarness) -> None:
        await harness.add_fleet()
        leader = await lead(harness, simulated(harness.clock))
        await start(harness, SETTLING)
        await play(harness, leader, lambda: has_ended(harness))
        await leader.resign()

    run(story, clock=HastyClock())


def test_what_comes_due_while_a_round_ends_is_done_at_once() -> None:
    """The round was decided before the host had settled; its timer is set after that."""

    async def story(harness: NodeHarness) -> None:
        await harness.add_fleet()
        leader = await lead(harness, simulated(harness.clock))
        submit = harness.node.submit

        async def submit_slowly(command: Command) -> tuple[AnyFact, ...]:
            facts = await submit(command)
            runs = harness.node.replica.fleet.rollout_hosts.values()
            if isinstance(command, AdvanceRollout) and any(run.step is HostStep.SETTLING for run in runs):
                harness.clock.advance(timedelta(seconds=1.5))
            return facts

        harness.node.submit = submit_slowly  # type: ignore[method-assign]
        await start(harness, SETTLING)
        await play(harness, leader, lambda: has_ended(harness))
        await leader.resign()

    run(story)


@pytest.mark.end_to_end
def test_a_rollout_that_is_cut_off_anywhere_goes_on() -> None:
    """After every so many entries the process ends; the next one derives from the journal what is left."""

    def crashing(after: int) -> list[tuple[str, ...]]:
        journal, clock = MemoryJournal(), ManualClock()
        seen: list[tuple[str, ...]] = []
        is_over = [False]

        def life(*, is_first: bool) -> Callable[[NodeHarness], Awaitable[None]]:
            async def story(harness: NodeHarness) -> None:
                if is_first:
                    await harness.add_fleet()
                leader = await lead(harness, simulated(clock))
                if is_first:
                    await start(harness, COMMAND)

                def is_enough() -> bool:
                    return len(harness.entries) >= after or has_ended(harness)

                await play(harness, leader, is_enough)
                await leader.resign()
                is_over[0] = has_ended(harness)
                seen.extend(fact.hosts for fact in harness.facts if isinstance(fact, RolloutWaveStarted))

            return story

        run(life(is_first=True), journal, clock)
        for _ in range(100):
            if is_over[0]:
                return seen
            run(life(is_first=False), journal, clock)
        raise AssertionError("it never ended")

    for after in range(1, 12):
        assert crashing(after) == [("h1",)]


class CountingDriver(SimulatedDriver):
    """Runs commands on hosts as a real one: it knows what was begun, and how often."""

    is_immediate = False

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(SimulatedSettings(), clock, 1.0)
        self.begun: dict[str, int] = {}
        self.terms: list[int] = []
        self.timeouts: list[int] = []
        self.answer: HostCommandOutcome = HostCommandEnded(0, "ok")

    def run_on_host(self, command: HostCommand) -> HostCommandOutcome:
        self.terms.append(command.term)
        self.timeouts.append(command.timeout)
        self.begun[command.id] = self.begun.get(command.id, 0) + 1
        return ImpactUnderway(command.attempted_at + timedelta(seconds=30))

    def outcome_on_host(self, command: HostCommand) -> HostCommandOutcome:
        self.terms.append(command.term)
        return self.answer if command.id in self.begun else ImpactNotBegun()


def test_a_host_command_is_run_once_although_the_process_ends_meanwhile() -> None:
    """The next leader asks the driver first."""
    journal, clock = MemoryJournal(), ManualClock()
    driver = CountingDriver(clock)

    async def first(harness: NodeHarness) -> None:
        await harness.add_fleet()
        leader = await lead(harness, driver)
        await start(harness, COMMAND)
        await play(harness, leader, lambda: bool(driver.begun))
        await leader.resign()

    async def second(harness: NodeHarness) -> None:
        leader = await lead(harness, driver)
        await play(harness, leader, lambda: has_ended(harness))
        await leader.resign()
        done = [fact for fact in harness.facts if isinstance(fact, RolloutHostChanged) and fact.step is HostStep.DONE]
        assert [fact.exit_status for fact in done] == [0]

    run(first, journal, clock)
    run(second, journal, clock)
    assert list(driver.begun.values()) == [1]


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        ("n1", "this node may have begun it in term 3, and has no record of it"),
        ("n2", "node n1 may have begun it, and has been replaced"),
    ],
)
def test_a_host_command_of_an_earlier_term_is_not_run(node: str, reason: str) -> None:
    """A call that was delayed may still begin it; calls carry the term."""
    journal, clock = MemoryJournal(), ManualClock()
    driver = CountingDriver(clock)

    async def first(harness: NodeHarness) -> None:
        harness.node.term, harness.node.name = 3, "n1"
        await harness.add_fleet()
        leader = await lead(harness, driver)
        await start(harness, COMMAND)
        await play(harness, leader, lambda: bool(driver.begun))
        await leader.resign()
        driver.begun.clear()  # the call is still on its way

    async def second(harness: NodeHarness) -> None:
        harness.node.term, harness.node.name = 4, node
        fleet = harness.node.replica.fleet
        assert (fleet.rollout_hosts["k/h1"].node, fleet.rollout_hosts["k/h1"].term) == ("n1", 3)
        leader = await lead(harness, driver)
        await play(harness, leader, lambda: fleet.rollouts["k"].failed == 1)
        await leader.resign()
        assert reason in fleet.rollout_hosts["k/h1"].reason

    run(first, journal, clock)
    run(second, journal, clock)
    assert driver.begun == {}
    assert driver.terms == ([3, 3, 4] if node == "n1" else [3, 3])


def test_a_failed_command_is_recorded_with_its_status_and_pauses() -> None:
    """The host stays cordoned."""

    async def story(harness: NodeHarness) -> None:
        await harness.add_fleet()
        driver = CountingDriver(harness.clock)
        driver.answer = HostCommandEnded(7, "no kernel")
        leader = await lead(harness, driver)
        await start(harness, COMMAND)
        fleet = harness.node.replica.fleet
        await play(harness, leader, lambda: fleet.rollouts["k"].failed == 1)
        await leader.resign()
        run_ = fleet.rollout_hosts["k/h1"]
        assert run_.exit_status == 7
        assert "status 7: no kernel" in run_.reason
        assert "h1" in fleet.cordoned

    run(story)


@pytest.mark.parametrize(("limit", "timeout"), [(0, 1800), (600, 540), (86_400, 1800)])
def test_a_command_may_take_no_longer_than_its_host_has_left(limit: int, timeout: int) -> None:
    """One that is drained after a minute has that much less of its limit; the host then fails."""

    async def story(harness: NodeHarness) -> None:
        await harness.add_fleet()
        driver = CountingDriver(harness.clock)
        driver.answer = ImpactUnderway(harness.clock.now() + timedelta(days=9))
        leader = await lead(harness, driver)
        await start(harness, replace(COMMAND, hosts=("h2",), host_limit=limit))
        await play(harness, leader, lambda: bool(driver.begun))
        assert driver.timeouts == [timeout]
        fleet = harness.node.replica.fleet
        if limit == 600:
            await play(harness, leader, lambda: fleet.rollouts["k"].failed == 1)
            assert fleet.rollout_hosts["k/h2"].reason == "it took longer than 600 s"
        await leader.resign()

    run(story)


def test_each_run_of_a_rollout_that_recurs_is_predicted_anew() -> None:
    """By what the present driver took; one that was never seen begins with what is assumed."""

    async def story(harness: NodeHarness) -> None:
        await harness.add_fleet()
        for number, driver in enumerate(("libvirt", "libvirt", "qemu"), 1):
            harness.node.driver_name = driver
            leader = await lead(harness, simulated(harness.clock))
            if number == 1:
                await start(harness, replace(REBOOT, every=7_200))
            await play(harness, leader, lambda: len(ends(harness)) == number)  # noqa: B023 - called at once
            await leader.resign()
        begun = [fact.rollout for fact in harness.facts if isinstance(fact, RolloutStarted)]
        assert [rollout.lasts for rollout in begun] == [60.0, 30.0, 60.0]
        assert begun[1].prediction
        assert begun[2].prediction
        first, second = (each.prediction.finish - each.started_at for each in begun[1:] if each.prediction)
        assert second - first == timedelta(seconds=90)  # three impacts, one after another, of 60 s instead of 30

    run(story)


def ends(harness: NodeHarness) -> list[RolloutEnded]:
    return [fact for fact in harness.facts if isinstance(fact, RolloutEnded)]


def test_a_run_begins_although_the_journal_cannot_be_read() -> None:
    """It is not predicted then, and keeps what the run before was expected to take."""

    async def story(harness: NodeHarness) -> None:
        await harness.add_fleet()
        leader = await lead(harness, simulated(harness.clock))
        await start(harness, replace(REBOOT, hosts=("h1",), all_hosts=False, expected=90, every=86_400))
        await play(harness, leader, lambda: has_ended(harness))

        def fail(*_: object, **__: object) -> list[Entry]:
            raise JournalFailed("the disk is gone")

        harness.node.journal.history = fail  # type: ignore[method-assign]
        await play(harness, leader, lambda: len(ends(harness)) == 2, step=3_600)
        await leader.resign()
        _, again = (fact.rollout for fact in harness.facts if isinstance(fact, RolloutStarted))
        assert (again.run, again.lasts, again.prediction) == (2, 90.0, None)

    run(story)


class Checker(RolloutChecker):
    """Says what a test lays out for it, then that all is well."""

    def __init__(self, *results: GateResult) -> None:
        super().__init__()
        self.results = list(results)

    def check(self, terms: RolloutTerms) -> GateResult:
        return self.results.pop(0) if self.results else GateResult(True, "well")


def test_the_gate_is_run_before_each_wave_and_a_failure_pauses() -> None:
    """After a resume it is run again."""

    async def story(harness: NodeHarness) -> None:
        await harness.add_fleet()
        checker = Checker(GateResult(True, "well"), GateResult(False, "5 % errors"))
        leader = await lead(harness, simulated(harness.clock), checker)
        gate = RolloutTerms(operation=RolloutOperation.FREEZE, all_hosts=True, gate=HealthGate(url="http://x/"))
        await start(harness, gate)
        fleet = harness.node.replica.fleet
        await play(harness, leader, lambda: fleet.rollouts["k"].state == "paused")
        assert fleet.rollouts["k"].reason == "the gate failed: 5 % errors"
        await harness.node.submit(ResumeRollout(id=uuid4().hex, by=OPERATOR, name="k"))
        await play(harness, leader, lambda: has_ended(harness))
        await leader.resign()
        checked = [fact.wave for fact in harness.facts if isinstance(fact, RolloutChecked)]
        assert checked == [1, 2, 2]

    run(story)


class BrokenChecker(RolloutChecker):
    """Fails as a program does that has a bug."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def check(self, terms: RolloutTerms) -> GateResult:
        self.calls += 1
        raise ZeroDivisionError("a bug")


def test_a_step_that_fails_is_logged_once_and_tried_again_after_a_pause(caplog: pytest.LogCaptureFixture) -> None:
    """Commits of others do not shorten the pause."""

    async def story(harness: NodeHarness) -> None:
        await harness.add_fleet()
        checker = BrokenChecker()
        leader = await lead(harness, simulated(harness.clock), checker)
        gate = RolloutTerms(operation=RolloutOperation.FREEZE, all_hosts=True, gate=HealthGate(url="http://x/"))
        await start(harness, gate)
        for calls in (1, 2, 3):
            while checker.calls < calls:  # noqa: ASYNC110 - it is called in a thread
                await asyncio.sleep(0)
            await harness.operate("freeze", "web-1")
            await settled(harness, leader)
            assert checker.calls == calls
            harness.clock.advance(harness.node.writer.retry_after)
        await leader.resign()

    run(story)
    failures = [each for each in caplog.records if each.name == "forewarn.node.rollout_executor"]
    assert [each.message for each in failures] == ["a step of a rollout failed, and is tried again"]
    assert {"rollout", "host", "reason"} == set(vars(failures[0])["fields"])


def test_a_paused_rollout_stays_paused_after_a_restart() -> None:
    """And goes on exactly where it stopped when it is resumed."""
    journal, clock = MemoryJournal(), ManualClock()

    async def first(harness: NodeHarness) -> None:
        await harness.add_fleet()
        leader = await lead(harness, simulated(clock))
        await start(harness, REBOOT)
        await settled(harness, leader)
        await harness.node.submit(PauseRollout(id=uuid4().hex, by=OPERATOR, name="k"))
        await leader.resign()

    async def second(harness: NodeHarness) -> None:
        leader = await lead(harness, simulated(clock))
        fleet = harness.node.replica.fleet
        await play(harness, leader, lambda: fleet.rollouts["k"].done == 1)
        assert fleet.rollouts["k"].state == "paused"
        await harness.node.submit(ResumeRollout(id=uuid4().hex, by=OPERATOR, name="k"))
        await play(harness, leader, lambda: has_ended(harness))
        await leader.resign()
        assert [fact.hosts for fact in harness.facts if isinstance(fact, RolloutWaveStarted)] == [("h2",)]

    run(first, journal, clock)
    run(second, journal, clock)


def test_a_host_that_cannot_be_drained_fails_with_the_vms_to_move() -> None:
    """Nothing is cordoned."""

    class FullDriver(SimulatedDriver):
        def capacity(self, vms: tuple[Vm, ...], hosts: object) -> object:
            from forewarn.core.placement import Capacity, VmDemand  # noqa: PLC0415

            return Capacity(vms={vm.name: VmDemand(obstacle="its disk is local") for vm in vms})

    async def story(harness: NodeHarness) -> None:
        await harness.add_fleet()
        leader = await lead(harness, FullDriver(SimulatedSettings(), harness.clock, 1.0))
        await start(harness, COMMAND)
        fleet = harness.node.replica.fleet
        await play(harness, leader, lambda: fleet.rollouts["k"].failed == 1)
        await leader.resign()
        assert "web-0: its disk is local" in fleet.rollout_hosts["k/h1"].reason
        assert fleet.cordoned == {}

    run(story)


def test_gate_programs_come_from_their_directory_only(tmp_path: Path) -> None:
    """An operator names a program, and no path."""
    program = tmp_path / "gates" / "is-well"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho $1 is well; exit 0\n")
    program.chmod(0o755)
    checker = RolloutChecker(program.parent)

    def check(command: str) -> GateResult:
        gate = HealthGate(command=command)
        return checker.check(RolloutTerms(operation=RolloutOperation.REBOOT, all_hosts=True, gate=gate))

    assert check("is-well web") == GateResult(True, "is-well: web is well")
    program.write_text("#!/bin/sh\necho $1 has errors; exit 3\n")
    assert check("is-well web").passed is False
    assert "web has errors" in check("is-well web").detail
    assert check("../gates/is-well").passed is False
    assert "there is no program 'missing'" in check("missing").detail
    checker.programs = None
    assert "set gate_programs" in check("is-well").detail
