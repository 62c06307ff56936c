"""What nodes say to each other, as real processes on PostgreSQL."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest

from tests.cluster.cluster_processes import FOREWARN, ClusterProcesses, NodeProcess, until
from tests.cluster.peers.authority import Authority

pytestmark = pytest.mark.end_to_end


@pytest.fixture
def cluster(tmp_path: Path, database: str) -> Iterator[ClusterProcesses]:
    made = ClusterProcesses(tmp_path, f"postgresql:{database}")
    try:
        yield made
    finally:
        made.close()
    for node in made.nodes.values():
        assert "Traceback" not in node.log


def status(node: NodeProcess, *flags: str) -> str:
    command = [FOREWARN, "--data", str(node.data), "cluster", "status", *flags]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


def test_every_node_tells_how_all_of_them_are(cluster: ClusterProcesses) -> None:
    """The same leader, term and database from each; one that ended is silent."""
    cluster.start()
    leader = cluster.leader()
    for node in cluster.nodes.values():
        until = monotonic() + 20
        while len((result := json.loads(status(node, "--json")))["nodes"]) < len(cluster.nodes):
            assert monotonic() < until  # a node hears of another with its next heartbeat
        assert (result["node"], result["leader"]) == (node.name, leader.name)
        roles = {each["name"]: each["role"] for each in result["nodes"]}
        assert roles == {name: "leading" if name == leader.name else "following" for name in "abc"}
        assert result["database"].startswith("postgresql://")
        assert all(each["behind"] < 5 for each in result["nodes"])
    table = status(leader)
    assert max(map(len, table.splitlines())) <= 80
    follower = cluster.followers()[0]
    follower.kill()
    silent = next(each for each in json.loads(status(leader, "--json"))["nodes"] if each["name"] == follower.name)
    assert silent["role"] == "silent"
    assert "cannot be reached" in silent["warnings"][0]


def test_a_node_with_a_foreign_certificate_is_told_so(cluster: ClusterProcesses, tmp_path: Path) -> None:
    """It follows and answers VMs, but the leader does not listen to it; its log and its health say why."""
    foreign = Authority(tmp_path / "foreign")
    foreign.certify("c")
    cluster.start()
    assert cluster.leader().ask(1)[0] == 200
    third = next(node for node in cluster.nodes.values() if not node.is_leading())
    third.stop()
    certificate = ["--cluster-certificate", str(foreign.path("c.pem")), "--cluster-key", str(foreign.path("c.key"))]
    third.start(*certificate)

    until(lambda: "c.pem is not signed by the authority of this cluster" in third.log)
    with third.control() as client:
        warnings = client.health().warnings
    assert any("is not signed by the authority of this cluster" in each for each in warnings)
    assert third.ask(1)[0] == 200
