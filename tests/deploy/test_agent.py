"""The agent's unit for systemd and the example beside it: valid, hardened, and true to what the agent does."""

import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
import tomllib
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from forewarn.agent import settings
from forewarn.agent.decision.plan import OnFailure
from forewarn.agent.runtime.assembly import holding_by_default, make_handlers
from forewarn.cli.root import EXIT_CODES
from forewarn.core.errors import BadInput

DEPLOY = Path(__file__).parents[2] / "deploy" / "agent"
UNIT = (DEPLOY / "forewarn-agent.service").read_text(encoding="utf-8")
COMMAND = Path(sys.executable).with_name("forewarn")


def said(key: str) -> str:
    """Return what the unit says of a key."""
    (value,) = re.findall(rf"^{key}=(.*)$", UNIT, re.MULTILINE)
    return str(value)


def analyzed(directory: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    unit = directory / "forewarn-agent.service"
    unit.write_text(UNIT.replace("/opt/forewarn/bin/forewarn", str(COMMAND)), encoding="utf-8")
    return subprocess.run(
        ["systemd-analyze", *words, str(unit)], check=False, capture_output=True, text=True, timeout=60
    )


@pytest.mark.end_to_end
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    """Without an error, and without a warning."""
    checked = analyzed(tmp_path, "verify", "--man=no")

    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")


@pytest.mark.end_to_end
def test_systemd_finds_the_unit_hardened(tmp_path: Path) -> None:
    """Its exposure, as systemd counts it, is below 3 of 10."""
    checked = analyzed(tmp_path, "security", "--offline=yes", "--threshold=30", "--no-pager")

    assert checked.returncode == 0, checked.stdout


def test_the_unit_says_what_the_agent_does() -> None:
    """It is ready when it says so, watched, started again; a wrong configuration is not tried again."""
    assert said("Type") == "notify"
    assert said("Restart") == "on-failure"
    assert said("RestartPreventExitStatus") == str(EXIT_CODES[BadInput])
    assert said("WatchdogSec") == "30s"
    assert said("ExecStart").endswith("/forewarn agent --config /etc/forewarn/agent.toml")


def test_the_units_directories_are_the_agents() -> None:
    """State and socket are where the agent looks for them unless told otherwise."""
    usual = settings.AgentSettings()

    assert usual.state == Path("/var/lib") / said("StateDirectory")
    assert usual.socket == Path("/run") / said("RuntimeDirectory") / "agent.sock"


def test_the_unit_tells_of_every_handler_what_it_needs() -> None:
    """Whoever uses one finds what is to be loosened."""
    table = UNIT.partition("# handler ")[2].partition("\nCapability")[0]
    kinds = {each.name for each in entry_points(group="forewarn.handlers")}

    assert {kind for kind in kinds if not re.search(rf"\b{kind}\b", table)} == set()


def test_whoever_installs_the_package_has_the_files() -> None:
    """The wheel brings them, where the unit and the guides say that they are."""
    root = DEPLOY.parents[1]
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    guides = "".join(page.read_text(encoding="utf-8") for page in (root / "docs" / "how-to").glob("*.md"))
    named = set(re.findall(r"/opt/forewarn/share/forewarn/([\w./-]+)", UNIT + guides))

    assert project["tool"]["hatch"]["build"]["targets"]["wheel"]["shared-data"] == {"deploy": "share/forewarn"}
    assert {"agent/forewarn-agent.service", "systemd/forewarn.service"} <= named
    assert {file for file in named if not (root / "deploy" / file).is_file()} == set()


def test_the_example_can_be_loaded() -> None:
    """Rules and handlers are such that an agent would take them, and installing the unit installs no dry run."""
    example = settings.load({}, {}, DEPLOY / "agent.toml")

    assert not example.dry_run
    assert set(make_handlers(example)) == {"say"}


def test_the_shipped_examples_agree(tmp_path: Path) -> None:
    """On what is done about a short freeze, and on what a failure means; the file says so itself."""
    manifest = (DEPLOY / "kubernetes" / "config.yaml").read_text(encoding="utf-8")
    (tmp_path / "agent.toml").write_text(textwrap.dedent(manifest.partition("agent.toml: |\n")[2]))
    plain, cluster = (settings.load({}, {}, path) for path in (DEPLOY / "agent.toml", tmp_path / "agent.toml"))

    assert plain.rules[0] == cluster.rules[0]
    assert plain.dry_run == cluster.dry_run
    for example in (plain, cluster):
        assert holding_by_default(example, make_handlers(example)) == []
        assert {each.terms.on_failure for each in example.handlers.values()} == {OnFailure.HOLD}


@pytest.mark.end_to_end
def test_the_agent_speaks_with_its_manager(tmp_path: Path) -> None:
    """Ready, alive, not ended by a hangup, stopping: a real process, and a socket such as systemd's."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(60)
        config = tmp_path / "agent.toml"
        config.write_text(
            'url = "http://127.0.0.1:9"\nname = "web-0"\nhttp = "off"\n'
            f'state = "{tmp_path}/state"\nsocket = "{tmp_path}/agent.sock"\n'
        )
        given = os.environ | {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "200000"}
        with (
            (tmp_path / "log").open("wb") as log,
            subprocess.Popen([COMMAND, "agent", "--config", config], env=given, stdout=log, stderr=log) as agent,
        ):
            try:
                heard = [manager.recv(4096).decode().partition("\n")[0] for _ in range(3)]
                agent.send_signal(signal.SIGHUP)
                assert manager.recv(4096) == b"WATCHDOG=1"
                agent.send_signal(signal.SIGTERM)
                while (last := manager.recv(4096).decode()) == "WATCHDOG=1":
                    pass
                ended = agent.wait(30)
            finally:
                agent.kill()

    assert heard == ["READY=1", "WATCHDOG=1", "WATCHDOG=1"]
    assert last == "STOPPING=1"
    assert ended == 0, (tmp_path / "log").read_text()
    assert "SIGHUP is ignored" in (tmp_path / "log").read_text()
