"""The switcher: a request is durable before the driver is called, and called for again until it has ended."""

import asyncio
import threading
from datetime import timedelta
from typing import cast
from uuid import uuid4

import pytest

from forewarn.core.commands import ChangeFleet, Command, DeallocateVm, ReportPowerSwitch, StartVm
from forewarn.core.errors import Refused
from forewarn.core.facts import AnyFact, VmSwitched
from forewarn.core.model import Vm
from forewarn.journal.memory import MemoryJournal
from forewarn.node.driver import (
    Driver,
    Impact,
    ImpactDone,
    ImpactFailed,
    ImpactOutcome,
    ImpactUnderway,
    can_switch,
)
from forewarn.node.driver_calls import DriverCalls
from forewarn.node.power import NO_DRIVER, TOPIC, PowerController
from tests.node.harness import OPERATOR, NodeHarness, run


class SwitchingDriver:
    """Answers what a test lays out for it, then Done; notes what it was asked."""

    moves_live = False

    def __init__(self, *answers: ImpactOutcome | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, bool]] = []
        self.called = threading.Event()

    def switch(self, vm: Vm, *, on: bool) -> ImpactOutcome:
        self.asked.append((vm.name, on))
        self.called.set()
        answer = self.answers.pop(0) if self.answers else ImpactDone()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def perform(self, impact: Impact) -> ImpactOutcome:
        return ImpactDone()

    def outcome_of(self, impact: Impact) -> ImpactOutcome:
        return ImpactDone()

    def close(self) -> None:
        pass


class SlowDriver(SwitchingDriver):
    """Returns when a test lets it."""

    def __init__(self) -> None:
        super().__init__()
        self.returns = threading.Event()

    def switch(self, vm: Vm, *, on: bool) -> ImpactOutcome:
        outcome = super().switch(vm, on=on)
        self.returns.wait(10)
        return outcome


async def ask(harness: NodeHarness, kind: type[StartVm | DeallocateVm], vm: str = "web-0") -> None:
    await harness.node.submit(kind(id=uuid4().hex, by=OPERATOR, vm=vm, can_switch=True))


def begin(harness: NodeHarness, driver: SwitchingDriver) -> PowerController:
    power = PowerController(harness.node, driver)
    harness.node.replica.subscribe(power)
    power.load(harness.node.replica.fleet)
    return power


def test_the_driver_is_called_and_its_word_recorded() -> None:
    """Off, then on; nothing is left over."""

    async def story(harness: NodeHarness) -> None:
        await harness.add_fleet()
        driver = SwitchingDriver()
        power = begin(harness, driver)
        for kind, on in ((DeallocateVm, False), (StartVm, True)):
            ended = harness.next(VmSwitched)
            await ask(harness, kind)
            assert ((await ended).on, (await ended).failure) == (on, "")
        assert driver.asked == [("web-0", False), ("web-0", True)]
        assert not harness.node.replica.fleet.power_requests
        await power.stop()

    run(story)


def test_a_request_that_a_crash_cut_off_is_called_for_again() -> None:
    """The fleet tells what was asked for and not ended."""
    journal = MemoryJournal()

    async def before(harness: NodeHarness) -> None:
        await harness.add_fleet()
        await ask(harness, DeallocateVm)

    async def after(harness: NodeHarness) -> None:
        driver = SwitchingDriver()
        ended = harness.next(VmSwitched)
        power = begin(harness, driver)
        assert (await ended).vm == "web-0"
        assert driver.asked == [("web-0", False)]
        await power.stop()

    run(before, journal)
    run(after, journal)


def test_a_driver_is_not_called_again_by_a_stop() -> None:
    """A call that is under way goes on in its thread; the next start asks again."""

    async def story(harness: NodeHarness) -> None:
        await harness.add_fleet()
        driver = SlowDriver()
        power = begin(harness, driver)
        await ask(harness, DeallocateVm)
        await asyncio.to_thread(driver.called.wait, 10)
        await power.stop()
        assert power.is_idle
        driver.returns.set()
        assert driver.asked == [("web-0", False)]

    run(story)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (ImpactFailed("no room"), "no room"),
        (OSError("broken"), "tests.node.test_power.SwitchingDriver.switch raised OSError: broken"),
        ("on", "tests.node.test_power.SwitchingDriver.switch returned 'on', which is not an outcome"),
    ],
)
def test_a_failure_is_recorded_and_holds_up_nothing(answer: ImpactOutcome | Exception, reason: str) -> None:
    """It is a warning until the same command is given again and succeeds."""

    async def story(harness: NodeHarness) -> None:
        await harness.add_fleet()
        driver = SwitchingDriver(answer)
        power = begin(harness, driver)
        failed = harness.next(VmSwitched)
        await ask(harness, DeallocateVm)
        assert (await failed).failure.startswith(reason)
        warned = harness.node.warnings[TOPIC]
        assert warned.startswith(f"web-0 could not be stopped: {reason}")
        assert warned.endswith("try it again: forewarn vm deallocate web-0")
        assert await harness.operate("freeze", "web-1")
        while not power.is_idle:  # noqa: ASYNC110 - it has no event of its own
            await asyncio.sleep(0)
        assert driver.asked == [("web-0", False)]

        ended = harness.next(VmSwitched)
        await ask(harness, DeallocateVm)
        assert not (await ended).failure
        assert TOPIC not in harness.node.warnings
        await power.stop()

    run(story)


