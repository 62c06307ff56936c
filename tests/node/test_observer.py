"""The watcher: what a driver sees is recorded, unless an impact of our own explains it."""

import asyncio
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from forewarn.core.facts import Completed, ObservationRecorded, StartedAtOnce
from forewarn.core.model import InstanceFacts, Observation, ObservationKind
from forewarn.node.driver import Impact, ImpactDone, ImpactOutcome
from forewarn.node.observer import LIMIT, WINDOW, ObservationThrottle, Observer
from forewarn.node.performer import Performer
from tests.node.failing_journals import FailingJournal
from tests.node.harness import NodeHarness, run

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class WatchingDriver:
    """Reports what a test lets it see; its impacts are seen as reboots just before they are over."""

    moves_live = False

    def __init__(self, harness: NodeHarness) -> None:
        self._harness = harness
        self._report: Callable[[Observation], None] = lambda _: None

    def watch(self, report: Callable[[Observation], None]) -> None:
        self._report = report

    def see(self, vm: str, what: ObservationKind, detail: str = "") -> None:
        self._report(Observation(vm, what, self._harness.clock.now(), detail))

    def perform(self, impact: Impact) -> ImpactOutcome:
        for vm in impact.vms:
            self.see(vm.name, ObservationKind.REBOOTED)
        return ImpactDone()

    def outcome_of(self, impact: Impact) -> ImpactOutcome:
        return ImpactDone()

    def close(self) -> None:
        pass


async def begin(harness: NodeHarness) -> tuple[WatchingDriver, Observer]:
    driver = WatchingDriver(harness)
    observer = Observer(harness.node, driver)
    await observer.start()
    return driver, observer


def test_an_observation_becomes_a_fact() -> None:
    """What happened to a machine without our doing stands in the journal, by its VM."""

    async def story(harness: NodeHarness) -> None:
        await harness.add_fleet()
        driver, observer = await begin(harness)
        observed = harness.next(ObservationRecorded)
        await asyncio.to_thread(driver.see, "web-0", ObservationKind.STOPPED, "x" * 1000)

        assert (await observed).observation == Observation(
            "web-0", ObservationKind.STOPPED, harness.clock.now(), "x" * 500
        )
        assert [type(fact) for entry in await harness.node.replica.history("vm:web-0") for fact in entry.facts][
            -1
        ] is ObservationRecorded
        await observer.stop()

    run(story)


def test_an_observation_that_the_journal_cannot_hold_is_left_out() -> None:
    """The next one is recorded."""

    async def story(harness: NodeHarness) -> None:
        await harness.add_fleet()
        driver, observer = await begin(harness)
        observed = harness.next(ObservationRecorded)
        driver.see("web-0", ObservationKind.STOPPED, "\ud800")
        driver.see("web-0", ObservationKind.STOPPED, "by hand")

        assert (await observed).observation.detail == "by hand"
        await observer.stop()

    run(story)


def test_what_happens_again_and_again_is_not_recorded_for_ever() -> None:
    """A guest that reboots in a loop must not fill the journal."""

    async def story(harness: NodeHarness) -> None:
        await harness.add_fleet()
        driver, observer = await begin(harness)
        for _ in range(50):
            driver.see("web-0", ObservationKind.REBOOTED)
        await asyncio.sleep(0)
        await asyncio.gather(*observer._tasks)

        facts = [fact for entry in await harness.node.replica.history("vm:web-0") for fact in entry.facts]
        assert sum(isinstance(fact, ObservationRecorded) for fact in facts) == LIMIT
        await observer.stop()

    run(story)


def test_a_crash_is_a_hardware_failure_of_that_vm() -> None:
    """Its VM has encountered a failure: an event born Started, for it alone, which the driver carries out."""

    async def story(harness: NodeHarness) -> None:
        await harness.add_fleet()
        driver, observer = await begin(harness)
        performer = Performer(harness.node, driver)
        harness.node.replica.subscribe(performer)
        born, completed = harness.next(StartedAtOnce), harness.next(Completed)
        await asyncio.to_thread(driver.see, "web-0", ObservationKind.CRASHED)

        event = (await born).event
        assert (event.type, event.resources, event.operation) == ("redeploy", ("web-0",), "vm fail")
        assert event.description == "Virtual machine has encountered a failure."
        assert (await completed).event == event.id
        await observer.stop()
        await performer.stop()

    run(story)


def test_what_an_impact_makes_visible_is_not_recorded() -> None:
    """A reboot that is seen during our own reboot is that reboot."""

    async def story(harness: NodeHarness) -> None:
        await harness.add_fleet()
        driver, observer = await begin(harness)
        performer = Performer(harness.node, driver)
        harness.node.replica.subscribe(performer)
        for _ in range(20):
            completed = harness.next(Completed)
            await harness.approve(await harness.operate("restart", "web-0"))
            await completed
        await observer.stop()
        await performer.stop()

        assert not [fact for fact in harness.facts if isinstance(fact, ObservationRecorded)]

    run(story)


def test_an_observation_is_kept_until_the_journal_takes_it() -> None:
    """A journal that fails for a while loses nothing that was seen."""
    journal = FailingJournal()

    async def story(harness: NodeHarness) -> None:
        await harness.add_fleet()
        driver, observer = await begin(harness)
        observed = harness.next(ObservationRecorded)
        journal.fails = "before"
        driver.see("web-0", ObservationKind.STOPPED)
        while harness.clock.next_call() is None:
            await harness.node.replica.history("event:none")
        journal.fails = ""
        harness.clock.advance(timedelta(seconds=1))
        await observed

        assert not observer.is_idle
        await observer.stop()

    run(story, journal)


