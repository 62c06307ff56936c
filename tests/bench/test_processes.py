"""What the bench reads of processes."""

import os
from pathlib import Path

import pytest

from bench.processes import Effort, effort_of, with_bytecode


def test_effort_is_told_for_a_stretch_of_time() -> None:
    """What was done before does not count."""
    assert Effort(7, 0.5, 9).since(Effort(5, 0.25, 4)) == Effort(2, 0.25, 5)


def test_work_is_seen() -> None:
    """By the scheduler's count before it makes a tick."""
    before = effort_of(os.getpid())
    sum(range(200_000))

    assert effort_of(os.getpid()).since(before).seconds > 0


def test_modules_are_compiled_as_in_an_installed_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Also where the environment says that nothing is to be kept."""
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    environment = with_bytecode(tmp_path)

    assert "PYTHONDONTWRITEBYTECODE" not in environment
    assert environment["PYTHONPYCACHEPREFIX"] == str(tmp_path)
