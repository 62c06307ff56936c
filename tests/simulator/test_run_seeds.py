"""Seeds are run in order, in one process or several, and one that breaks the simulation is named like any other."""

import os
import signal

import pytest

from forewarn.simulator import seeds
from forewarn.simulator.plan import Plan
from forewarn.simulator.seeds import plan_of, run_plan, run_seed, run_seeds
from tests.simulator.fake_simulation import FakeSimulation, make_fake_plan


@pytest.fixture(autouse=True)
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seeds, "Simulation", FakeSimulation)
    monkeypatch.setattr(seeds, "make_plan", make_fake_plan)
    monkeypatch.setattr(seeds, "_app", None)


def test_seeds_are_run_in_their_order() -> None:
    """What came of each is yielded, one after the other."""
    runs = list(run_seeds(range(5, 9)))

    assert [run.seed for run in runs] == [5, 6, 7, 8]
    assert [bool(run.problems) for run in runs] == [True, False, True, False]


@pytest.mark.end_to_end
def test_several_processes_give_the_same_results() -> None:
    """How many processes there are changes nothing but the time it takes."""
    assert list(run_seeds(range(40), jobs=2)) == list(run_seeds(range(40)))


def test_a_transcript_is_made_where_it_is_wanted() -> None:
    """Runs of many seeds make none."""
    plan = plan_of(1)

    assert run_plan(plan).lines == []
    assert run_plan(plan, has_transcript=True).lines[0].startswith("08:00:00.25 ann asks for restart")


def test_one_application_serves_all_simulations_of_a_process() -> None:
    """Making it takes longer than a simulation."""
    run_seed(1)
    first = seeds._app
    run_seed(2)

    assert first is not None
    assert seeds._app is first


@pytest.mark.parametrize(("seed", "percent", "has_sqlite"), [(0, 1, True), (1, 1, False), (199, 100, True)])
def test_a_share_of_the_seeds_has_a_real_journal(seed: int, percent: int, *, has_sqlite: bool) -> None:
    """The same seeds each time."""
    assert plan_of(seed, percent).has_sqlite is has_sqlite


def test_a_simulation_that_fails_itself_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other seeds are run, and this one is named."""

    def fail(plan: Plan) -> None:
        raise LookupError(f"seed {plan.seed}")

    monkeypatch.setattr(FakeSimulation, "fail", staticmethod(fail))

    (problem,) = run_seed(2).problems

    assert problem.startswith("the simulation failed: LookupError: seed 2 (test_run_seeds.py, line")


def test_a_simulation_that_does_not_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run of many seeds ends."""

    def fail(_plan: Plan) -> None:
        os.kill(os.getpid(), signal.SIGALRM)
        signal.pause()

    monkeypatch.setattr(FakeSimulation, "fail", staticmethod(fail))
    before = signal.getsignal(signal.SIGALRM)

    run = run_plan(plan_of(2), has_transcript=True)

    assert run.problems == ["the simulation did not end in 60 s of real time"]
    assert run.lines
    assert signal.getsignal(signal.SIGALRM) is before
