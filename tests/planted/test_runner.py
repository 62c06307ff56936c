"""A fault is applied to a copy only, and taken back."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from planted import runner
from planted.fault import SIMULATOR, Fault
from planted.runner import Verdict, planted, run

FAULT = Fault(
    name="One is two", promise="One is one.", file="module.py", old="ONE = 1", new="ONE = 2", found_by=("x",)
)


def test_a_fault_is_applied_and_taken_back(tmp_path: Path) -> None:
    """The file has the new text meanwhile, and the old one afterwards."""
    file = tmp_path / "module.py"
    file.write_text("ONE = 1\n", encoding="utf-8")

    with planted(FAULT, tmp_path):
        assert file.read_text(encoding="utf-8") == "ONE = 2\n"
    assert file.read_text(encoding="utf-8") == "ONE = 1\n"


@pytest.mark.parametrize("source", ["", "ONE = 1\nONE = 1\n"])
def test_a_fault_that_does_not_fit_is_refused(source: str, tmp_path: Path) -> None:
    """Text that is missing, or occurs twice, would plant nothing or something else."""
    (tmp_path / "module.py").write_text(source, encoding="utf-8")

    with pytest.raises(ValueError, match="One is two"), planted(FAULT, tmp_path):
        pass


class Commands:
    """Stands for what runs in the copy: each command ends with the status that is next."""

    def __init__(self, copy: Path, *statuses: int) -> None:
        self._copy = copy
        self._statuses = [*statuses]
        self.sources: list[str] = []
        """What the file had as its text, at each command."""

    def run(self, command: Sequence[str], copy: Path, limit: float) -> tuple[int, str]:
        self.sources.append((self._copy / FAULT.file).read_text(encoding="utf-8"))
        return self._statuses.pop(0), f"the end of {command[1]}"


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the copy of a checkout with one file; what runs there is not checked."""

    @contextmanager
    def copied() -> Iterator[Path]:
        yield tmp_path

    (tmp_path / FAULT.file).write_text("ONE = 1\n", encoding="utf-8")
    monkeypatch.setattr(runner, "copied_checkout", copied)
    monkeypatch.setattr(runner, "check_imports", lambda _: None)
    return tmp_path


@pytest.mark.parametrize(
    ("status", "verdict"),
    [
        (0, Verdict.SURVIVED),
        (1, Verdict.FOUND),
        (2, Verdict.NOT_RUN),
        (3, Verdict.NOT_RUN),
        (4, Verdict.NOT_RUN),
        (5, Verdict.SURVIVED),
        (-9, Verdict.NOT_RUN),
    ],
)
def test_only_a_test_that_fails_finds_a_fault(
    status: int, verdict: Verdict, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tests that cannot be collected, a wrong option and an error of pytest itself say nothing about the fault."""
    monkeypatch.setattr(runner, "_run_command", Commands(copy, status, 0).run)

    assert [each.verdict for each in run([FAULT])] == [verdict]


@pytest.mark.parametrize(
    ("statuses", "verdict", "runs"),
    [((1,), Verdict.FOUND, 1), ((0, 1), Verdict.FOUND, 2), ((5, 1), Verdict.FOUND, 2), ((0, 0), Verdict.SURVIVED, 2)],
)
def test_end_to_end_tests_run_where_no_fast_test_finds_the_fault(
    statuses: tuple[int, ...], verdict: Verdict, runs: int, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the same files, also where these have no fast ones."""
    commands = Commands(copy, *statuses)
    monkeypatch.setattr(runner, "_run_command", commands.run)

    assert [each.verdict for each in run([FAULT])] == [verdict]
    assert len(commands.sources) == runs


@pytest.mark.parametrize(("found_by", "seeds"), [("x", 7), (SIMULATOR, 0)])
def test_seeds_run_without_a_fault_first(
    found_by: str, seeds: int, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the unchanged product fails them nothing is found, and the run ends."""
    fault = replace(FAULT, found_by=(found_by,))
    passing, failing = Commands(copy, 0, 1), Commands(copy, 1)

    monkeypatch.setattr(runner, "_run_command", passing.run)
    assert [each.verdict for each in run([fault], seeds)] == [Verdict.FOUND]
    assert passing.sources == ["ONE = 1\n", "ONE = 2\n"]

    monkeypatch.setattr(runner, "_run_command", failing.run)
    with pytest.raises(RuntimeError, match="do not pass without a fault"):
        list(run([fault], seeds))
