"""The agent that is measured."""

import subprocess
from pathlib import Path

import pytest

from bench.agents import Bell, render_config
from forewarn.agent.runtime.assembly import make_handlers
from forewarn.agent.settings import load


def test_the_agent_takes_its_configuration(tmp_path: Path) -> None:
    """Its rules, its socket and its metrics are as the page says, and all its handlers can be made."""
    bell = Bell(tmp_path / "bell")
    config = tmp_path / "agent.toml"
    config.write_text(render_config(8080, 8081, tmp_path, bell), "utf-8")
    settings = load({}, {}, config)

    assert len(make_handlers(settings)) == 5
    assert settings.socket
    assert settings.http
    bell.close()


@pytest.mark.end_to_end
def test_a_program_that_runs_is_heard(tmp_path: Path) -> None:
    """Once, with the word it was given; another word is a mistake of the bench."""
    bell = Bell(tmp_path / "bell")

    subprocess.run(bell.command("do"), check=True)
    bell.wait_for("do")
    subprocess.run(bell.command("undo"), check=True)
    with pytest.raises(SystemExit, match="should have said 'do', and said 'undo'"):
        bell.wait_for("do")
    bell.close()
