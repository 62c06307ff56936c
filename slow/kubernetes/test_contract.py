"""The kubernetes handler keeps what every handler keeps, with a real API server and a real ``kill -9``."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from forewarn.agent.handler import Task
from forewarn.agent.handlers.kubernetes.handler import KubernetesHandler
from forewarn.testing.handler_contract import HandlerContract, HandlerTrial
from slow.kubernetes.calls import settings_for
from slow.kubernetes.cluster import NodeUnderTest

pytestmark = pytest.mark.end_to_end

DO_ELSEWHERE = """\
import sys
from pathlib import Path
import msgspec
from forewarn.agent.handlers.kubernetes.handler import KubernetesHandler
from forewarn.wire.document import ScheduledEvent
from slow.kubernetes.calls import do
settings, event = msgspec.json.decode(sys.stdin.buffer.read())
do(KubernetesHandler.from_settings(settings, Path()), msgspec.convert(event, ScheduledEvent))
"""


class KubernetesTrial(HandlerTrial):
    """A node with one pod that has to go."""

    longest_call = 20.0

    def __init__(self, directory: Path, node: NodeUnderTest) -> None:
        super().__init__(directory)
        self.node = node
        self.pod = node.add_pod("web")

    def make(self, **more: object) -> KubernetesHandler:
        return KubernetesHandler.from_settings(settings_for(self.node) | more, self.directory)

    def is_ready(self) -> bool:
        return self.node.is_cordoned() and self.pod not in self.node.pods()

    def is_back(self) -> bool:
        return not self.node.is_cordoned() and self.node.condition().get("status") != "True"

    def hang(self) -> bool:
        self.node.protect(self.pod)
        return True

    def get_ready_by_hand(self) -> bool:
        self.node.cordon()
        return True

    def crash_during(self, task: Task) -> None:
        self.node.protect(self.pod)
        program = subprocess.Popen([sys.executable, "-c", DO_ELSEWHERE], stdin=subprocess.PIPE)
        assert program.stdin is not None
        program.stdin.write(msgspec.json.encode([settings_for(self.node), task.event]))
        program.stdin.close()
        while not (self.node.is_cordoned() and self.node.events()):
            assert program.poll() is None
        program.kill()
        program.wait()
        self.node.protect(self.pod, allowed=1)


class TestContract(HandlerContract):
    """It keeps what every handler keeps."""

    @pytest.fixture
    def trial(self, tmp_path: Path, node: NodeUnderTest) -> Iterator[HandlerTrial]:
        with node.kubelet():
            yield KubernetesTrial(tmp_path / "kept", node)
