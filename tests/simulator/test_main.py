"""The command of the simulator: what it runs, what it says of a failure, and with which code it ends."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from forewarn.simulator import __main__ as command
from forewarn.simulator import seeds
from forewarn.simulator.coverage import Coverage
from forewarn.simulator.plan import format_plan, parse_plan
from forewarn.simulator.shrink import shrink
from tests.simulator.fake_simulation import FakeSimulation, make_fake_plan


@pytest.fixture(autouse=True)
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(seeds, "Simulation", FakeSimulation)
    monkeypatch.setattr(seeds, "_apps", ())
    monkeypatch.setattr(seeds, "make_plan", make_fake_plan)
    monkeypatch.chdir(tmp_path)


def run(*arguments: str, save_every: int = 1_000) -> int:
    return command.main(["--jobs", "1", *arguments], save_every=save_every)


def test_seeds_that_keep_every_promise(capsys: pytest.CaptureFixture[str]) -> None:
    """The code is 0; speed and coverage are told."""
    assert run("--seeds", "1", "--from", "4") == 0

    said = capsys.readouterr().out
    assert "1 of 1 seeds" in said
    assert "steps/s" in said
    assert "reached by 1 runs" in said


def test_a_failing_seed_is_shrunk_and_told(capsys: pytest.CaptureFixture[str]) -> None:
    """Seed, problems, the small plan, its transcript, and the command that replays it; the code is 1."""
    assert run("--seeds", "2") == 1

    said = capsys.readouterr().out
    assert "seed 1 failed:\n  machine web-1 was started twice after" in said
    plan = said.partition("\nseed 1\n")[2].partition("\n08:")[0]
    assert len(parse_plan(f"seed 1\n{plan}").actions) == 2
    assert "\n08:00:01 ann asks for restart of web-1" in said
    assert "\nproblem: machine web-1 was started twice" in said
    assert "-m forewarn.simulator --seed 1\n" in said
    assert "failed seeds: 1\n" in said


def test_a_failure_of_a_known_kind_is_told_in_short(capsys: pytest.CaptureFixture[str]) -> None:
    """A second seed with the same problem adds a few lines, not a second transcript."""
    assert run("--seeds", "4") == 1

    said = capsys.readouterr().out
    assert "seed 3 failed as one before it:" in said
    assert said.count("hurry 60") == 1
    assert "failed seeds: 1, 3\n" in said


def test_a_run_ends_after_some_failures(capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody reads a thousand of them."""
    assert run("--seeds", "1000", "--no-shrink") == 1

    assert "20 of 1000 seeds" in capsys.readouterr().out


def test_a_run_ends_after_as_many_failures_as_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    """One is enough for who only wants to know whether there is one."""
    assert run("--seeds", "1000", "--no-shrink", "--failures", "1") == 1

    assert "failed seeds: 1\n" in capsys.readouterr().out


def test_one_seed_is_replayed_with_all_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    """The whole plan and the whole transcript."""
    assert run("--seed", "1") == 1

    said = capsys.readouterr().out
    assert format_plan(make_fake_plan(1)) in said
    assert "08:01:50 machine web-1 moved by itself" in said
    assert "problem: machine web-1 was started twice" in said


def test_a_failure_is_saved_and_replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A saved plan says what was found, and fails like the seed."""
    assert run("--seed", "1", "--save", "started_twice") == 1
    saved = tmp_path / "tests" / "simulator" / "plans" / "started_twice.txt"

    assert saved.read_text("utf-8").startswith("# Found by seed 1:\n# machine web-1 was started twice after")
    assert len(parse_plan(saved.read_text("utf-8")).actions) == 2
    assert f"--plan {saved.relative_to(tmp_path)}" in capsys.readouterr().out
    assert run("--plan", str(saved)) == 1


def test_a_failure_among_many_is_saved_where_it_is_told(tmp_path: Path) -> None:
    """A path is taken as it is."""
    assert run("--seeds", "2", "--save", str(tmp_path / "mine.txt"), "--no-shrink") == 1

    assert parse_plan((tmp_path / "mine.txt").read_text("utf-8")).actions == make_fake_plan(1).actions


def test_a_plan_that_cannot_be_read_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No traceback; the line is named; the code is that of a wrong usage."""
    (tmp_path / "bad.txt").write_text("seed 1\n3 ann sings\n", "utf-8")

    assert run("--plan", "bad.txt") == 2
    assert run("--plan", "none.txt") == 2

    said = capsys.readouterr().err
    assert "line 2 of the plan cannot be read" in said
    assert "none.txt" in said


