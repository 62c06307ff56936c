"""Seeds are run in order, in one process or several, and one that breaks the simulation is named like any other."""

import gc
import os
import signal
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest

from forewarn.node.large_change import collection_paused
from forewarn.simulator import seeds
from forewarn.simulator.plan import Plan
from forewarn.simulator.seeds import plan_of, run_plan, run_seed, run_seeds
from tests.simulator.fake_simulation import FakeSimulation, make_fake_plan


@pytest.fixture(autouse=True)
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seeds, "Simulation", FakeSimulation)
    monkeypatch.setattr(seeds, "make_plan", make_fake_plan)
    monkeypatch.setattr(seeds, "_apps", ())


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


def test_one_application_of_each_node_serves_all_simulations_of_a_process() -> None:
    """Making it takes longer than a simulation; those of further nodes are made when a plan first has them."""
    run_seed(1)
    (first,) = seeds._apps
    run_seed(2)
    assert seeds._apps == [first]
    run_seed(3, seeds.PlanShares(nodes=100))
    both = seeds._apps
    run_seed(4)

    assert len(both) == 2
    assert both[0] is first
    assert seeds._apps is both


def test_large_changes_in_simulations_exempt_nothing_from_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a service they do, once in a while; here each simulation would leave what it made."""

    def change(_: Plan) -> None:
        with collection_paused():
            made.append([])

    made: list[list[int]] = []
    monkeypatch.setattr(FakeSimulation, "fail", staticmethod(change))
    run_seed(2)
    before = gc.get_freeze_count()
    run_seed(4)

    assert len(made) == 2
    assert gc.get_freeze_count() == before
    assert gc.isenabled()


@pytest.mark.parametrize(("seed", "percent", "has_sqlite"), [(0, 1, True), (1, 1, False), (199, 100, True)])
def test_a_share_of_the_seeds_has_a_real_journal(seed: int, percent: int, *, has_sqlite: bool) -> None:
    """The same seeds each time."""
    assert plan_of(seed, seeds.PlanShares(percent)).has_sqlite is has_sqlite


def test_a_simulation_that_fails_itself_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other seeds are run, and this one is named."""

    def fail(plan: Plan) -> None:
        raise LookupError(f"seed {plan.seed}")

    monkeypatch.setattr(FakeSimulation, "fail", staticmethod(fail))

    (problem,) = run_seed(2).problems

    assert problem.startswith("the simulation failed: LookupError: seed 2 (test_seeds.py, line")


def test_a_simulation_that_does_not_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run of many seeds ends."""

    def fail(_plan: Plan) -> None:
        os.kill(os.getpid(), signal.SIGPROF)
        signal.pause()

    monkeypatch.setattr(FakeSimulation, "fail", staticmethod(fail))
    before = signal.getsignal(signal.SIGPROF)

    run = run_plan(plan_of(2), has_transcript=True)

    assert run.problems == ["the simulation did not end in 60 s of processor time"]
    assert run.lines
    assert signal.getsignal(signal.SIGPROF) is before


def test_what_dead_processes_left_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next run does it; what belongs to a process that is alive stays."""
    with subprocess.Popen(["true"]) as ended:
        pass
    dead = tmp_path / f"forewarn-simulation-{ended.pid}-abc"
    alive = tmp_path / f"forewarn-simulation-{os.getpid()}-abc"
    other = tmp_path / "forewarn-simulation-of-mine"
    for path in (dead, alive, other):
        (path / "driver").mkdir(parents=True)
    monkeypatch.setattr(seeds, "_MEMORY", tmp_path)

    list(run_seeds(range(2)))

    assert sorted(tmp_path.iterdir()) == sorted((alive, other))


@pytest.mark.end_to_end
def test_workers_that_are_ended_leave_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupt ends them in the middle of their simulations."""

    def wait(plan: Plan) -> None:
        if plan.seed >= 10:
            signal.pause()

    monkeypatch.setattr(FakeSimulation, "fail", staticmethod(wait))
    monkeypatch.setattr(seeds, "_MEMORY", tmp_path)
    runs = run_seeds(range(40), jobs=2)

    assert next(runs).seed == 0
    assert isinstance(runs, Generator)
    runs.close()

    assert list(tmp_path.iterdir()) == []
