"""The pacemaker handler with a real cluster of two nodes."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from forewarn.agent.handler import Direction, HandlerDone, HandlerFailed, HandlerResult
from forewarn.agent.handlers.pacemaker import PacemakerHandler
from forewarn.testing.handler_contract import HandlerContract, HandlerTrial
from slow.pacemaker.cluster import Cluster

pytestmark = pytest.mark.end_to_end


class PacemakerTrial(HandlerTrial):
    """Node n1 is put into standby."""

    longest_call = 60.0
    slack = 2.0
    hanging_call = 4.0

    def __init__(self, directory: Path, cluster: Cluster) -> None:
        super().__init__(directory)
        self.cluster = cluster

    def make(self, **more: object) -> PacemakerHandler:
        return PacemakerHandler.from_settings({"poll": "0.2s"} | more, self.directory)

    def is_ready(self) -> bool:
        return self.cluster.is_standby() and not any("n1" in nodes for nodes in self.cluster.where().values())

    def is_back(self) -> bool:
        return not self.cluster.is_standby()

    def hang(self) -> bool:
        self.cluster.manage("web", is_managed=False)
        return True

    def get_ready_by_hand(self) -> bool:
        self.cluster.run("crm_attribute", "--node", "n1", "--name", "standby", "--update", "on")
        return True

    def do(self, *, seconds: float = 60, **more: object) -> HandlerResult:
        return self.make(**more).do(self.task(Direction.DO, seconds=seconds))

    def undo(self, *, seconds: float = 60, kept: dict[str, str] | None = None) -> HandlerResult:
        return self.make().undo(self.task(Direction.UNDO, seconds=seconds, kept=kept))


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    yield cluster
    cluster.close()


@pytest.fixture
def cluster(nodes: Cluster, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    nodes.settle()
    monkeypatch.setenv("PATH", f"{nodes.tools}:{os.environ['PATH']}")
    return nodes


@pytest.fixture
def trial(tmp_path: Path, cluster: Cluster) -> PacemakerTrial:
    return PacemakerTrial(tmp_path / "kept", cluster)


class TestPacemakerHandler(HandlerContract):
    """It keeps the contract."""

    @pytest.fixture
    def trial(self, tmp_path: Path, cluster: Cluster) -> HandlerTrial:
        return PacemakerTrial(tmp_path / "kept", cluster)


def reason(answer: HandlerResult) -> str:
    assert isinstance(answer, HandlerFailed), answer
    return answer.reason


def test_done_means_that_everything_runs_elsewhere(trial: PacemakerTrial) -> None:
    """What is slow to stop and to start has arrived at the other node, and comes home afterwards."""
    answer = trial.do()

    assert answer == HandlerDone({"n1": "off"}, "nothing runs on n1")
    assert trial.cluster.where() == {"web": ["n2"], "database": ["n2"], "watcher": ["n2"]}
    assert trial.undo(kept=answer.kept) == HandlerDone(detail="standby ended: n1")
    trial.cluster.settle()


def test_a_standby_outlives_the_reboot_and_is_ended_after_it(trial: PacemakerTrial) -> None:
    """The node comes back in standby; undo, called before the cluster is up, waits for it."""
    answer = trial.do()
    assert isinstance(answer, HandlerDone)
    trial.cluster.cut_power()
    assert reason(trial.undo(kept=answer.kept, seconds=1))
    trial.cluster.start()

    assert trial.undo(kept=answer.kept) == HandlerDone(detail="standby ended: n1")
    assert not trial.cluster.is_standby()


def test_what_stays_is_named(trial: PacemakerTrial) -> None:
    """The reason names the resource that the cluster does not move, and why."""
    trial.hang()

    assert (
        reason(trial.do(seconds=5))
        == "the deadline passed before all resources had left n1: web started (not managed)"
    )


def test_a_node_may_be_named(trial: PacemakerTrial) -> None:
    """The cluster is not asked for the name then; a wrong one is told in its own words."""
    assert "Could not map name=n9" in reason(trial.do(node="n9"))
    assert isinstance(trial.do(node="n1"), HandlerDone)
    assert trial.is_ready()
