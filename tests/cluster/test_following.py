"""Following: the replica of a node is what the journal holds, also after a failover that lost entries."""

import pytest
from msgspec.structs import replace

from forewarn.cluster.metadata_service import ClusterMetadataService
from forewarn.journal.port import JournalFailed
from tests.cluster.harness import ClusterHarness, run, until


def test_entries_that_a_failover_lost_are_forgotten() -> None:
    """Nodes that had read them load the journal again; the leader, too, which leads in a new term from then on."""

    async def story(cluster: ClusterHarness) -> None:
        for name in "ab":
            await cluster.start(name)
        leader = await cluster.leader()
        follower = await cluster.follower()
        await cluster.add_fleet()
        await leader.node.submit(cluster.restart("web-0"))
        await cluster.pass_until(lambda: not leader.node.replica.fleet.events)
        await until(lambda: follower.node.replica.revision == cluster.store.revision)
        term = leader.node.term
        cluster.store.fail_over(lost=2)
        await cluster.pass_until(lambda: follower.cluster_node.follower.reloads == 1)
        assert "standby is synchronous" in follower.node.warnings["diverged"]
        await cluster.pass_until(lambda: cluster.store.term > term)
        leader = await cluster.leader()
        await leader.node.submit(cluster.restart("web-1"))
        await cluster.pass_until(lambda: not leader.node.replica.fleet.events)
        await cluster.advance(1)
        cluster.check_agreement()

    run(story)


def test_other_entries_in_place_of_the_lost_ones_are_noticed() -> None:
    """The revision alone does not tell: as many were appended as were lost."""

    async def story(cluster: ClusterHarness) -> None:
        for name in "ab":
            await cluster.start(name)
        leader = await cluster.leader()
        follower = await cluster.follower()
        await cluster.add_fleet()
        await until(lambda: follower.node.replica.revision == cluster.store.revision)
        cluster.cut_off.add(follower.name)
        await cluster.advance(1)
        revision = cluster.store.revision
        cluster.store.fail_over(lost=1)
        with_fewer = cluster.restart("web-0")
        assert leader.node.replica.revision == revision
        try:
            await leader.node.submit(with_fewer)
        except Exception:  # noqa: BLE001 - it is refused: the fleet is gone
            await cluster.add_fleet()
        cluster.cut_off.clear()
        await cluster.pass_until(lambda: follower.cluster_node.follower.reloads == 1)
        await cluster.advance(1)
        cluster.check_agreement()

    run(story)


@pytest.mark.end_to_end
def test_a_node_that_is_behind_says_so_and_stops_answering_if_told_to() -> None:
    """It answers again when it has caught up."""

    async def story(cluster: ClusterHarness) -> None:
        for name in "ab":
            await cluster.start(name)
        await cluster.leader()
        await cluster.add_fleet()
        follower = await cluster.follower()
        follower.assembly.settings = replace(follower.assembly.settings, answer_behind=False)
        await cluster.advance(3)
        assert not follower.cluster_node.is_behind

        def fail(node: str, call: str) -> None:
            if node == follower.name and call in ("follow", "entries"):
                raise JournalFailed("it cannot be read")

        cluster.store.before = fail
        await cluster.submit(cluster.restart("web-0"))
        await cluster.pass_until(lambda: follower.cluster_node.is_behind)
        view = follower.cluster_node.view()
        assert (view.role, view.is_behind) == ("following", True)
        assert view.revisions_behind > 0
        assert 10 < view.behind < 17
        await cluster.advance(1)
        assert "check that it reaches the database" in follower.node.warnings["behind"]
        metadata = follower.assembly.metadata
        assert isinstance(metadata, ClusterMetadataService)
        said = [metadata.is_silent]
        cluster.store.before = lambda *_: None
        await cluster.pass_until(lambda: not follower.cluster_node.is_behind)
        await cluster.advance(1)
        assert "behind" not in follower.node.warnings
        assert [*said, metadata.is_silent] == [True, False]
        cluster.check_agreement()

    run(story)
