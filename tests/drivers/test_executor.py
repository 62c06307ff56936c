"""The executor: one thread for each event, its progress, what a crash leaves, and the limit of migrations."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from forewarn.clocks import ManualClock, SystemClock
from forewarn.core.errors import BadInput
from forewarn.core.model import EventType
from forewarn.drivers.executor import ImpactJob, MigrationSlots, WorkExecutor, WorkInterrupted, join_details
from forewarn.drivers.progress_store import ImpactEnding, ProgressStore
from forewarn.drivers.run_record import KEPT_FOR
from forewarn.drivers.term_store import TermStore
from forewarn.node.driver import (
    Impact,
    ImpactDone,
    ImpactFailed,
    ImpactNotBegun,
    ImpactOutcome,
    ImpactUnderway,
    ImpactUnknown,
    refuse_type,
)
from forewarn.testing.driver_contract import FencingDriverContract, FencingDriverTrial, in_term
from tests.drivers.impacts import carried_out, impact


class WorkExecutorHarness:
    """Work that goes on until it is let."""

    def __init__(self, directory: Path, do: Callable[[ImpactJob], ImpactEnding] | None = None) -> None:
        self.may_end = threading.Event()
        self.jobs: list[ImpactJob] = []
        self.clock = ManualClock()
        self.shop = WorkExecutor("test", directory, self.clock, do or self.do, worth_waiting=0.01)

    def do(self, job: ImpactJob) -> ImpactEnding:
        self.jobs.append(job)
        job.tell("half-way", "web-0")
        while not self.may_end.wait(0.01):
            if job.closing.is_set():
                raise WorkInterrupted
        return ImpactDone(detail="by hand")

    def wait_for(self, progress: str) -> ImpactUnderway:
        while True:
            outcome = self.shop.outcome_of(impact())
            assert isinstance(outcome, ImpactUnderway)
            if outcome.progress == progress:
                return outcome

    def ended(self) -> object:
        self.may_end.set()
        while isinstance(outcome := self.shop.outcome_of(impact()), ImpactUnderway):
            pass
        return outcome


def test_what_takes_long_is_under_way_and_says_how_far_it_is(tmp_path: Path) -> None:
    """The caller is not held up; the end is found by asking."""
    bench = WorkExecutorHarness(tmp_path)

    assert isinstance(bench.shop.perform(impact()), ImpactUnderway)
    bench.wait_for("half-way")
    assert bench.ended() == ImpactDone(detail="by hand")


def test_however_often_it_is_asked_for_it_is_done_once(tmp_path: Path) -> None:
    """Performing what is under way or ended begins nothing."""
    bench = WorkExecutorHarness(tmp_path)
    bench.shop.perform(impact())
    bench.shop.perform(impact())

    assert bench.ended() == bench.shop.perform(impact()) == ImpactDone(detail="by hand")
    assert len(bench.jobs) == 1


def test_what_a_crash_cut_off_goes_on_when_it_is_asked_for(tmp_path: Path) -> None:
    """The next workshop finds what was begun, and its job knows that it was."""
    first = WorkExecutorHarness(tmp_path)
    first.shop.perform(impact())
    first.wait_for("half-way")
    first.shop.close(5.0)
    second = WorkExecutorHarness(tmp_path)

    assert isinstance(second.shop.outcome_of(impact()), ImpactUnderway)
    assert second.ended() == ImpactDone(detail="by hand")
    assert [job.is_resumed for job in first.jobs + second.jobs] == [False, True]


def test_another_s_work_is_left_alone(tmp_path: Path) -> None:
    """While one workshop holds an event, another one does not touch it."""
    first, second = WorkExecutorHarness(tmp_path), WorkExecutorHarness(tmp_path)
    first.shop.perform(impact())
    first.wait_for("half-way")

    assert isinstance(second.shop.perform(impact()), ImpactUnderway)
    assert second.jobs == []
    first.ended()


def test_what_was_never_begun_may_be_performed_unless_it_is_too_old(tmp_path: Path) -> None:
    """No page means that nothing was done, for as long as pages are kept."""
    bench = WorkExecutorHarness(tmp_path)
    now = bench.clock.now()

    assert bench.shop.outcome_of(impact(attempted_at=now)) == ImpactNotBegun()
    assert bench.shop.outcome_of(impact(attempted_at=now - KEPT_FOR)) == ImpactUnknown(
        "it was attempted so long ago that its record has been deleted"
    )


def test_work_that_cannot_be_written_down_is_not_begun(tmp_path: Path) -> None:
    """Where there is no record, nothing is done, and the reason names the place."""
    (tmp_path / "file").touch()
    bench = WorkExecutorHarness(tmp_path / "file")
    outcome = carried_out(bench.shop, impact())

    assert isinstance(outcome, ImpactFailed | ImpactUnknown)
    assert str(tmp_path / "file") in outcome.reason
    assert bench.jobs == []


def test_a_driver_s_mistake_reaches_the_caller(tmp_path: Path) -> None:
    """An exception is raised where the outcome is asked for."""

    def fail(_: ImpactJob) -> ImpactEnding:
        raise RuntimeError("a mistake")

    with pytest.raises(RuntimeError, match="a mistake"):
        carried_out(WorkExecutorHarness(tmp_path, fail).shop, impact())


def test_one_vm_s_words_stand_alone() -> None:
    """Only where there are several is each named."""
    assert join_details({"web-0": "half-way"}, 1) == "half-way"
    assert (
        join_details({"web-1": "done", "web-0": "half-way", "": "slowly"}, 2)
        == "slowly; web-0: half-way; web-1: done"
    )


def test_who_finds_no_slot_waits_and_says_so() -> None:
    """The next one begins when another has ended."""
    slots, closing, begun = MigrationSlots(1), threading.Event(), threading.Event()
    said: list[str] = []

    def second() -> None:
        with slots.taken(closing, said.append):
            begun.set()

    thread = threading.Thread(target=second)
    with slots.taken(closing, said.append):
        thread.start()
        assert not begun.wait(0.2)
    thread.join(10)

    assert begun.is_set()
    assert said == ["waiting for other migrations to end"]


def test_closing_the_driver_ends_the_wait() -> None:
    """What waits is done after the next start, and gives back nothing that it did not take."""
    slots, closing = MigrationSlots(1), threading.Event()
    closing.set()
    with slots.taken(closing, print), pytest.raises(WorkInterrupted), slots.taken(closing, print):
        pass
    with slots.taken(closing, print):
        pass


class LineDriver:
    """Writes a line for each event; its records are in a directory that the nodes of a host share."""

    moves_live = False
    fences_terms = True

    def __init__(self, host: Path) -> None:
        self._lines = host / "lines"
        self._executor = WorkExecutor(
            "lines", host / "records", SystemClock(), self._do, terms=TermStore(host / "records")
        )

    def perform(self, impact: Impact) -> ImpactOutcome:
        if impact.event.type is not EventType.REBOOT:
            return refuse_type(impact.event)
        return self._executor.perform(impact)

    def outcome_of(self, impact: Impact) -> ImpactOutcome:
        return self._executor.outcome_of(impact)

    def close(self) -> None:
        self._executor.close(10)

    def _do(self, job: ImpactJob) -> ImpactEnding:
        if job.progress_file.step("writing") is None:
            job.progress_file.note("writing")
            with self._lines.open("a") as lines:
                lines.write(f"{job.impact.event.id}\n")
        return ImpactDone()


class LineTrial(FencingDriverTrial):
    """Two nodes on one host."""

    def __init__(self, host: Path) -> None:
        self._host = host

    def make(self, **more: object) -> LineDriver:
        if more:
            raise BadInput(f"no setting {next(iter(more))}")
        return LineDriver(self._host)

    def make_elsewhere(self) -> LineDriver:
        return LineDriver(self._host)

    def times_done(self, event_id: str) -> int:
        lines = self._host / "lines"
        return lines.read_text().split().count(event_id) if lines.exists() else 0


@pytest.mark.end_to_end
class TestFencingExecutor(FencingDriverContract):
    """With a store of terms, what is made of an executor fences terms."""

    @pytest.fixture
    def trial(self, tmp_path: Path) -> FencingDriverTrial:
        return LineTrial(tmp_path)


def test_a_question_keeps_earlier_leaders_from_beginning(tmp_path: Path) -> None:
    """The answer says that nothing was begun, and that must stay so."""
    asked = impact(attempted_at=SystemClock().now())
    late, other = LineDriver(tmp_path), LineDriver(tmp_path)

    assert other.outcome_of(in_term(asked, 2, is_elsewhere=True)) == ImpactNotBegun()
    assert isinstance(late.perform(in_term(asked, 1)), ImpactUnknown)
    assert not (tmp_path / "lines").exists()


def test_what_a_leader_began_is_gone_on_with_by_the_next_only(tmp_path: Path) -> None:
    """A crash cut it off; the leader that was replaced does not take it up again."""
    with ProgressStore(tmp_path / "records", SystemClock()).held(impact().event.id) as progress_file:
        progress_file.begin(in_term(impact(), 1))
    late, other = LineDriver(tmp_path), LineDriver(tmp_path)
    with TermStore(tmp_path / "records").held(2):
        pass

    assert isinstance(late.perform(in_term(impact(), 1)), ImpactUnknown)
    assert isinstance(late.outcome_of(in_term(impact(), 1)), ImpactUnknown)
    assert not (tmp_path / "lines").exists()
    assert other.outcome_of(in_term(impact(), 2, is_elsewhere=True)) == ImpactDone()
