"""What the bench reads of processes."""

import os
import resource
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest

from bench import processes
from bench.processes import Effort, allow_open_files, effort_of, wait_until_idle, with_bytecode


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


@pytest.mark.parametrize(
    ("soft", "hard", "is_root", "allowed", "now"),
    [
        (500, 500, False, 300, None),
        (100, 500, False, 300, (300, 500)),
        (100, resource.RLIM_INFINITY, False, 300, (300, resource.RLIM_INFINITY)),
        (100, 200, True, 300, (300, 300)),
        (100, 200, False, 200, (200, 200)),
    ],
)
def test_as_many_files_as_possible_are_allowed(
    monkeypatch: pytest.MonkeyPatch,
    soft: int,
    hard: int,
    is_root: bool,  # noqa: FBT001 - one column of the table
    allowed: int,
    now: tuple[int, int] | None,
) -> None:
    """The hard limit is raised where that is permitted, and never lowered."""
    limits: list[tuple[int, int]] = []

    def set_limit(_: int, wanted: tuple[int, int]) -> None:
        if not is_root and hard not in (resource.RLIM_INFINITY, wanted[1]):
            raise ValueError("not allowed to raise maximum limit")
        limits.append(wanted)

    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", set_limit)

    assert allow_open_files(300) == allowed
    assert limits == ([now] if now else [])


def test_a_process_is_idle_when_its_cpu_time_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked again until then."""
    readings = iter([1.0, 1.2, 1.2, 1.2])
    monkeypatch.setattr(processes, "cpu_seconds", lambda _: next(readings))
    monkeypatch.setattr(processes, "time", SimpleNamespace(monotonic=lambda: 0.0, sleep=lambda _: None))

    wait_until_idle(1)

    assert list(readings) == []


def test_a_process_that_stays_busy_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bench does not wait for ever."""
    seconds = count()
    monkeypatch.setattr(processes, "cpu_seconds", lambda _: next(seconds))
    monkeypatch.setattr(processes, "time", SimpleNamespace(monotonic=lambda: next(seconds), sleep=lambda _: None))

    with pytest.raises(SystemExit, match="Process 1 was still busy after 60 s"):
        wait_until_idle(1)