def test_coverage_adds_up_over_runs(tmp_path: Path) -> None:
    """A later run goes on from the file."""
    for first in ("0", "2"):
        run("--seeds", "1", "--from", first, "--coverage", "coverage.json")

    assert Coverage.load(tmp_path / "coverage.json").runs == 2


def test_an_interrupted_run_says_how_to_go_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is run twice."""

    def interrupted(numbers: range, *_: object) -> object:
        yield seeds.run_seed(numbers[0])
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "run_seeds", interrupted)

    assert run("--seeds", "5", "--from", "6", "--coverage", "coverage.json", "--no-shrink") == 130
    assert (
        "--from 7 --seeds 4 --jobs 1 --failures 10 --coverage coverage.json --no-shrink\n" in capsys.readouterr().out
    )


@pytest.mark.parametrize("wrong", [("--jobs", "0"), ("--seeds", "-1"), ("--failures", "0"), ("--from", "one")])
def test_a_number_that_makes_no_sense_is_an_error(wrong: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    """The flag and the number are named."""
    with pytest.raises(SystemExit) as ended:
        run(*wrong)

    assert ended.value.code == 2
    assert f"argument {wrong[0]}: {wrong[1]!r} is no whole number" in capsys.readouterr().err


def test_a_damaged_coverage_file_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is left as it is, and nothing is run."""
    (tmp_path / "coverage.json").write_text('{"runs":', "utf-8")

    assert run("--seeds", "1", "--coverage", "coverage.json") == 2
    assert "coverage.json cannot be read" in capsys.readouterr().err
    assert (tmp_path / "coverage.json").read_text("utf-8") == '{"runs":'


def test_coverage_is_saved_now_and_then(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A run of hours that is killed keeps most of it."""
    found: list[int] = []

    def watched(numbers: range, *_: object) -> Iterator[seeds.SeedRun]:
        for number in numbers:
            yield seeds.run_seed(number)
            found.append(Coverage.load(tmp_path / "coverage.json").runs)

    monkeypatch.setattr(command, "run_seeds", watched)
    run("--seeds", "3", "--from", "2", "--coverage", "coverage.json", "--no-shrink", save_every=2)

    assert found == [0, 2, 2]


def test_a_reader_that_leaves_ends_the_run(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """As with ``| head``: no traceback, and the code of a closed pipe."""

    def leave(*_: object) -> Iterator[seeds.SeedRun]:
        raise BrokenPipeError

    monkeypatch.setattr(command, "run_seeds", leave)
    with (Path.cwd() / "out").open("w", encoding="utf-8") as out:
        monkeypatch.setattr(sys, "stdout", out)
        assert run("--seeds", "1") == 141
    assert capfd.readouterr().err == ""


def test_a_terminated_run_ends_like_an_interrupted_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says how to go on, and leaves no file of a simulation behind."""

    def terminated(_plan: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        signal.pause()

    monkeypatch.setattr(seeds, "_MEMORY", Path.cwd() / "memory")
    (Path.cwd() / "memory").mkdir()
    monkeypatch.setattr(FakeSimulation, "fail", staticmethod(terminated))
    before = signal.getsignal(signal.SIGTERM)

    assert run("--seeds", "3") == 130

    assert "stopped; to go on: " in capsys.readouterr().out
    assert list((Path.cwd() / "memory").iterdir()) == []
    assert signal.getsignal(signal.SIGTERM) is before


def test_make_simulate_goes_on_with_make(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """What is printed can be typed as it is."""

    def interrupted(_plan: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(FakeSimulation, "fail", staticmethod(interrupted))

    assert run("--from", "7", "--seeds", "3", "--failures", "2", "--made") == 130

    assert "to go on: make simulate FROM=7 SEEDS=3 JOBS=1 FAILURES=2\n" in capsys.readouterr().out


def test_a_simulation_that_never_ends_is_not_shrunk(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each question would take a minute."""

    def never_end(_plan: object) -> None:
        raise seeds.TookTooLong

    monkeypatch.setattr(FakeSimulation, "fail", staticmethod(never_end))

    assert run("--seeds", "1") == 1
    assert format_plan(make_fake_plan(0)) in capsys.readouterr().out


def test_shrinking_keeps_the_kind_of_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    """A smaller plan with another problem is no smaller form of this one."""
    asked: list[bool] = []

    def spying(plan: object, fails: object, budget: int) -> object:
        asked.append(fails(make_fake_plan(1)))  # type: ignore[operator]
        asked.append(fails(make_fake_plan(2)))  # type: ignore[operator]
        return shrink(plan, fails, budget)  # type: ignore[arg-type]

    monkeypatch.setattr(command, "shrink", spying)
    run("--seeds", "2")

    assert asked == [True, False]
