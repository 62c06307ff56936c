"""The guide to handlers: what it prints is installed as printed, keeps the contract, and is found by the agent."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.session import read

pytestmark = pytest.mark.end_to_end

GUIDE = Path(__file__).parents[2] / "docs/how-to/write-a-handler.md"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The guide's files, and what ``pip install`` makes of them."""
    project = tmp_path_factory.mktemp("project")
    for name, text in read(GUIDE.read_text(encoding="utf-8")).files.items():
        (project / name).write_text(text, encoding="utf-8")
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    run(project, "-m", "pip", "install", *options, "--target", "installed", ".")
    # From here on only what was installed can be found.
    (project / "health.py").unlink()
    return project


def run(project: Path, *words: str) -> str:
    environment = os.environ | {"PYTHONPATH": str(project / "installed")}
    ended = subprocess.run(
        [sys.executable, *words],
        cwd=project,
        env=environment,
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def test_the_installed_handler_keeps_the_contract(project: Path) -> None:
    """Every rule of the published suite."""
    assert "16 passed" in run(project, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_health.py")


def test_the_agent_finds_it_by_name(project: Path) -> None:
    """The guide's agent.toml is taken as it is."""
    assert "leave" in run(project, "-m", "forewarn", "agent", "check", "--config", "agent.toml")


def test_the_agent_has_it_do_and_undo(project: Path) -> None:
    """An event is played through it: the file is away while it is prepared, and back afterwards."""
    file = project / "healthy"
    file.touch()
    config = project / "agent.toml"
    config.write_text(config.read_text().replace("/var/www/healthy", str(file)))
    played = run(project, "-m", "forewarn", "agent", "test", "reboot", "--config", "agent.toml")

    assert "moved away for" in played
    assert file.exists()