def test_a_driver_that_ends_the_process_where_it_should_watch_ends_nothing() -> None:
    """Its events are carried out all the same, and an operator is told."""

    async def story(harness: NodeHarness) -> None:
        driver = WatchingDriver(harness)
        driver.watch = sys.exit  # type: ignore[assignment]
        await Observer(harness.node, driver).start()

        assert "cannot watch" in harness.node.warnings["driver"]

    run(story)


def test_a_driver_that_watches_within_the_call_keeps_nobody_waiting() -> None:
    """The service goes on, and hears of what it reports."""
    look, end = threading.Event(), threading.Event()

    async def story(harness: NodeHarness) -> None:
        await harness.add_fleet()
        driver = WatchingDriver(harness)

        def watch(report: Callable[[Observation], None]) -> None:
            look.wait()
            report(Observation("web-0", ObservationKind.STOPPED, harness.clock.now()))
            end.wait()

        driver.watch = watch  # type: ignore[method-assign]
        observer = Observer(harness.node, driver, expected_call=0.01)
        await observer.start()
        observed = harness.next(ObservationRecorded)
        look.set()

        assert (await observed).observation.vm == "web-0"
        await observer.stop()

    run(story)
    end.set()


def test_nothing_is_heard_after_the_end() -> None:
    """A driver that goes on talking disturbs nobody."""

    async def story(harness: NodeHarness) -> None:
        await harness.add_fleet()
        driver, observer = await begin(harness)
        await observer.stop()
        driver.see("web-0", ObservationKind.STOPPED)
        await harness.node.replica.history("event:none")

        assert observer.is_idle
        assert not [fact for fact in harness.facts if isinstance(fact, ObservationRecorded)]

    run(story)


def test_a_machine_is_known_by_its_uuid() -> None:
    """Whatever its host calls it; one of the VM's name with another UUID is another machine."""

    async def story(harness: NodeHarness) -> None:
        await harness.add_fleet()
        vms = harness.node.replica.fleet.vms
        vms["web-0"] = replace(vms["web-0"], instance=InstanceFacts(vm_id="u-0"))
        driver, observer = await begin(harness)
        observed = harness.next(ObservationRecorded)
        driver._report(Observation("web-0", ObservationKind.STOPPED, harness.clock.now(), vm_id="u-9"))
        driver._report(Observation("domain-7", ObservationKind.REBOOTED, harness.clock.now(), vm_id="u-0"))

        assert (await observed).observation == Observation("web-0", ObservationKind.REBOOTED, harness.clock.now())
        await observer.stop()

    run(story)


def test_where_a_machine_is_already_is_no_news() -> None:
    """The driver tells it at each start; only a move is recorded."""

    async def story(harness: NodeHarness) -> None:
        await harness.add_fleet()
        driver, observer = await begin(harness)
        observed = harness.next(ObservationRecorded)
        for host in (harness.node.replica.fleet.vms["web-0"].standing_on, "elsewhere"):
            driver._report(Observation("web-0", ObservationKind.MOVED, harness.clock.now(), host=host))

        assert (await observed).observation.host == "elsewhere"
        await observer.stop()

    run(story)


def seen(
    vm: str = "web-0", what: ObservationKind = ObservationKind.REBOOTED, at: datetime = NOW, detail: str = ""
) -> Observation:
    return Observation(vm, what, at, detail)


def test_a_guest_that_reboots_in_a_loop_is_recorded_some_times() -> None:
    """The last record says that it goes on; of another VM, and after a while, all is recorded again."""
    repetition = ObservationThrottle()
    admitted = [repetition.admit(seen(detail="by the guest itself")) for _ in range(1000)]

    result = [each.detail for each in admitted if each]
    assert result[:-1] == ["by the guest itself"] * (LIMIT - 1)
    assert result[-1] == "by the guest itself; it goes on like this, and is recorded again after a minute"
    assert repetition.admit(seen("web-1")) == seen("web-1")
    assert repetition.admit(seen(at=NOW + WINDOW)) == seen(at=NOW + WINDOW)


def test_what_it_is_called_makes_no_difference() -> None:
    """A guest may reboot and stop in turns."""
    repetition = ObservationThrottle()
    both = (ObservationKind.REBOOTED, ObservationKind.STOPPED)

    assert sum(repetition.admit(seen(what=both[number % 2])) is not None for number in range(100)) == LIMIT


def test_a_crash_is_always_recorded() -> None:
    """Somebody must bring the machine back."""
    repetition = ObservationThrottle()

    assert all(repetition.admit(seen(what=ObservationKind.CRASHED)) for _ in range(10 * LIMIT))


def test_a_clock_that_is_set_back_shuts_nobody_out() -> None:
    """The while begins anew."""
    repetition = ObservationThrottle()
    for _ in range(2 * LIMIT):
        repetition.admit(seen())

    assert repetition.admit(seen(at=NOW - timedelta(hours=1))) is not None


def test_machines_that_are_gone_are_forgotten() -> None:
    """However many there were."""
    repetition = ObservationThrottle()
    for number in range(10_000):
        repetition.admit(seen(f"vm-{number}"))
    repetition.admit(seen("another", at=NOW + WINDOW))

    assert len(repetition._recent) == 1
