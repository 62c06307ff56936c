"""Heartbeats: a node acts while its lease has certainly not ended, and leads while its clock is right."""

import asyncio
from datetime import timedelta
from threading import Event

import pytest

from forewarn.clocks import ManualClock
from forewarn.cluster import membership
from forewarn.core.errors import BadInput
from forewarn.journal.port import JournalFailed, NewerJournal
from forewarn.journal.shared import NodeReport
from tests.cluster.harness import ClusterHarness, NodeUnderTest, run, settle, until


def test_the_lease_ends_here_before_it_ends_in_the_database() -> None:
    """It counts from before the heartbeat was sent, with a margin."""

    async def story(cluster: ClusterHarness) -> None:
        node = await cluster.start("a")
        await cluster.leader()
        term = node.node.term
        cluster.cut_off.add("a")
        await cluster.pass_until(lambda: not node.cluster_node.membership.may_act(term))
        assert cluster.store.lease_until - cluster.clock.seconds() > 0.3
        assert node.cluster_node.membership.term == 0

    run(story)


def test_an_answer_that_comes_late_gives_no_right_to_act() -> None:
    """The database renewed the lease, and it has ended since."""

    async def story(cluster: ClusterHarness) -> None:
        node = await cluster.start("a")
        await cluster.leader()
        term = node.node.term
        reached, go_on = Event(), Event()

        def delay(_: str, call: str) -> None:
            if call == "heartbeat":
                reached.set()
                go_on.wait(20)

        cluster.store.after = delay
        await cluster.pass_until(reached.is_set)
        await cluster.advance(membership.LEASE)
        cluster.store.after = lambda *_: None
        assert not node.cluster_node.membership.may_act(term)
        go_on.set()
        await settle()
        assert not node.cluster_node.membership.may_act(term)
        await cluster.pass_until(lambda: node.is_leading)

    run(story)


@pytest.mark.end_to_end
@pytest.mark.parametrize("skew", [600, -600, 2.5, -2.5])
def test_a_node_with_a_wrong_clock_does_not_lead_and_says_so(skew: float) -> None:
    """It follows; when its clock is right again it may lead."""

    async def story(cluster: ClusterHarness) -> None:
        clock = ManualClock(cluster.clock.now() + timedelta(seconds=skew))
        node = await cluster.start("a", clock)
        await cluster.start("b")
        leader = await cluster.leader()
        assert leader.name == "b"
        await cluster.advance(5)
        (warning,) = [each for each in node.node.warnings.values() if "clock" in each]
        assert f"{abs(skew):.1f} s" in warning
        assert "does not lead" in warning
        assert ("ahead of" in warning) == (skew > 0)
        cluster.cut_off.add("b")
        await cluster.advance(10)
        assert not node.is_leading
        clock.step(timedelta(seconds=-skew))
        await cluster.pass_until(lambda: node.is_leading)
        assert "clock_skew" not in node.node.warnings

    run(story)


@pytest.mark.end_to_end
@pytest.mark.parametrize("skew", [3600, -3600])
def test_a_database_with_a_wrong_clock_is_led_by_nobody_until_it_is_mended(skew: float) -> None:
    """Such as a standby that was promoted: every node says so, and one leads when the clock is right."""

    async def story(cluster: ClusterHarness) -> None:
        nodes = [await cluster.start(name, ManualClock(cluster.clock.now())) for name in "abc"]
        terms = [(await cluster.leader()).node.term]
        for _ in range(2):
            cluster.clock.step(timedelta(seconds=skew))
            await cluster.pass_until(lambda: all("clock_skew" in each.node.warnings for each in nodes))
            for _ in range(10):
                await cluster.advance(1)
                assert not any(node.is_leading for node in nodes)
            assert all("this node's or the database's" in node.node.warnings["clock_skew"] for node in nodes)
            cluster.clock.step(timedelta(seconds=-skew))
            assert await cluster.pass_until(lambda: any(node.is_leading for node in nodes)) < 5
            terms.append((await cluster.leader()).node.term)
        assert terms == sorted(set(terms))

    run(story)


