"""What the demo tells its user to type."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from forewarn.cli.demo import HURRY, _command
from forewarn.config.settings import Settings
from forewarn.fleetfile.parser import read_fleet_file
from forewarn.signals import Signals
from tests.cli.conftest import Forewarn


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


def test_the_demo_serves_its_own_fleet_with_shortened_times(
    forewarn: Forewarn, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As JSON it says where it answers, in one line."""
    served: list[Settings] = []

    def serve(read: Callable[[], Settings], announce: Callable[[], None], _: Signals) -> None:
        served.append(read())
        assert served[0].fleet
        assert "web-0" in read_fleet_file(served[0].fleet).vms
        announce()

    monkeypatch.setattr("forewarn.serving.serve", serve)
    ran = forewarn("demo", "--data", str(tmp_path / "demo"), "--json")

    assert (served[0].data, served[0].hurry) == (tmp_path / "demo", HURRY)
    assert json.loads(ran.out) == {
        "data": str(tmp_path / "demo"),
        "metadata": "http://127.0.0.1:8254",
        "control": "http://127.0.0.1:8255",
    }
