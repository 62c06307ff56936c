"""The state of all nodes: each of them is asked, and one that does not answer is told of."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from forewarn.cluster.peers.status import StatusCollector
from forewarn.control.bodies import ClusterView, NodeStatus, NodeView
from tests.cluster.peers.authority import Authority
from tests.cluster.peers.harness import peer_port
from tests.metadata.harness import on_both_loops

OTHER = NodeStatus(role="following", revision=95, behind=0.4, clock_skew=0.1, warnings=("the disk is full",))


def node(name: str, address: str = "", **more: object) -> NodeView:
    result = {"release": "1.0.0", "format": 3, "revision": 90, "can_lead": True, "age": 0.5}
    return NodeView(name=name, address=address, **(result | more))  # type: ignore[arg-type]


def view_of(*nodes: NodeView, leader: str = "n1") -> ClusterView:
    return ClusterView(
        node="n1",
        role="leading",
        leader=leader,
        term=7,
        heartbeat_age=0.5,
        revisions_behind=0,
        behind=0.0,
        is_behind=False,
        clock_skew=0.0,
        format=3,
        reloads=0,
        nodes=nodes,
    )


@asynccontextmanager
async def collector_of(authority: Authority, view: ClusterView) -> AsyncIterator[StatusCollector]:
    collector = StatusCollector(
        authority.files(), lambda: view, lambda: 100, {"clock": "the clock is wrong"}, "postgresql://db/forewarn"
    )
    try:
        yield collector
    finally:
        collector.close()


@on_both_loops
async def test_every_node_says_how_it_is(authority: Authority) -> None:
    """Also those that follow, and the one that was asked."""
    async with peer_port(authority.files(), {}, is_leading=False) as port:
        port.server.status = lambda: OTHER
        view = view_of(node("n1"), node("n2", f"127.0.0.1:{port.port}"))
        async with collector_of(authority, view) as collector:
            result = await collector.collect()

    assert (result.node, result.leader, result.term, result.revision) == ("n1", "n1", 7, 100)
    assert result.database == "postgresql://db/forewarn"
    first, second = result.nodes
    assert (first.role, first.revisions_behind, first.warnings) == ("leading", 0, ("the clock is wrong",))
    assert (second.role, second.revision, second.revisions_behind) == ("following", 95, 5)
    assert (second.behind, second.clock_skew, second.warnings) == (0.4, 0.1, ("the disk is full",))
    assert result.warnings == ()


@on_both_loops
async def test_a_node_that_does_not_answer_is_silent(authority: Authority) -> None:
    """What its last heartbeat said is shown, and why it did not answer."""
    view = view_of(node("n1"), node("n2", "127.0.0.1:1", age=12.0, revision=60), node("n3"))
    async with collector_of(authority, view) as collector:
        result = await collector.collect()

    _, gone, without_address = result.nodes
    assert (gone.role, gone.revisions_behind, gone.behind) == ("silent", 40, None)
    assert gone.warnings[0].startswith("node n2 at 127.0.0.1:1 cannot be reached")
    assert without_address.warnings == ("it has no address for other nodes (setting cluster)",)
    assert result.warnings == (
        "node n2 sent its last heartbeat 12 s ago; check that it runs and reaches the database",
    )


@on_both_loops
async def test_a_heartbeat_is_late_after_three_seconds(authority: Authority) -> None:
    """One is sent every second."""
    view = view_of(node("n1"), node("n2", age=3.0), node("n3", age=3.6))
    async with collector_of(authority, view) as collector:
        result = await collector.collect()

    assert [warning.partition(" sent")[0] for warning in result.warnings] == ["node n3"]


@on_both_loops
async def test_what_concerns_the_whole_cluster_is_warned_of(authority: Authority) -> None:
    """Nobody leads, and an upgrade is not finished."""
    view = view_of(node("n1", release="1.1.0"), node("n2", release="1.0.0"), node("n3", release="1.0.0"), leader="")
    async with collector_of(authority, view) as collector:
        result = await collector.collect()

    assert result.warnings == (
        "no node leads at present: changes are refused until one does",
        "the nodes run different releases: 1.0.0 (n2, n3), 1.1.0 (n1); finish the upgrade",
    )
    assert msgspec.json.decode(msgspec.json.encode(result))["nodes"][0]["release"] == "1.1.0"
