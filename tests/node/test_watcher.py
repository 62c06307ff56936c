"""The watcher: what a driver sees is recorded, unless an impact of our own explains it."""

import asyncio
import sys
import threading
from collections.abc import Callable
from datetime import timedelta

import pytest
from msgspec.structs import replace

from forewarn.core.facts import Completed, Observed, StartedAtOnce
from forewarn.core.model import InstanceFacts, Seen, Sighting
from forewarn.node.driver import Done, Impact, Outcome
from forewarn.node.performer import Performer
from forewarn.node.repetition import MOST
from forewarn.node.watcher import Watcher
from tests.node.rig import Rig, run
from tests.node.test_node import FailingJournal


class WatchingDriver:
    """Reports what a test lets it see; its impacts are seen as reboots just before they are over."""

    moves_live = False

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self._report: Callable[[Sighting], None] = lambda _: None

    def watch(self, report: Callable[[Sighting], None]) -> None:
        self._report = report

    def see(self, vm: str, what: Seen, detail: str = "") -> None:
        self._report(Sighting(vm, what, self._rig.clock.now(), detail))

    def perform(self, impact: Impact) -> Outcome:
        for vm in impact.vms:
            self.see(vm.name, Seen.REBOOTED)
        return Done()

    def outcome_of(self, impact: Impact) -> Outcome:
        return Done()

    def close(self) -> None:
        pass


def begin(rig: Rig) -> tuple[WatchingDriver, Watcher]:
    driver = WatchingDriver(rig)
    watcher = Watcher(rig.node, driver)
    watcher.start()
    return driver, watcher


def test_a_sighting_becomes_a_fact() -> None:
    """What happened to a machine without our doing stands in the journal, by its VM."""

    async def story(rig: Rig) -> None:
        await rig.add_fleet()
        driver, watcher = begin(rig)
        observed = rig.next(Observed)
        await asyncio.to_thread(driver.see, "web-0", Seen.STOPPED, "x" * 1000)

        assert (await observed).sighting == Sighting("web-0", Seen.STOPPED, rig.clock.now(), "x" * 500)
        assert [type(fact) for entry in await rig.node.history("vm:web-0") for fact in entry.facts][-1] is Observed
        await watcher.stop()

    run(story)


def test_a_sighting_that_the_journal_cannot_hold_is_left_out() -> None:
    """The next one is recorded."""

    async def story(rig: Rig) -> None:
        await rig.add_fleet()
        driver, watcher = begin(rig)
        observed = rig.next(Observed)
        driver.see("web-0", Seen.STOPPED, "\ud800")
        driver.see("web-0", Seen.STOPPED, "by hand")

        assert (await observed).sighting.detail == "by hand"
        await watcher.stop()

    run(story)


def test_what_happens_again_and_again_is_not_recorded_for_ever() -> None:
    """A guest that reboots in a loop must not fill the journal."""

    async def story(rig: Rig) -> None:
        await rig.add_fleet()
        driver, watcher = begin(rig)
        for _ in range(50):
            driver.see("web-0", Seen.REBOOTED)
        await asyncio.sleep(0)
        await asyncio.gather(*watcher._tasks)

        facts = [fact for entry in await rig.node.history("vm:web-0") for fact in entry.facts]
        assert sum(isinstance(fact, Observed) for fact in facts) == MOST
        await watcher.stop()

    run(story)


def test_a_crash_is_a_hardware_failure_of_that_vm() -> None:
    """Its VM has encountered a failure: an event born Started, for it alone, which the driver carries out."""

    async def story(rig: Rig) -> None:
        await rig.add_fleet()
        driver, watcher = begin(rig)
        performer = Performer(rig.node, driver)
        rig.node.feed.subscribe(performer)
        born, completed = rig.next(StartedAtOnce), rig.next(Completed)
        await asyncio.to_thread(driver.see, "web-0", Seen.CRASHED)

        event = (await born).event
        assert (event.type, event.resources, event.operation) == ("redeploy", ("web-0",), "vm fail")
        assert event.description == "Virtual machine has encountered a failure."
        assert (await completed).event == event.id
        await watcher.stop()
        await performer.stop()

    run(story)


