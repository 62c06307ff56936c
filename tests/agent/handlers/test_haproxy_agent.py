"""A whole agent as a process, with a real HAProxy that it cannot drain: the approval is held, and undo complete."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from forewarn.agent.handlers.haproxy_socket import HaproxyServerState
from forewarn.core.model import EventStatus
from forewarn.emulator import Emulator
from tests.agent.handlers.balancer import Balancer, wait_until

pytestmark = pytest.mark.end_to_end

COMMAND = str(Path(sys.executable).with_name("forewarn"))

CONFIG = """\
url = "{url}"
state = "{place}/state"
socket = "{place}/agent.sock"
http = "off"

[[rules]]
handlers = ["well", "ill"]

[handlers.well]
kind = "haproxy"
socket = "{place}/admin.sock"
servers = ["web/a"]

[handlers.ill]
kind = "haproxy"
timeout = "2s"
poll = "0.1s"
"""


class AgentHarness:
    """An agent for web-0, and what it says."""

    def __init__(self, place: Path, url: str, ill: str) -> None:
        self._config = place / "agent.toml"
        self._config.write_text(CONFIG.format(place=place, url=url) + ill.format(place=place))
        self._log = place / "agent.log"
        with self._log.open("wb") as log:
            command = [COMMAND, "agent", "--config", str(self._config)]
            self._process = subprocess.Popen(command, stdout=log, stderr=log)

    def status(self) -> str:
        """Return what ``agent status`` prints; nothing while the agent does not listen yet."""
        assert self._process.poll() is None, self._log.read_text()
        words = [COMMAND, "agent", "status", "--wide", "--config", str(self._config)]
        return subprocess.run(words, check=False, capture_output=True, text=True, timeout=60).stdout

    def wait_for(self, said: str) -> str:
        """Return the status once it contains a text."""
        for _ in range(60):
            status = self.status()
            if said in status:
                return status
        raise AssertionError(f"{said!r} is not in\n{status}\n{self._log.read_text()}")

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(60)


@pytest.fixture
def balancer(tmp_path: Path) -> Iterator[Balancer]:
    balancer = Balancer(tmp_path)
    yield balancer
    balancer.close()


@pytest.mark.parametrize(
    ("ill", "reason"),
    [
        ('socket = "{place}/admin.sock"\nservers = ["web/bb"]\n', "has no server 'bb' in backend 'web'"),
        ('socket = "{place}/user.sock"\nservers = ["web/b"]\n', "its 'stats socket' needs 'level admin'"),
        ('socket = "{place}/admin.sock"\nservers = ["web/b"]\n', "the deadline passed with 1 sessions left"),
    ],
    ids=["unknown server", "error of the socket", "sessions left"],
)
def test_a_failed_drain_holds_the_approval_until_not_before(
    tmp_path: Path, balancer: Balancer, ill: str, reason: str
) -> None:
    """The event begins unapproved at its NotBefore; afterwards every server is ready again."""
    balancer.begin_slow("b")
    with Emulator("web-0", clock="system") as emulator:
        agent = AgentHarness(tmp_path, emulator.url, ill)
        try:
            agent.wait_for("web-0")
            event = emulator.vm("web-0").reboot()
            status = agent.wait_for("approval  held")
            assert "held: handler ill failed or was left out, so the event is not approved" in status
            assert reason in status
            assert balancer.state("a") is HaproxyServerState.DRAIN

            emulator.advance("14m")
            agent.wait_for("approval  held")
            assert (event.status, event.approved_by) == (EventStatus.SCHEDULED, ())
            emulator.advance("90s")
            assert event.status is not EventStatus.SCHEDULED
            assert event.approved_by == ()

            emulator.advance("30m")
            wait_until(lambda: {balancer.state(name) for name in "ab"} == {HaproxyServerState.READY})
            wait_until(lambda: "Reboot" not in agent.status())
        finally:
            agent.close()