def test_a_leader_whose_clock_is_set_wrong_passes_leadership_on() -> None:
    """Deadlines go by the leader's clock."""

    async def story(cluster: ClusterHarness) -> None:
        clock = ManualClock(cluster.clock.now())
        first = await cluster.start("a", clock)
        await cluster.leader()
        second = await cluster.start("b")
        clock.step(timedelta(seconds=30))
        assert await cluster.pass_until(lambda: second.is_leading) < 2.5
        assert not first.is_leading

    run(story)


@pytest.mark.end_to_end
def test_a_skew_that_the_time_to_ask_explains_is_none() -> None:
    """A slow answer tells when the database's clock was read only roughly."""

    async def story(cluster: ClusterHarness) -> None:
        node = await cluster.start("a")
        await cluster.leader()
        reached, go_on = Event(), Event()

        def delay(_: str, call: str) -> None:
            if call == "heartbeat" and not go_on.is_set():
                reached.set()
                go_on.wait(20)

        cluster.store.before = delay
        await cluster.pass_until(reached.is_set)
        await cluster.advance(10)
        go_on.set()
        await settle()
        assert not node.cluster_node.membership.skew

    run(story)


def test_a_node_that_stops_while_it_takes_the_lease_gives_it_back() -> None:
    """Its heartbeat was on its way; else no node could lead until the lease ends by itself."""

    async def story(cluster: ClusterHarness) -> None:
        first = await cluster.start("a")
        await cluster.leader()
        node = await cluster.start("b")
        reached, go_on = Event(), Event()

        def delay(name: str, call: str) -> None:
            if (name, call) == ("b", "heartbeat"):
                reached.set()
                go_on.wait(20)

        cluster.cut_off.add(first.name)
        await cluster.pass_until(lambda: first.is_following)
        cluster.store.after = delay
        await cluster.pass_until(reached.is_set)
        assert getattr(cluster.store.leader, "name", "") == "b"
        stopping = asyncio.create_task(node.assembly.stop())
        await settle()
        cluster.store.after = lambda *_: None
        go_on.set()
        await stopping
        assert cluster.store.leader is None
        del cluster.nodes["b"]

    run(story)


@pytest.mark.end_to_end
def test_two_processes_of_one_name_are_told_so() -> None:
    """The second one does not start; the first goes on."""

    async def story(cluster: ClusterHarness) -> None:
        first = await cluster.start("a")
        await cluster.leader()
        second = NodeUnderTest(cluster, "a", cluster.clock)
        starting = asyncio.create_task(second.assembly.start())
        await cluster.pass_until(starting.done)
        with pytest.raises(BadInput, match="a name of its own"):
            await starting
        assert first.is_leading

    run(story)


@pytest.mark.parametrize("addresses", [("", ""), ("", "b:8256"), ("a:8256", "")])
def test_a_node_is_refused_where_the_others_are_not_reached_or_do_not_reach_it(addresses: tuple[str, str]) -> None:
    """They could not pass commands on; the node that runs goes on, and its warning ends with the other one."""

    async def story(cluster: ClusterHarness) -> None:
        first = await cluster.start("a", address=addresses[0])
        await cluster.leader()
        second = NodeUnderTest(cluster, "b", cluster.clock, addresses[1])
        starting = asyncio.create_task(second.assembly.start())
        await cluster.pass_until(lambda: "cluster" in first.node.warnings)
        await cluster.pass_until(starting.done)
        lacking = "this node" if addresses[0] else "node 'a'"
        with pytest.raises(BadInput, match=f"^{lacking} has no address .* memory: set cluster"):
            await starting
        assert first.is_leading
        await cluster.advance(2)
        assert "cluster" not in first.node.warnings

    run(story)


