"""Whatever happens to a fleet while its clock is set and the service is restarted, notice is really given."""

from datetime import datetime, timedelta
from typing import ClassVar

from hypothesis import note, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule

from forewarn.clocks import ManualClock
from forewarn.core.commands import ChangeFleet, Command, RecordClockStep
from forewarn.core.facts import Announced, AnyFact, BroughtForward, ClockStepped, Entry, Postponed, Started
from forewarn.core.model import NODE, Event, EventStatus, StartCause
from forewarn.node.timekeeper import Timekeeper
from forewarn.simulator.words import MONDAY
from tests.core import invariants_of_facts, invariants_of_steps
from tests.core.fleet_machine import FleetMachine
from tests.core.fleets import fleets

TEN_YEARS = timedelta(days=3652)
_BY_THE_WALL = {
    invariants_of_facts.a_group_is_switched_off_only_when_nobody_asked_for_long,
    invariants_of_facts.nobody_is_overtaken,
    invariants_of_steps.what_is_ready_waits_only_for_what_stands_in_its_way,
    invariants_of_steps.an_event_that_waits_names_one_that_is_there,
}
"""What goes by the wall clock: whether an event is due, and how long ago a group asked."""


class WrongClockMachine(FleetMachine):
    """The same fleet, with a clock that is set by ten years, running or not."""

    of_facts: ClassVar = [each for each in FleetMachine.of_facts if each not in _BY_THE_WALL]
    of_steps: ClassVar = [each for each in FleetMachine.of_steps if each not in _BY_THE_WALL]

    def __init__(self) -> None:
        super().__init__()
        self._wall = ManualClock(MONDAY + timedelta(hours=12))
        self._ahead = 0
        self._births: dict[str, tuple[float, Event]] = {}
        """When events were announced, on a clock that is not set."""
        self._by_the_right_clock: set[str] = set()
        self._begin_process()

    def _begin_process(self) -> None:
        self._timekeeper = Timekeeper(self._wall)
        self._timekeeper.start(self.fleet)
        self.has_passed = self._timekeeper.has_passed

    @property
    def now(self) -> datetime:
        return self._timekeeper.read(self.fleet.last_at)

    def let_pass_until(self, time: datetime) -> None:
        self._wall.advance_to(time)

    def do(self, command: Command) -> tuple[AnyFact, ...] | None:
        now = self.now
        if expected := self._timekeeper.unrecorded:
            self._do(RecordClockStep(id=self.next_id(), by=NODE, expected=expected), now)
        return self._do(command, now)

    def _do(self, command: Command, now: datetime) -> tuple[AnyFact, ...] | None:
        facts = super().do(command)
        self._timekeeper.follow(facts or ())
        self._timekeeper.note_recorded([Entry(0, now, command.id, command.by, facts or ())])
        for fact in facts or ():
            self._check_notice(fact)
        return facts

    def _check_notice(self, fact: AnyFact) -> None:
        match fact:
            case Announced(event=event):
                self._births[event.id] = self._wall.seconds(), event
                if self._ahead == 0:
                    self._by_the_right_clock.add(event.id)
            case Postponed(event=id_) | BroughtForward(event=id_):
                self._births.pop(id_, None)
            case Started(event=id_, cause=StartCause.DUE) if id_ in self._births:
                began, event = self._births[id_]
                passed = timedelta(seconds=self._wall.seconds() - began)
                assert passed > event.not_before - event.announced_at - timedelta(seconds=1), "notice is really given"
            case ClockStepped():
                note(f"    the clock is {self._ahead} times ten years ahead")

    @rule(step=st.sampled_from([timedelta(seconds=1), timedelta(minutes=1)]))
    def pass_a_moment(self, step: timedelta) -> None:
        self._wall.advance(step)

    @rule(to=st.sampled_from([-1, 0, 0, 1, 2]), is_running=st.booleans(), from_snapshot=st.booleans())
    def set_the_clock(self, to: int, *, is_running: bool, from_snapshot: bool) -> None:
        """Set it while the service runs, which is seen within a minute, or while it does not."""
        self._wall.step((to - self._ahead) * TEN_YEARS)
        self._ahead = to
        if is_running:
            self.wake_what_is_due()
        else:
            self.restart(from_snapshot=from_snapshot)

    @rule(from_snapshot=st.booleans())
    def restart(self, *, from_snapshot: bool) -> None:
        super().restart(from_snapshot=from_snapshot)
        self._begin_process()
        self.wake_what_is_due()
        if self._ahead == 0 and self._timekeeper.stepped_seconds is None:
            self._check_that_nothing_is_forgotten()

    def _check_that_nothing_is_forgotten(self) -> None:
        for id_ in self._by_the_right_clock & self._births.keys() & self.fleet.events.keys():
            began, event = self._births[id_]
            passed = timedelta(seconds=self._wall.seconds() - began)
            now = self.fleet.events[id_]
            if passed > event.not_before - event.announced_at + timedelta(seconds=9):
                assert now.status is EventStatus.STARTED or now.waits_for or now.waits_until, "what is due starts"

    @rule(file=fleets())
    def start_with_a_changed_file(self, file: ChangeFleet) -> None:
        """The service is started with another fleet file, whatever the clock shows."""
        self.restart(from_snapshot=False)
        self.start_with_a_file(file)


TestWrongClocks = WrongClockMachine.TestCase
TestWrongClocks.settings = settings(max_examples=settings().max_examples)
