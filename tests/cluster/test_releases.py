"""Two releases next to each other run together, while nodes are upgraded one after another."""

import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from forewarn import __version__
from forewarn.cluster.membership import LEASE
from forewarn.control.bodies import TokenBody
from forewarn.core.errors import ForewarnError
from forewarn.core.fact import FORMAT
from forewarn.core.model import Role
from tests.cluster.cluster_processes import ENDS_WITH_TESTS, PATIENCE, ClusterProcesses, NodeProcess, until
from tests.cluster.newer_node import NEWER_RELEASE

pytestmark = pytest.mark.end_to_end

NEWER = [*ENDS_WITH_TESTS, sys.executable, "-m", "tests.cluster.newer_node"]


@pytest.fixture
def cluster(tmp_path: Path, database: str) -> Iterator[ClusterProcesses]:
    made = ClusterProcesses(tmp_path, f"postgresql:{database}", "ab", vms=3)
    try:
        yield made
    finally:
        made.close()
    for node in made.nodes.values():
        assert "Traceback" not in node.log


def test_nodes_are_upgraded_one_after_another(cluster: ClusterProcesses) -> None:
    """Both releases lead and follow; what the older one cannot read is written when the last node is upgraded."""
    first, second = cluster.nodes.values()
    older, second.program = first.program, NEWER
    first.start()
    until(first.is_leading)
    second.start()
    work_together(cluster, first, FORMAT)

    first.stop()
    until(second.is_leading)
    first.start()
    work_together(cluster, second, FORMAT)
    with pytest.raises(ForewarnError, match="upgrade all nodes"):
        create_token(first)

    first.stop()
    first.program = NEWER
    first.start()
    until(lambda: releases_seen_by(second)[0] == FORMAT + 1)
    work_together(cluster, second, FORMAT + 1)

    create_token(first)
    first.stop()
    before, first.program = len(first.log), older
    first.launch()
    assert first.process is not None
    assert first.process.wait(PATIENCE) == 2
    assert "was written by a newer release" in first.log[before:]


def test_a_node_of_an_older_release_that_was_away_says_what_it_lacks(
    cluster: ClusterProcesses, database: str
) -> None:
    """It was away for so long that the others did not wait for it; it leads no more until it is upgraded."""
    first, second = cluster.nodes.values()
    second.program = NEWER
    first.start()
    until(first.is_leading)
    second.start()
    first.stop()
    until(second.is_leading)
    first.start()
    first.freeze()
    with psycopg.connect(f"postgresql:{database}", autocommit=True) as connection:
        connection.execute("UPDATE forewarn.nodes SET heard_at = heard_at - interval '1 hour' WHERE name = 'a'")
    until(lambda: releases_seen_by(second)[0] == FORMAT + 1)
    create_token(second)
    first.signal(signal.SIGCONT)
    until(lambda: "what this release does not know" in first.log)
    second.stop()
    time.sleep(LEASE)
    view = first.view()
    assert view is not None
    assert view.role == "following"

    first.stop()
    first.program = NEWER
    first.start()
    until(first.is_leading)
    second.start()
    work_together(cluster, first, FORMAT + 1)


def work_together(cluster: ClusterProcesses, leader: NodeProcess, format_: int) -> None:
    """Announce and approve at each node what the other one shows; both show the same and name both releases."""
    assert leader.is_leading()
    nodes = [*cluster.nodes.values()]
    for node, other in zip(nodes, reversed(nodes), strict=True):
        until(lambda node=node: node.ask(1)[0] == 200)  # type: ignore[misc]
        done = len(cluster.impacts())
        event = node.restart_vm(1)
        until(lambda other=other, event=event: event.encode() in other.document(1))  # type: ignore[misc]
        assert other.approve(1, event) == 200
        until(lambda done=done: len(cluster.impacts()) == done + 1)  # type: ignore[misc]
        until(lambda event=event: all(event.encode() not in each.document(1) for each in nodes))  # type: ignore[misc]
    cluster.settle()
    cluster.check_documents()
    releases = {node.name: NEWER_RELEASE if node.program == NEWER else __version__ for node in nodes}
    for node in nodes:
        until(lambda node=node: releases_seen_by(node) == (format_, releases))  # type: ignore[misc]


def releases_seen_by(node: NodeProcess) -> tuple[int, dict[str, str]]:
    view = node.view()
    assert view is not None
    return view.format, {each.name: each.release for each in view.nodes}


def create_token(node: NodeProcess) -> None:
    with node.control() as client:
        client.create_token(TokenBody(name="ada", role=Role.OPERATOR))
