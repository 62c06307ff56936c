"""Nodes as real processes on PostgreSQL: whichever of them ends or stops, nothing is lost or done twice."""

from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from forewarn.cluster.membership import LEASE
from tests.cluster.cluster_processes import PATIENCE, ClusterProcesses, until

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


def test_every_node_answers_what_the_leader_decided(cluster: ClusterProcesses) -> None:
    """One leads, the fleet file is applied once, and all show the same bytes."""
    cluster.start()
    until(lambda: cluster.leader().ask(1)[0] == 200)
    until(lambda: all(node.ask(1)[0] == 200 for node in cluster.nodes.values()))
    cluster.check_documents()
    event = cluster.leader().restart_vm(1)
    for node in cluster.followers():
        until(lambda node=node: event.encode() in node.document(2))  # type: ignore[misc]
    cluster.check_documents()


def test_a_request_may_reach_any_node(cluster: ClusterProcesses) -> None:
    """Enrolment, operations and approvals at a follower are carried out by the leader, and shown when answered."""
    cluster.start()
    follower, other = cluster.followers()
    assert follower.ask(1)[0] == 200
    event = follower.restart_vm(1)
    assert event.encode() in follower.document(1)
    assert other.approve(1, event) == 200
    until(lambda: [done for done, _ in cluster.impacts()] == [event])
    cluster.settle()
    cluster.check_documents()


def test_two_services_without_addresses_do_not_share_a_database(cluster: ClusterProcesses) -> None:
    """The second one ends; the first starts again after a kill, and so does one of another name after its end."""
    first, second, third = cluster.nodes.values()
    first.is_alone = second.is_alone = True
    first.start()
    until(first.is_leading)
    for other in (second, third):
        other.launch()
        assert other.process is not None
        assert other.process.wait(PATIENCE) == 2
        assert "node 'a' has no address for other nodes" in other.log
    first.kill()
    first.start()
    until(first.is_leading)
    assert first.ask(1)[0] == 200
    first.kill()
    second.start()
    until(second.is_leading)
    assert second.ask(1)[0] == 200


def test_a_leader_that_is_stopped_leaves_no_gap_that_a_vm_can_see(cluster: ClusterProcesses) -> None:
    """While it stops and another leads, every GET and every approval at the other nodes is answered 200."""
    cluster.start()
    leader = cluster.leader()
    follower, other = cluster.followers()
    assert leader.ask(1)[0] == 200
    stopping: Thread | None = None
    for vm in cluster.vms:
        event = follower.restart_vm(vm)
        if vm == 3:
            stopping = Thread(target=leader.stop)
            stopping.start()
        assert other.approve(vm, event) == 200
        assert other.ask(vm)[0] == follower.ask(vm)[0] == 200
    assert stopping is not None
    stopping.join()
    assert leader.process is not None
    assert leader.process.returncode == 0
    until(lambda: any(node.is_leading() for node in (follower, other)), LEASE)
    until(lambda: len(cluster.impacts()) == len(cluster.vms))
    cluster.settle()
    assert len({event for event, _ in cluster.impacts()}) == len(cluster.vms)