def test_what_an_impact_makes_visible_is_not_recorded() -> None:
    """A reboot that is seen during our own reboot is that reboot."""

    async def story(rig: Rig) -> None:
        await rig.add_fleet()
        driver, watcher = begin(rig)
        performer = Performer(rig.node, driver)
        rig.node.feed.subscribe(performer)
        for _ in range(20):
            completed = rig.next(Completed)
            await rig.approve(await rig.operate("restart", "web-0"))
            await completed
        await watcher.stop()
        await performer.stop()

        assert not [fact for fact in rig.facts if isinstance(fact, Observed)]

    run(story)


def test_a_sighting_is_kept_until_the_journal_takes_it() -> None:
    """A journal that fails for a while loses nothing that was seen."""
    journal = FailingJournal()

    async def story(rig: Rig) -> None:
        await rig.add_fleet()
        driver, watcher = begin(rig)
        observed = rig.next(Observed)
        journal.fails = "before"
        driver.see("web-0", Seen.STOPPED)
        while rig.clock.next_call() is None:
            await rig.node.history("event:none")
        journal.fails = ""
        rig.clock.advance(timedelta(seconds=1))
        await observed

        assert not watcher.is_idle
        await watcher.stop()

    run(story, journal)


def test_a_driver_that_ends_the_process_where_it_should_watch_ends_nothing() -> None:
    """Its events are carried out all the same, and an operator is told."""

    async def story(rig: Rig) -> None:
        driver = WatchingDriver(rig)
        driver.watch = sys.exit  # type: ignore[assignment]
        Watcher(rig.node, driver).start()

        assert "cannot watch" in rig.node.warnings["driver"]

    run(story)


def test_a_driver_that_watches_within_the_call_keeps_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The service goes on, and hears of what it reports."""
    monkeypatch.setattr("forewarn.node.watcher.EXPECTED_CALL", 0.01)
    look, end = threading.Event(), threading.Event()

    async def story(rig: Rig) -> None:
        await rig.add_fleet()
        driver = WatchingDriver(rig)

        def watch(report: Callable[[Sighting], None]) -> None:
            look.wait()
            report(Sighting("web-0", Seen.STOPPED, rig.clock.now()))
            end.wait()

        driver.watch = watch  # type: ignore[method-assign]
        watcher = Watcher(rig.node, driver)
        watcher.start()
        observed = rig.next(Observed)
        look.set()

        assert (await observed).sighting.vm == "web-0"
        await watcher.stop()

    run(story)
    end.set()


def test_nothing_is_heard_after_the_end() -> None:
    """A driver that goes on talking disturbs nobody."""

    async def story(rig: Rig) -> None:
        await rig.add_fleet()
        driver, watcher = begin(rig)
        await watcher.stop()
        driver.see("web-0", Seen.STOPPED)
        await rig.node.history("event:none")

        assert watcher.is_idle
        assert not [fact for fact in rig.facts if isinstance(fact, Observed)]

    run(story)


def test_a_machine_is_known_by_its_uuid() -> None:
    """Whatever its host calls it; one of the VM's name with another UUID is another machine."""

    async def story(rig: Rig) -> None:
        await rig.add_fleet()
        vms = rig.node.fleet.vms
        vms["web-0"] = replace(vms["web-0"], instance=InstanceFacts(vm_id="u-0"))
        driver, watcher = begin(rig)
        observed = rig.next(Observed)
        driver._report(Sighting("web-0", Seen.STOPPED, rig.clock.now(), vm_id="u-9"))
        driver._report(Sighting("domain-7", Seen.REBOOTED, rig.clock.now(), vm_id="u-0"))

        assert (await observed).sighting == Sighting("web-0", Seen.REBOOTED, rig.clock.now())
        await watcher.stop()

    run(story)


def test_where_a_machine_is_already_is_no_news() -> None:
    """The driver tells it at each start; only a move is recorded."""

    async def story(rig: Rig) -> None:
        await rig.add_fleet()
        driver, watcher = begin(rig)
        observed = rig.next(Observed)
        for host in (rig.node.fleet.vms["web-0"].standing_on, "elsewhere"):
            driver._report(Sighting("web-0", Seen.MOVED, rig.clock.now(), host=host))

        assert (await observed).sighting.host == "elsewhere"
        await watcher.stop()

    run(story)
