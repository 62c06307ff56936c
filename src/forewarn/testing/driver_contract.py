"""Contract suite for drivers: subclass ``DriverContract`` and define the fixture ``trial``.

    class MyTrial(DriverTrial):
        def make(self, **more): return MyDriver.from_settings({"url": ..., **more}, SystemClock(), 1.0)
        def times_done(self, event_id): return len(machine.log_of(event_id))

    class TestMyDriver(DriverContract):
        @pytest.fixture
        def trial(self): return MyTrial()

A driver that fences terms passes ``FencingDriverContract`` with a ``FencingDriverTrial``.

Needs pytest, and nothing of Forewarn's service.
"""

import multiprocessing.process
import os
import signal
import threading
import warnings
from abc import ABC, abstractmethod
from concurrent.futures import Future
from datetime import UTC, datetime
from uuid import uuid4

import msgspec
import pytest
from msgspec.structs import replace

from forewarn.core.errors import BadInput
from forewarn.core.model import Event, EventSource, EventStatus, EventType, Host, Operation, Vm
from forewarn.core.placement import Capacity
from forewarn.node.driver import (
    Driver,
    HostCommand,
    HostCommandEnded,
    HostCommandOutcome,
    Impact,
    ImpactDone,
    ImpactFailed,
    ImpactNotBegun,
    ImpactOutcome,
    ImpactUnderway,
    ImpactUnknown,
    SupportsCapacity,
    SupportsHostCommands,
    SupportsPower,
    can_run_commands,
    can_switch,
    fences_terms,
)
from forewarn.node.driver_calls import EXPECTED_CALL, check_driver, check_outcome, class_path_of, describe_error
from forewarn.testing.calls import begin, in_time


