"""The real agent, with the shipped configuration, between the real service and a real API server."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from forewarn.core.model import EventStatus
from forewarn.emulator import Emulator
from slow.kubernetes.calls import settings_for
from slow.kubernetes.cluster import Cluster, NodeUnderTest
from slow.kubernetes.manifests import PATHS

pytestmark = pytest.mark.end_to_end

PATIENCE = 30.0


@contextmanager
def agent(place: Path, url: str) -> Iterator["subprocess.Popen[bytes]"]:
    settings = {"url": url, "name": "web-0", "state": f"{place}/state", "socket": "off", "http": "off"}
    environment = {f"FOREWARN_AGENT_{name.upper()}": value for name, value in settings.items()}
    command = [sys.executable, "-m", "forewarn", "agent", "--config", f"{place}/agent.toml"]
    with subprocess.Popen(command, env=os.environ | environment) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_node_is_drained_before_its_vm_reboots_though_the_agent_dies(
    cluster: Cluster, node: NodeUnderTest, tmp_path: Path
) -> None:
    """Killed while a budget keeps it waiting, the agent goes on where it was; it approves when the node is empty."""
    shipped = cluster.ask("GET", f"{PATHS['ConfigMap']}/forewarn-agent")["data"]["agent.toml"]
    way = "\n".join(f'{name} = "{value}"' for name, value in settings_for(node).items())
    (tmp_path / "agent.toml").write_text(f"{shipped}\n{way}\n")
    pod = node.add_pod("web")
    node.protect(pod)

    with Emulator("web-0", clock="system") as emulator, node.kubelet():
        url = emulator.url_of("web-0")
        with agent(tmp_path, url) as first:
            assert emulator.wait_for(lambda: bool(emulator.requests), PATIENCE)
            event = emulator.vm("web-0").reboot()
            wait_until(lambda: node.is_cordoned() and bool(node.events()))
            first.kill()
        assert event.status is EventStatus.SCHEDULED
        with agent(tmp_path, url):
            node.protect(pod, allowed=1)
            wait_until(lambda: event.status is EventStatus.STARTED)
            assert node.pods() == set()
            assert node.is_cordoned()
            emulator.advance("30m")
            wait_until(lambda: event.is_over and not node.is_cordoned())
            wait_until(lambda: any(each["reason"] == "MaintenanceOver" for each in node.events()))
            assert node.condition()["status"] == "False"
