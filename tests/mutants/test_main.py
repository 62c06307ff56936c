"""Runs of ``python -m mutants``."""

import subprocess
import sys
from pathlib import Path

import pytest

from mutants.__main__ import describe, find_mutations, survivors
from mutants.mutations import mutations_of
from mutants.session import ROOT, Finding, Verdict


def test_the_survivors_of_a_report_are_found_again() -> None:
    """Whatever else it says."""
    mutation = mutations_of("src/forewarn/core/turns.py", "def settle(): g(a)")[0]
    report = f"1 of 9 mutations; 0 are accepted\n{describe(Finding(mutation, Verdict.SURVIVED))}\nkilled: 0\n"

    assert survivors(report) == {mutation.key}


@pytest.mark.end_to_end
def test_functions_and_what_runs_during_import_are_changed(tmp_path: Path) -> None:
    """Each is judged by tests that use it; a function that no test calls is reported so."""
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

    assert "killed: 2, took too long: 0, survived: 0, no test calls it: 1" in ended.stdout
    assert ended.returncode == 1
