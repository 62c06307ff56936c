"""The switcher: a request is durable before the driver is called, and called for again until it has ended."""

import asyncio
import threading
from datetime import timedelta
from uuid import uuid4

import pytest

from forewarn.core.commands import ChangeFleet, DeallocateVm, StartVm
from forewarn.core.facts import VmSwitched
from forewarn.core.model import Vm
from forewarn.journal.memory import MemoryJournal
from forewarn.node.driver import Done, Failed, Impact, Outcome, Underway
from forewarn.node.switcher import NO_DRIVER, TOPIC, Switcher
from tests.node.rig import OPERATOR, Rig, run


class SwitchingDriver:
    """Answers what a test lays out for it, then Done; notes what it was asked."""

    moves_live = False

    def __init__(self, *answers: Outcome | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, bool]] = []
        self.called = threading.Event()

    def switch(self, vm: Vm, *, on: bool) -> Outcome:
        self.asked.append((vm.name, on))
        self.called.set()
        answer = self.answers.pop(0) if self.answers else Done()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def perform(self, impact: Impact) -> Outcome:
        return Done()

    def outcome_of(self, impact: Impact) -> Outcome:
        return Done()

    def close(self) -> None:
        pass


async def ask(rig: Rig, kind: type[StartVm | DeallocateVm], vm: str = "web-0") -> None:
    await rig.node.submit(kind(id=uuid4().hex, by=OPERATOR, vm=vm, can_switch=True))


def begin(rig: Rig, driver: SwitchingDriver) -> Switcher:
    switcher = Switcher(rig.node, driver)
    rig.node.feed.subscribe(switcher)
    switcher.load(rig.node.fleet)
    return switcher


def test_the_driver_is_called_and_its_word_recorded() -> None:
    """Off, then on; nothing is left over."""

    async def story(rig: Rig) -> None:
        await rig.add_fleet()
        driver = SwitchingDriver()
        switcher = begin(rig, driver)
        for kind, on in ((DeallocateVm, False), (StartVm, True)):
            ended = rig.next(VmSwitched)
            await ask(rig, kind)
            assert ((await ended).on, (await ended).failure) == (on, "")
        assert driver.asked == [("web-0", False), ("web-0", True)]
        assert not rig.node.fleet.power_requests
        await switcher.stop()

    run(story)


def test_a_request_that_a_crash_cut_off_is_called_for_again() -> None:
    """The fleet tells what was asked for and not ended."""
    journal = MemoryJournal()

    async def before(rig: Rig) -> None:
        await rig.add_fleet()
        await ask(rig, DeallocateVm)

    async def after(rig: Rig) -> None:
        driver = SwitchingDriver()
        ended = rig.next(VmSwitched)
        switcher = begin(rig, driver)
        assert (await ended).vm == "web-0"
        assert driver.asked == [("web-0", False)]
        await switcher.stop()

    run(before, journal)
    run(after, journal)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Failed("no room"), "no room"),
        (OSError("broken"), "tests.node.test_switcher.SwitchingDriver.switch raised OSError: broken"),
        ("on", "tests.node.test_switcher.SwitchingDriver.switch returned 'on', which is no outcome"),
    ],
)
def test_a_failure_is_recorded_and_holds_up_nothing(answer: Outcome | Exception, reason: str) -> None:
    """It is a warning until the same command is given again and succeeds."""

    async def story(rig: Rig) -> None:
        await rig.add_fleet()
        driver = SwitchingDriver(answer)
        switcher = begin(rig, driver)
        failed = rig.next(VmSwitched)
        await ask(rig, DeallocateVm)
        assert (await failed).failure.startswith(reason)
        warned = rig.node.warnings[TOPIC]
        assert warned.startswith(f"web-0 could not be stopped: {reason}")
        assert warned.endswith("try it again: forewarn vm deallocate web-0")
        assert await rig.operate("freeze", "web-1")

        ended = rig.next(VmSwitched)
        await ask(rig, DeallocateVm)
        assert not (await ended).failure
        assert TOPIC not in rig.node.warnings
        await switcher.stop()

    run(story)


def test_the_latest_request_wins() -> None:
    """One that replaces another is called for when the driver has answered; the old answer is void."""

    async def story(rig: Rig) -> None:
        await rig.add_fleet()
        driver = SwitchingDriver(Underway(rig.clock.now() + timedelta(minutes=1)))
        switcher = begin(rig, driver)
        await ask(rig, DeallocateVm)
        await asyncio.to_thread(driver.called.wait, 10)
        while not switcher.is_idle:  # noqa: ASYNC110 - it has no event of its own
            await asyncio.sleep(0)
        await ask(rig, StartVm)
        ended = rig.next(VmSwitched)
        rig.clock.advance(timedelta(minutes=1))
        assert (await ended).on
        assert driver.asked == [("web-0", False), ("web-0", True)]
        await switcher.stop()

    run(story)


def test_a_vm_that_is_removed_is_forgotten() -> None:
    """Nobody asks for it any more, and no warning names it."""

    async def story(rig: Rig) -> None:
        await rig.add_fleet()
        switcher = begin(rig, SwitchingDriver(Failed("no")))
        failed = rig.next(VmSwitched)
        await ask(rig, DeallocateVm)
        await failed
        await rig.node.submit(ChangeFleet(id=uuid4().hex, by=OPERATOR, removed_vms=("web-0",)))
        assert TOPIC not in rig.node.warnings
        await switcher.stop()

    run(story)


def test_a_driver_that_no_longer_switches_ends_the_request() -> None:
    """As after a change of the driver; the request does not wait for ever."""

    async def story(rig: Rig) -> None:
        await rig.add_fleet()
        driver = SwitchingDriver()
        driver.switches = False  # type: ignore[attr-defined]
        switcher = begin(rig, driver)
        failed = rig.next(VmSwitched)
        await ask(rig, DeallocateVm)
        assert (await failed).failure == NO_DRIVER
        assert driver.asked == []
        await switcher.stop()

    run(story)
