"""What the demo tells its user to type."""

import sys
from pathlib import Path

import pytest

from forewarn.cli.demo import _command


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "bin" / "forewarn"
    path.parent.mkdir()
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_a_program_on_the_path_is_called_by_its_name(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the program was started by its path."""
    monkeypatch.setenv("PATH", str(program.parent))
    monkeypatch.setattr(sys, "argv", [str(program), "demo"])

    assert _command() == "forewarn"


def test_a_program_that_is_not_the_one_on_the_path_is_called_by_its_own(
    program: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The one on the path may be of another version."""
    own = tmp_path / "forewarn"
    monkeypatch.setenv("PATH", str(program.parent))
    monkeypatch.setattr(sys, "argv", [str(own), "demo"])

    assert _command() == str(own)


def test_a_module_is_called_by_its_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no program then."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "argv", ["/lib/forewarn/__main__.py", "demo"])

    assert _command() == f"{sys.executable} -m forewarn"
