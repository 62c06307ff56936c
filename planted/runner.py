"""Applies one fault after another to a copy of the checkout, and runs there what is to find it."""

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from planted.fault import SIMULATOR, Fault

ROOT = Path(__file__).parents[1]
_COPIED = ("bench", "demo", "deploy", "docs", "examples", "planted", "src", "tests", "tools")
_FILES = ("CHANGELOG.md", "Makefile", "README.md", "constraints.txt", "pyproject.toml")
_PASSED, _FAILED, _NO_TESTS = 0, 1, 5
"""Exit codes of pytest; the first two also of the simulator."""
_PYTEST = ("-m", "pytest", "-q", "-x", "--no-header", "--tb=no", "-p", "no:cacheprovider", "-m")
_FAST_FIRST = ("not end_to_end", "end_to_end")
_SIMULATE = ("-m", "forewarn.simulator", "--jobs", "1", "--no-shrink", "--failures", "1", "--seeds")
DEFAULT_SEEDS = 500
_LONGEST_CHECK = 36_000.0
_SHOWN = 2000
"""Characters of the output of the simulator that an error shows."""


class Verdict(StrEnum):
    """What became of a fault."""

    FOUND = "found"
    SURVIVED = "survived"
    TOO_LONG = "took too long"
    NOT_RUN = "did not run"


@dataclass(frozen=True)
class Finding:
    """The verdict on one fault, how long it took, and what found it."""

    fault: Fault
    verdict: Verdict
    seconds: float
    detail: str = ""


def run(faults: Sequence[Fault], seeds: int = 0) -> Iterator[Finding]:
    """Yield a finding for each fault; where a number of ``seeds`` is given, by the simulator instead of by tests.

    Raise RuntimeError where the product without a fault does not pass the same seeds.
    """
    with copied_checkout() as copy:
        check_imports(copy)
        if seeds or any(SIMULATOR in fault.found_by for fault in faults):
            check_seeds(copy, seeds or DEFAULT_SEEDS)
        for fault in faults:
            yield _run_one(fault, copy, seeds)


@contextmanager
def copied_checkout() -> Iterator[Path]:
    """Yield a copy of what the tests need, without version control and environment; it is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="forewarn-planted-") as directory:
        copy = Path(directory)
        for name in _COPIED:
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name in _FILES:
            shutil.copy2(ROOT / name, copy / name)
        yield copy


@contextmanager
def planted(fault: Fault, copy: Path) -> Iterator[None]:
    """Apply a fault to the copy; take it back afterwards."""
    path = copy / fault.file
    source = path.read_text(encoding="utf-8")
    if source.count(fault.old) != 1:
        raise ValueError(f"{fault.name}: {fault.file} must have the old text once; bring the catalogue up to date")
    # What Python compiled is recognised by time and size only, which may be those of the old text.
    compiled = Path(importlib.util.cache_from_source(str(path)))
    try:
        path.write_text(source.replace(fault.old, fault.new), encoding="utf-8")
        compiled.unlink(missing_ok=True)
        yield
    finally:
        path.write_text(source, encoding="utf-8")
        compiled.unlink(missing_ok=True)


def check_imports(copy: Path) -> None:
    """Raise RuntimeError unless the copy is what a process there imports."""
    program = "import forewarn, tests.harness; print(forewarn.__file__); print(tests.harness.__file__)"
    said = subprocess.run(
        [sys.executable, "-c", program], cwd=copy, env=_environment(copy), capture_output=True, text=True, check=True
    )
    if not all(line.startswith(f"{copy}/") for line in said.stdout.split()):
        raise RuntimeError(f"the tests would import {said.stdout.split()} instead of the copy {copy}")


def check_seeds(copy: Path, seeds: int) -> None:
    """Raise RuntimeError unless the simulator passes so many seeds without a fault: else each would be found."""
    status, said = _run_command((*_SIMULATE, str(seeds)), copy, _LONGEST_CHECK)
    if status != _PASSED:
        raise RuntimeError(f"{seeds} seeds do not pass without a fault:\n{said[-_SHOWN:]}")


def _environment(copy: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    # Hypothesis need not shrink what it finds.
    return {**kept, "PYTHONPATH": f"{copy}/src:{copy}", "HYPOTHESIS_PROFILE": "mutants", "TMPDIR": str(copy)}


def _run_one(fault: Fault, copy: Path, seeds: int) -> Finding:
    tests = [each for each in fault.found_by if each != SIMULATOR and not seeds]
    commands = [(*_PYTEST, which, *tests) for which in _FAST_FIRST] if tests else []
    if seeds or SIMULATOR in fault.found_by:
        commands.append((*_SIMULATE, str(seeds or DEFAULT_SEEDS)))
    began = time.monotonic()
    with planted(fault, copy):
        for command in commands:
            left = max(fault.seconds, float(seeds)) - (time.monotonic() - began)
            try:
                status, said = _run_command(command, copy, left)
            except subprocess.TimeoutExpired:
                return Finding(fault, Verdict.TOO_LONG, time.monotonic() - began)
            if status not in (_PASSED, _NO_TESTS):
                verdict = Verdict.FOUND if status == _FAILED else Verdict.NOT_RUN
                return Finding(fault, verdict, time.monotonic() - began, _first_failure(said))
    return Finding(fault, Verdict.SURVIVED, time.monotonic() - began)


def _run_command(command: Sequence[str], copy: Path, limit: float) -> tuple[int, str]:
    """Return the exit status and the output; whatever the command started has ended then."""
    with subprocess.Popen(
        [sys.executable, *command],
        cwd=copy,
        env=_environment(copy),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as process:
        try:
            said, _ = process.communicate(timeout=max(limit, 0.1))
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, said.decode(errors="replace")


def _first_failure(said: str) -> str:
    """Return the name of the first test that failed; else the last line that was printed."""
    lines = said.strip().splitlines()
    failed = [line.split()[1] for line in lines if line.startswith(("FAILED ", "ERROR "))]
    return failed[0] if failed else " ".join(lines[-1:])
