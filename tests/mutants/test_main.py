"""Runs of ``python -m mutants``."""

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from mutants import __main__ as program
from mutants.__main__ import PATTERNS, describe, find_files, find_mutations, findings, is_counted, sample
from mutants.mutations import Mutation, mutations_of
from mutants.session import ROOT, Finding, Verdict


def test_the_findings_of_a_report_are_read_again() -> None:
    """Whatever else it says."""
    mutation = mutations_of("src/forewarn/core/turns.py", "def settle(): g(a)")[0]
    report = f"1 of 9 mutations; 0 are accepted\n{describe(Finding(mutation, Verdict.SURVIVED))}\nkilled: 0\n"

    assert [(each.key, each.reason) for each in findings(report)] == [(mutation.key, "survived (line 1)")]


def test_a_text_that_stands_twice_in_a_function_is_judged_twice() -> None:
    """A record of one of them leaves the other to do."""
    one, other = mutations_of("src/forewarn/core/turns.py", "def settle(): g(a); g(a)")
    judged = Counter([one.key])

    assert is_counted(judged, one.key)
    assert not is_counted(judged, other.key)


def test_folders_within_core_are_changed_too() -> None:
    """Unless other files are named, every module of core and wire is mutated, however deep it lies."""
    files = find_files(PATTERNS)

    assert ROOT / "src/forewarn/core/turns.py" in files
    assert ROOT / "src/forewarn/core/rollouts/planning.py" in files


def test_another_mutation_does_not_change_the_rest_of_a_sample() -> None:
    """The same seed chooses the same mutations when the code elsewhere is changed: at most one gives way."""
    source = "\n".join(f"def f{n}(): g(a)" for n in range(40))
    before = sample(mutations_of("src/forewarn/core/turns.py", source), 1, 10)
    after = sample(mutations_of("src/forewarn/core/turns.py", f"{source}\ndef h(): g(b)"), 1, 10)
    other = sample(mutations_of("src/forewarn/core/turns.py", source), 2, 10)

    assert len({each.key for each in before} - {each.key for each in after}) <= 1
    assert {each.key for each in before} != {each.key for each in other}


def test_an_accepted_mutation_does_not_change_the_rest_of_a_sample(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It is left out, and no other takes its place: a run with the same seed repeats the last one."""
    judged: list[list[Mutation]] = []

    def keep(chosen: Sequence[Mutation], *_: object) -> Iterator[Finding]:
        judged.append([*chosen])
        yield from ()

    monkeypatch.setattr(program, "judge", keep)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    known = tmp_path / "accepted.txt"
    arguments = ["--sample", "10", "--files", "src/forewarn/core/turns.py"]

    known.write_text("", encoding="utf-8")
    program.main(arguments, accepted_file=known)
    first = judged[0][3]
    known.write_text(describe(Finding(first, Verdict.SURVIVED)), encoding="utf-8")
    program.main(arguments, accepted_file=known)

    assert judged[1] == [each for each in judged[0] if each.key != first.key]


@pytest.mark.end_to_end
def test_functions_and_what_runs_during_import_are_changed(tmp_path: Path) -> None:
    """Each is judged by tests that run it; what none of the given ones runs, by those of its own test file."""
    patterns = ["src/forewarn/core/declared_keys.py", "src/forewarn/core/drift.py", "src/forewarn/core/tokens.py"]
    mutations = find_mutations(patterns)
    chosen = [
        next(each for each in mutations if "Host &" in each.after),
        next(each for each in mutations if each.function == "find_drift"),
        next(each for each in mutations if each.function == "create_token"),
    ]
    report = tmp_path / "report"
    report.write_text("\n".join(describe(Finding(each, Verdict.SURVIVED)) for each in chosen), encoding="utf-8")
    command = [sys.executable, "-m", "mutants", "--again", str(report), "--tests", "tests/core/test_drift.py"]
    ended = subprocess.run(
        [*command, "--files", " ".join(patterns)], cwd=ROOT, capture_output=True, text=True, check=False, timeout=300
    )

    assert "killed: 3, took too long: 0, survived: 0, no test runs it: 0" in ended.stdout
    assert ended.returncode == 0