def test_an_outcome_that_is_refused_is_reported_again_after_a_pause(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The driver is not called without a pause, and the refusal is logged once."""

    async def story(harness: NodeHarness) -> None:
        await harness.add_fleet()
        driver = SwitchingDriver()
        power = begin(harness, driver)
        submit = harness.node.submit

        async def refuse(command: Command) -> tuple[AnyFact, ...]:
            if isinstance(command, ReportPowerSwitch):
                raise Refused("not now")
            return await submit(command)

        monkeypatch.setattr(harness.node, "submit", refuse)
        await ask(harness, DeallocateVm)
        for calls in (1, 2, 3):
            while len(driver.asked) < calls or not power.is_idle:  # noqa: ASYNC110 - it has no event of its own
                await asyncio.sleep(0)
            assert len(driver.asked) == calls
            harness.clock.advance(timedelta(seconds=2 if calls == 3 else 1))
        monkeypatch.undo()
        await harness.next(VmSwitched)
        await power.stop()

    run(story)
    logged = [each.message for each in caplog.records if each.name == "forewarn.node.power"]
    assert logged == ["the outcome of a power request cannot be recorded"]


def test_a_request_that_fails_unexpectedly_is_tried_again_after_a_pause(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A mistake of the service is logged once, and does not keep the processor busy."""

    async def story(harness: NodeHarness) -> None:
        await harness.add_fleet()
        calls = DriverCalls(driver := SwitchingDriver(), 1)
        power = PowerController(harness.node, driver, calls)
        harness.node.replica.subscribe(power)
        times = 0

        async def break_down(*_: object, **__: object) -> ImpactOutcome:
            nonlocal times
            times += 1
            raise ZeroDivisionError("a bug")

        monkeypatch.setattr(calls, "switch", break_down)
        ended = harness.next(VmSwitched)
        await ask(harness, DeallocateVm)
        for tried, pause in ((1, 1), (2, 1), (3, 2)):
            while times < tried or not power.is_idle:  # noqa: ASYNC110 - it has no event of its own
                await asyncio.sleep(0)
            harness.clock.advance(timedelta(seconds=pause - 0.01))
            await asyncio.sleep(0)
            assert times == tried, "the pause is not over"
            if tried == 3:
                monkeypatch.undo()
            harness.clock.advance(timedelta(seconds=0.02))
        assert not (await ended).failure
        await power.stop()

    run(story)
    logged = [each.message for each in caplog.records if each.name == "forewarn.node.power"]
    assert logged == ["a power request failed, and is tried again"]


def test_the_latest_request_wins() -> None:
    """One that replaces another is called for when the driver has answered; the old answer is void."""

    async def story(harness: NodeHarness) -> None:
        await harness.add_fleet()
        driver = SwitchingDriver(ImpactUnderway(harness.clock.now() + timedelta(minutes=1)))
        power = begin(harness, driver)
        await ask(harness, DeallocateVm)
        await asyncio.to_thread(driver.called.wait, 10)
        while not power.is_idle:  # noqa: ASYNC110 - it has no event of its own
            await asyncio.sleep(0)
        await ask(harness, StartVm)
        ended = harness.next(VmSwitched)
        harness.clock.advance(timedelta(minutes=1))
        assert (await ended).on
        assert driver.asked == [("web-0", False), ("web-0", True)]
        await power.stop()

    run(story)


def test_a_vm_that_is_removed_is_forgotten() -> None:
    """Nobody asks for it any more, and no warning names it."""

    async def story(harness: NodeHarness) -> None:
        await harness.add_fleet()
        power = begin(harness, SwitchingDriver(ImpactFailed("no")))
        failed = harness.next(VmSwitched)
        await ask(harness, DeallocateVm)
        await failed
        await harness.node.submit(ChangeFleet(id=uuid4().hex, by=OPERATOR, removed_vms=("web-0",)))
        assert TOPIC not in harness.node.warnings
        await power.stop()

    run(story)


def test_a_driver_that_no_longer_switches_ends_the_request() -> None:
    """As after a change of the driver; the request does not wait for ever."""

    async def story(harness: NodeHarness) -> None:
        await harness.add_fleet()
        driver = SwitchingDriver()
        driver.switches = False  # type: ignore[attr-defined]
        power = begin(harness, driver)
        failed = harness.next(VmSwitched)
        await ask(harness, DeallocateVm)
        assert (await failed).failure == NO_DRIVER
        assert driver.asked == []
        await power.stop()

    run(story)


def test_a_driver_without_the_call_does_not_switch() -> None:
    """Whatever it says of itself."""

    class Plain:
        switches = True

    assert not can_switch(cast("Driver", Plain()))