class DriverTrial(ABC):
    """A driver and its machines, as the tests need them."""

    longest_call = EXPECTED_CALL
    """Seconds within which every call must return."""

    @abstractmethod
    def make(self, **more: object) -> Driver:
        """Make a fresh driver for the same machines, from the same settings and ``more``."""

    @abstractmethod
    def times_done(self, event_id: str) -> int:
        """Count how often the machines have had the impact of an event."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def wait_until(self, at: datetime) -> None:
        """Return when it is ``at``; one whose driver has a manual clock moves that."""
        threading.Event().wait(max(0.0, (at - self.now()).total_seconds()))

    def crash_during(self, impact: Impact) -> None:
        """Begin an impact and lose the driver half-way. Kill a process here if yours can be killed."""
        perform(self, self.make(), impact)

    def times_run(self, command_id: str) -> int:
        """Count how often a command was run on a host; a trial of a driver that runs commands defines it."""
        pytest.fail(f"{type(self).__name__} does not define times_run, and its driver runs commands on hosts")

    def host_command(self) -> HostCommand:
        """Return a new command that ends by itself on its host."""
        return HostCommand(uuid4().hex, Host("h1"), "update", 60, self.now())

    def impact(self) -> Impact:
        """Return a new impact that the driver can do: a reboot of one VM."""
        now = self.now()
        event = Event(
            id=str(uuid4()),
            type=EventType.REBOOT,
            source=EventSource.PLATFORM,
            group="web",
            resources=("web-0",),
            status=EventStatus.STARTED,
            not_before=now,
            announced_at=now,
            operation=Operation.HOST_REBOOT,
            host="h1",
            started_at=now,
            attempted_at=now,
            attempts=1,
        )
        return Impact(event, (Vm("web-0", "web", host="h1"),), now)


class DriverContract:
    """The rules, one test each. Subclass it and define the fixture ``trial``."""

    @pytest.fixture
    def trial(self) -> DriverTrial:
        pytest.fail(f"{type(self).__name__} defines no fixture 'trial' that returns a DriverTrial")

    def test_perform_does_the_impact(self, trial: DriverTrial) -> None:
        """What is performed ends Done, and the machines have felt it once."""
        driver, impact = trial.make(), trial.impact()

        assert isinstance(ended(trial, driver, impact, perform(trial, driver, impact)), ImpactDone)
        assert trial.times_done(impact.event.id) == 1
        driver.close()

    def test_perform_is_idempotent_by_event_id(self, trial: DriverTrial) -> None:
        """Performing an event again, under way or ended, does nothing a second time."""
        driver, impact = trial.make(), trial.impact()
        perform(trial, driver, impact)
        first = ended(trial, driver, impact, perform(trial, driver, impact))

        assert perform(trial, driver, impact) == first
        assert isinstance(first, ImpactDone)
        assert trial.times_done(impact.event.id) == 1
        driver.close()

    def test_two_callers_at_once_do_it_once(self, trial: DriverTrial) -> None:
        """Two threads that perform the same event do it once between them."""
        driver, impact = trial.make(), trial.impact()
        other = begin(lambda: driver.perform(impact))
        outcome = perform(trial, driver, impact)
        _answer(trial, driver, "perform", other)

        assert isinstance(ended(trial, driver, impact, outcome), ImpactDone)
        assert trial.times_done(impact.event.id) == 1
        driver.close()

    def test_events_do_not_touch_each_other(self, trial: DriverTrial) -> None:
        """What came of one event says nothing of another."""
        driver, impact = trial.make(), trial.impact()
        ended(trial, driver, impact, perform(trial, driver, impact))
        other = trial.impact()

        assert trial.times_done(other.event.id) == 0
        assert isinstance(ended(trial, driver, other, perform(trial, driver, other)), ImpactDone)
        assert trial.times_done(other.event.id) == 1
        driver.close()

    def test_nothing_is_claimed_before_perform(self, trial: DriverTrial) -> None:
        """Before it is performed, an impact has no end."""
        driver = trial.make()

        assert isinstance(outcome_of(trial, driver, trial.impact()), ImpactNotBegun | ImpactUnderway | ImpactUnknown)
        driver.close()

    def test_outcome_of_never_acts(self, trial: DriverTrial) -> None:
        """Asking for the outcome, however often, leaves the machines alone."""
        driver, impact = trial.make(), trial.impact()
        for _ in range(3):
            outcome_of(trial, driver, impact)

        assert trial.times_done(impact.event.id) == 0
        driver.close()

    def test_not_begun_may_be_performed(self, trial: DriverTrial) -> None:
        """What is said not to have begun can be performed after the question."""
        driver, impact = trial.make(), trial.impact()
        if isinstance(outcome_of(trial, driver, impact), ImpactNotBegun):
            assert isinstance(ended(trial, driver, impact, perform(trial, driver, impact)), ImpactDone)
        assert trial.times_done(impact.event.id) <= 1
        driver.close()

    def test_outcome_is_remembered(self, trial: DriverTrial) -> None:
        """An impact that is Done stays Done, for this driver and for a fresh one."""
        driver, impact = trial.make(), trial.impact()
        done = ended(trial, driver, impact, perform(trial, driver, impact))
        asked = outcome_of(trial, driver, impact)
        driver.close()
        fresh = trial.make()
        asked_of_fresh = outcome_of(trial, fresh, impact)

        assert asked == done
        assert asked_of_fresh == done or isinstance(asked_of_fresh, ImpactUnknown)
        fresh.close()

    def test_a_fresh_driver_repeats_nothing_after_a_crash(self, trial: DriverTrial) -> None:
        """After a crash half-way a fresh driver never takes the impact for not begun, nor does it twice."""
        impact = trial.impact()
        trial.crash_during(impact)
        fresh = trial.make()
        outcome = ended(trial, fresh, impact, outcome_of(trial, fresh, impact))

        assert isinstance(outcome, ImpactDone | ImpactFailed | ImpactUnknown)
        assert trial.times_done(impact.event.id) <= 1
        perform(trial, fresh, impact)
        assert trial.times_done(impact.event.id) <= 1
        fresh.close()

    def test_an_unknown_type_is_refused(self, trial: DriverTrial) -> None:
        """Nothing is done to a machine for an event of a type that the driver has no impact for."""
        driver, impact = trial.make(), trial.impact()
        impact = replace(impact, event=replace(impact.event, type=unknown_type()))

        assert isinstance(ended(trial, driver, impact, perform(trial, driver, impact)), ImpactFailed)
        assert trial.times_done(impact.event.id) == 0
        driver.close()

    def test_it_has_all_that_a_driver_has(self, trial: DriverTrial) -> None:
        """``perform``, ``outcome_of``, ``close`` and ``moves_live``; the service refuses it otherwise."""
        driver = trial.make()

        assert check_driver("yours", driver) is driver
        driver.close()

    def test_it_says_whether_it_moves_live(self, trial: DriverTrial) -> None:
        """``moves_live`` is a plain yes or no, for the rules read it."""
        driver = trial.make()

        assert driver.moves_live in (True, False)
        driver.close()

    def test_a_vm_that_runs_is_left_alone_when_it_is_to_run(self, trial: DriverTrial) -> None:
        """A driver that starts and stops VMs says Done, however often it is asked."""
        driver, (vm, *_) = trial.make(), trial.impact().vms
        if isinstance(driver, SupportsPower) and can_switch(driver):
            for _ in range(2):
                assert isinstance(_switched(trial, driver, vm), ImpactDone)
        driver.close()

    def test_a_command_on_a_host_is_run_once(self, trial: DriverTrial) -> None:
        """A driver that runs commands on hosts begins none when it is asked, and runs none again."""
        driver, command = trial.make(), trial.host_command()
        if isinstance(driver, SupportsHostCommands) and can_run_commands(driver):
            assert isinstance(driver.outcome_on_host(command), ImpactNotBegun | ImpactUnderway | ImpactUnknown)
            assert trial.times_run(command.id) == 0
            driver.run_on_host(command)
            end = _run_on_host(trial, driver, command)
            assert isinstance(end, HostCommandEnded)
            assert driver.outcome_on_host(command) == end
            assert trial.times_run(command.id) == 1
        driver.close()

    def test_capacity_is_told_for_what_is_asked(self, trial: DriverTrial) -> None:
        """A driver that tells capacity names each VM and host that it was asked for, or leaves it unlimited."""
        driver, (vm, *_) = trial.make(), trial.impact().vms
        if isinstance(driver, SupportsCapacity):
            capacity = msgspec.convert(msgspec.to_builtins(driver.capacity((vm,), (Host("h1"),))), Capacity)
            assert set(capacity.vms) <= {vm.name}
            assert {*capacity.hosts, *capacity.unusable} <= {"h1"}
        driver.close()

    def test_unknown_settings_are_refused(self, trial: DriverTrial) -> None:
        """A setting that does not exist is refused by its name."""
        with pytest.raises(BadInput, match="no_such_setting"):
            trial.make(no_such_setting=1)

    def test_close_may_be_repeated(self, trial: DriverTrial) -> None:
        """Closing twice is no error."""
        driver = trial.make()
        driver.close()
        driver.close()


class FencingDriverTrial(DriverTrial):
    """A driver that fences terms, and its machines."""

    @abstractmethod
    def make_elsewhere(self) -> Driver:
        """Make a driver for the same machines as another node does: with a ``directory`` of its own."""


class FencingDriverContract(DriverContract):
    """The rules for a driver that fences terms. Subclass it and define the fixture ``trial``."""

    @pytest.fixture
    def trial(self) -> FencingDriverTrial:
        pytest.fail(f"{type(self).__name__} defines no fixture 'trial' that returns a FencingDriverTrial")

    def test_it_says_that_it_fences(self, trial: FencingDriverTrial) -> None:
        """A driver without a true ``fences_terms`` is not called for what another leader attempted."""
        driver = trial.make()

        assert fences_terms(driver)
        driver.close()

    def test_a_lower_term_is_refused(self, trial: FencingDriverTrial) -> None:
        """After an impact of a higher term, one of a lower term ends as unknown and does nothing."""
        driver, other, impact = trial.make(), trial.make_elsewhere(), in_term(trial.impact(), 2)
        ended(trial, driver, impact, perform(trial, driver, impact))
        late = in_term(trial.impact(), 1)

        assert isinstance(ended(trial, other, late, perform(trial, other, late)), ImpactUnknown)
        assert isinstance(ended(trial, other, late, outcome_of(trial, other, late)), ImpactUnknown)
        assert trial.times_done(late.event.id) == 0
        assert trial.times_done(impact.event.id) == 1
        driver.close()
        other.close()

    def test_a_question_fences_too(self, trial: FencingDriverTrial) -> None:
        """Once a leader has asked for the outcome, no earlier leader begins the impact."""
        driver, other, impact = trial.make(), trial.make_elsewhere(), trial.impact()
        asked = ended(trial, other, impact, outcome_of(trial, other, in_term(impact, 2, is_elsewhere=True)))
        late = in_term(impact, 1)

        assert isinstance(asked, ImpactNotBegun)
        assert isinstance(ended(trial, driver, late, perform(trial, driver, late)), ImpactUnknown)
        assert trial.times_done(impact.event.id) == 0
        now = in_term(impact, 2)
        assert isinstance(ended(trial, other, now, perform(trial, other, now)), ImpactDone)
        assert trial.times_done(impact.event.id) == 1
        driver.close()
        other.close()

    def test_the_same_term_does_nothing_twice(self, trial: FencingDriverTrial) -> None:
        """Terms change nothing for a leader that asks again."""
        driver, impact = trial.make(), in_term(trial.impact(), 2)
        for _ in range(2):
            assert isinstance(ended(trial, driver, impact, perform(trial, driver, impact)), ImpactDone)

        assert trial.times_done(impact.event.id) == 1
        driver.close()

    def test_another_node_knows_what_was_done(self, trial: FencingDriverTrial) -> None:
        """The next leader never takes it for not begun, and does it not again."""
        driver, other, impact = trial.make(), trial.make_elsewhere(), trial.impact()
        before, asked, now = in_term(impact, 1), in_term(impact, 2, is_elsewhere=True), in_term(impact, 2)
        ended(trial, driver, before, perform(trial, driver, before))
        driver.close()

        assert isinstance(
            ended(trial, other, asked, outcome_of(trial, other, asked)), ImpactDone | ImpactFailed | ImpactUnknown
        )
        ended(trial, other, now, perform(trial, other, now))
        assert trial.times_done(impact.event.id) == 1
        other.close()

    def test_another_node_repeats_nothing_after_a_crash(self, trial: FencingDriverTrial) -> None:
        """Whatever the earlier leader left, the next one does not do it a second time."""
        impact = trial.impact()
        trial.crash_during(in_term(impact, 1))
        other, asked = trial.make_elsewhere(), in_term(impact, 2, is_elsewhere=True)

        outcome = ended(trial, other, asked, outcome_of(trial, other, asked))
        assert isinstance(outcome, ImpactDone | ImpactFailed | ImpactUnknown)
        perform(trial, other, in_term(impact, 2))
        assert trial.times_done(impact.event.id) <= 1
        other.close()

    def test_a_leader_that_was_stopped_before_its_call_does_nothing(self, trial: FencingDriverTrial) -> None:
        """A process is stopped between the attempt and the call; the next leader performs; then it continues."""
        impact = trial.impact()
        stopped = _stop_before_perform(trial, in_term(impact, 1))
        other, asked, now = trial.make_elsewhere(), in_term(impact, 2, is_elsewhere=True), in_term(impact, 2)
        try:
            assert isinstance(ended(trial, other, asked, outcome_of(trial, other, asked)), ImpactNotBegun)
            assert isinstance(ended(trial, other, now, perform(trial, other, now)), ImpactDone)
        finally:
            os.kill(stopped.pid or 0, signal.SIGCONT)
        stopped.join(2 * trial.longest_call)

        assert stopped.exitcode == 0, "the process that was stopped did not end well"
        assert trial.times_done(impact.event.id) == 1
        other.close()


def in_term(impact: Impact, term: int, *, is_elsewhere: bool = False) -> Impact:
    """Return an impact as a leader of this term asks for it, perhaps after an attempt of another node."""
    return replace(impact, term=term, attempt=term, attempted_elsewhere=is_elsewhere)


def _stop_before_perform(trial: DriverTrial, impact: Impact) -> multiprocessing.process.BaseProcess:
    """Return a process that is stopped, and performs an impact when it continues."""

    def perform_when_continued() -> None:
        driver = trial.make()
        os.kill(os.getpid(), signal.SIGSTOP)
        ended(trial, driver, impact, perform(trial, driver, impact))
        driver.close()

    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # of a fork beside threads, which the process does not use
        process = multiprocessing.get_context("fork").Process(target=perform_when_continued)
        process.start()
    os.waitpid(process.pid or 0, os.WUNTRACED)
    return process


def unknown_type(word: str = "polish") -> EventType:
    """Return a type of event that no release has."""
    member = str.__new__(EventType, word)
    member._name_, member._value_ = word.upper(), word
    return member


def perform(trial: DriverTrial, driver: Driver, impact: Impact) -> ImpactOutcome:
    return _answer(trial, driver, "perform", begin(lambda: driver.perform(impact)))


def outcome_of(trial: DriverTrial, driver: Driver, impact: Impact) -> ImpactOutcome:
    return _answer(trial, driver, "outcome_of", begin(lambda: driver.outcome_of(impact)))


def _switched(trial: DriverTrial, driver: Driver, vm: Vm) -> ImpactOutcome:
    """Have a VM started, and ask until that has ended, as the node does."""
    switch = getattr(driver, "switch")  # noqa: B009 whether it has one was looked at
    for _ in range(1000):
        outcome = _answer(trial, driver, "switch", begin(lambda: switch(vm, on=True)))
        if not isinstance(outcome, ImpactUnderway):
            return outcome
        trial.wait_until(outcome.check_at)
    pytest.fail("the driver says Underway for ever")


def _run_on_host(trial: DriverTrial, driver: SupportsHostCommands, command: HostCommand) -> HostCommandOutcome:
    """Run a command, and ask until it has ended, as the node does."""
    outcome = driver.run_on_host(command)
    for _ in range(1000):
        if not isinstance(outcome, ImpactUnderway):
            return outcome
        trial.wait_until(outcome.check_at)
        outcome = driver.outcome_on_host(command)
    pytest.fail("the driver says Underway for ever")


def _answer(trial: DriverTrial, driver: Driver, call: str, answered: Future[ImpactOutcome]) -> ImpactOutcome:
    """Return the outcome; fail on what the node would not take for one, and on an error."""
    place = f"{class_path_of(driver)}.{call}"
    try:
        answer = in_time(f"driver's {call}", trial.longest_call, answered)
    except BaseException as error:
        if isinstance(error, pytest.fail.Exception | KeyboardInterrupt):
            raise
        pytest.fail(f"{describe_error(place, driver, error)}; a driver returns ImpactFailed with a reason instead")
    found = check_outcome(place, answer)
    if found is not answer:
        pytest.fail(found.reason if isinstance(found, ImpactFailed) else str(found))
    return answer


def ended(trial: DriverTrial, driver: Driver, impact: Impact, outcome: ImpactOutcome) -> ImpactOutcome:
    """Ask until the impact is no longer under way, as the node does."""
    asked_at, late = trial.now(), 0
    for _ in range(1000):
        if not isinstance(outcome, ImpactUnderway):
            return outcome
        late = late + 1 if outcome.check_at < asked_at else 0
        if late > 1:
            pytest.fail(f"{class_path_of(driver)} returned an Underway whose check_at had passed, twice in a row")
        trial.wait_until(outcome.check_at)
        asked_at = trial.now()
        outcome = outcome_of(trial, driver, impact)
    pytest.fail("the driver says Underway for ever")
