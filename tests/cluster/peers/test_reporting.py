"""Reports to the leader: it records what other nodes answered as it does with its own requests."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from forewarn.cluster.leadership import KnownLeader
from forewarn.cluster.peers.client import PeerClient
from forewarn.cluster.peers.messages import REPORTS
from forewarn.cluster.peers.rates import NodeRates, RateExchange
from forewarn.cluster.peers.reporting import NodeReporting, ReportReceiver
from forewarn.core.facts import Enrolled, Fetch
from forewarn.metadata.limits import Limits
from tests.cluster.peers.authority import Authority
from tests.cluster.peers.harness import FixedLeadership, PeerPort, peer_client, peer_port
from tests.metadata.harness import NOW, WEB, MetadataHarness, on_both_loops


class ReportingNode:
    """A node that answers VMs."""

    def __init__(
        self,
        name: str,
        client: PeerClient,
        leader: KnownLeader | None = None,
        every: timedelta = timedelta(seconds=1),
    ) -> None:
        self.site = MetadataHarness(Limits())
        self.site.commit(WEB, Enrolled("web", NOW, ""))
        self.leadership = FixedLeadership(leader)
        self.rates = NodeRates(self.site.service, self.site.document_cache, self.site.seconds)
        self.site.service.set_limits(Limits())
        self.exchange = RateExchange(self.site.seconds)
        self.reporting = NodeReporting(
            name,
            client,
            self.leadership,
            self.site.records,
            self.rates,
            self.exchange,
            self.site.clock,
            self._count_nodes,
            every,
            most_fetches=3,
        )
        self.reports = 0
        self.receiver = ReportReceiver(self.site.records, self.exchange, self.site.seconds)
        self.documents = self.site.document_cache.groups["web"]

    def _count_nodes(self) -> int:
        self.reports += 1  # each report asks once
        return 2

    def ask(self, vm: str) -> None:
        self.documents.asked, self.documents.asked_by = self.site.seconds(), vm


class ReportingPair:
    """A leader and a follower; their clocks differ."""

    def __init__(self, leader: ReportingNode, follower: ReportingNode, port: PeerPort) -> None:
        self.leader = leader
        self.follower = follower
        self.port = port


@asynccontextmanager
async def reporting_pair(authority: Authority) -> AsyncIterator[ReportingPair]:
    async with peer_client(authority.files()) as client:
        leader, follower = ReportingNode("n1", client), ReportingNode("n2", client)
        leader.leadership.is_leading = True
        leader.site.move(10_000)
        async with peer_port(authority.files(), {REPORTS: leader.receiver.answer}) as port:
            follower.leadership.leader = port.known()
            yield ReportingPair(leader, follower, port)


@on_both_loops
async def test_the_leader_learns_who_asked_another_node_and_when(authority: Authority) -> None:
    """A group that asks only that node is not switched off; the clocks of the nodes need not agree."""
    async with reporting_pair(authority) as pair:
        pair.follower.site.move(100)
        pair.follower.ask("web-1")
        pair.follower.site.move(2.5)
        await pair.follower.reporting.report()

        marked = pair.leader.site.records.last_asked("web")
        assert marked is not None
        assert marked.by == "web-1"
        assert (pair.leader.site.clock.now() - marked.at).total_seconds() == pytest.approx(2.5, abs=0.01)


@on_both_loops
async def test_the_leader_learns_who_was_shown_what(authority: Authority) -> None:
    """Each fetch is reported once, however many there are."""
    fetches = tuple(Fetch(f"e{number}", "web-0", NOW) for number in range(7))
    async with reporting_pair(authority) as pair:
        pair.follower.site.records.add_fetches(fetches)
        await pair.follower.reporting.report()
        await pair.follower.reporting.report()
        assert pair.leader.site.records.take_fetches() == fetches


@on_both_loops
async def test_what_did_not_arrive_is_reported_again(authority: Authority) -> None:
    """The node that led was gone; the next one is told."""
    async with reporting_pair(authority) as pair:
        follower = pair.follower
        known, follower.leadership.leader = follower.leadership.leader, KnownLeader("n3", "127.0.0.1:1", 1)
        follower.site.move(100)
        follower.ask("web-1")
        follower.site.records.add_fetches((Fetch("e1", "web-1", NOW),))
        await follower.reporting.report()
        assert pair.leader.documents.asked_by == ""

        follower.leadership.leader = known
        await follower.reporting.report()
        assert pair.leader.documents.asked_by == "web-1"
        assert len(pair.leader.site.records.take_fetches()) == 1


@on_both_loops
async def test_nodes_learn_what_vms_spent_on_the_others(authority: Authority) -> None:
    """Also the leader, which exchanges its own counts without the network."""
    async with reporting_pair(authority) as pair:
        for node in (pair.leader, pair.follower):
            await node.reporting.report()
        entries = [node.site.document_cache.vm_entries["127.0.0.1"] for node in (pair.leader, pair.follower)]
        for node, entry in zip((pair.leader, pair.follower), entries, strict=True):
            entry.spent_until = node.site.seconds() + 0.1
            assert node.site.service._rate.admit(entry, node.site.seconds()) == 0
        before = [entry.spent_until for entry in entries]
        for node in (pair.leader, pair.follower, pair.leader):
            await node.reporting.report()
        assert all(entry.spent_until > spent for entry, spent in zip(entries, before, strict=True))


@on_both_loops
async def test_a_node_reports_each_second_until_it_stops(authority: Authority) -> None:
    """The last report is sent when it stops."""
    async with reporting_pair(authority) as pair:
        follower = pair.follower
        follower.reporting.start()
        follower.site.move(1.5)
        follower.ask("web-1")
        await follower.reporting.stop()
        assert pair.leader.documents.asked_by == "web-1"


@on_both_loops
async def test_the_interval_of_reports_can_be_chosen(authority: Authority) -> None:
    """The next report is due that long after the last one."""
    async with peer_client(authority.files()) as client:
        node = ReportingNode("n1", client, every=timedelta(seconds=5))
        node.leadership.is_leading = True
        node.reporting.start()
        for seconds, reports in ((4.5, 0), (1.0, 1), (4.5, 1), (1.0, 2)):
            node.site.move(seconds)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert node.reports == reports
        await node.reporting.stop()