@pytest.mark.parametrize("end", ["stopped", "killed"])
@pytest.mark.parametrize("name", ["a", "b"])
def test_a_node_without_address_starts_where_no_other_one_is_alive(name: str, end: str) -> None:
    """One node on a database goes on to work alone: after a stop, after a kill, and under another name."""

    async def story(cluster: ClusterHarness) -> None:
        first = await cluster.start("a", address="")
        await cluster.leader()
        if end == "killed":
            cluster.cut_off.add("a")
        await first.assembly.stop()
        cluster.cut_off.clear()
        del cluster.nodes["a"]
        starting = asyncio.create_task(cluster.start(name, address=""))
        await cluster.pass_until(starting.done)
        again = await starting
        assert await cluster.pass_until(lambda: again.is_leading) < 5
        assert again.node.warnings == {}

    run(story)


def test_a_process_that_is_started_again_at_once_waits_for_its_own_lease() -> None:
    """The lease of the process before it ends by itself, and a new term begins."""

    async def story(cluster: ClusterHarness) -> None:
        first = await cluster.start("a")
        await cluster.leader()
        term = first.node.term
        cluster.cut_off.add("a")
        await first.assembly.stop()
        cluster.cut_off.clear()
        starting = asyncio.create_task(cluster.start("a"))
        assert await cluster.pass_until(starting.done) < 5
        again = await cluster.leader()
        assert again is not first
        assert again.node.term > term

    run(story)


def test_a_heartbeat_that_failed_is_sent_again_soon() -> None:
    """A node that finds the new primary at once leads sooner than one that waits for its next turn."""

    async def story(cluster: ClusterHarness) -> None:
        await cluster.start("a")
        await cluster.leader()
        cluster.cut_off.add("a")
        await cluster.advance(1.5)
        refuse, tried = cluster.store.before, []

        def count(node: str, call: str) -> None:
            tried.append(call)
            refuse(node, call)

        cluster.store.before = count
        await cluster.advance(1)

        assert tried.count("heartbeat") >= 4

    run(story)


def test_an_older_release_is_refused_by_newer_nodes() -> None:
    """It could not read what they write; the message names both formats."""

    async def story(cluster: ClusterHarness) -> None:
        newer = NodeReport(name="b", process="p", address="", release="9", format=9, can_lead=False)
        cluster.store.beat(newer, 3.0)
        with pytest.raises(NewerJournal, match=r"write format 9, .* reads up to format 1: upgrade it"):
            await cluster.start("a")
        del cluster.nodes["a"]

    run(story)


def test_a_lease_that_came_too_late_is_given_back() -> None:
    """A heartbeat of a node that stops was delayed, and took the lease after it was released."""

    async def story(cluster: ClusterHarness) -> None:
        first, second = await cluster.start("a"), await cluster.start("b")
        leader = await cluster.leader()
        other = second if leader is first else first
        draining = asyncio.create_task(leader.cluster_node.drain())
        await cluster.pass_until(lambda: other.is_leading)
        await cluster.pass_until(draining.done)
        cluster.store.release(other.name, cluster.store.term)
        process = leader.cluster_node.membership._process
        late = NodeReport(name=leader.name, process=process, address="", release="1", format=1)
        term = cluster.store.beat(late, membership.LEASE).lease.term
        assert await cluster.pass_until(lambda: other.is_leading and cluster.store.term > term) < 3
        assert not leader.is_leading

    run(story)


def test_a_database_that_does_not_answer_is_reported_until_it_does() -> None:
    """Nothing leads meanwhile; the first node that reaches it again leads."""

    async def story(cluster: ClusterHarness) -> None:
        node = await cluster.start("a")
        await cluster.leader()
        cluster.cut_off.add("*")
        await cluster.pass_until(lambda: not node.is_leading)
        assert "does not answer" in node.node.warnings["heartbeat"]
        with pytest.raises(JournalFailed):
            node.journal.load()
        cluster.cut_off.clear()
        assert await cluster.pass_until(lambda: node.is_leading) < 5
        assert "heartbeat" not in node.node.warnings
        await until(lambda: node.node.writer.is_leading)

    run(story)
