"""Documents of the leader, over the network."""

from forewarn.cluster.leadership import KnownLeader
from forewarn.cluster.peers.document_forwarding import DocumentForwarding, DocumentReceiver
from forewarn.cluster.peers.messages import DOCUMENT, DocumentQuestion, encode
from forewarn.core.facts import Enrolled
from forewarn.metadata.limits import Limits
from forewarn.metadata.monotonic_reads import LeaderDocument
from tests.cluster.peers.authority import Authority
from tests.cluster.peers.harness import FixedLeadership, peer_client, peer_port
from tests.metadata.harness import NOW, WEB, MetadataHarness, on_both_loops


async def certain() -> bool:
    return True


async def uncertain() -> bool:
    return False


@on_both_loops
async def test_a_leader_that_may_lack_something_sends_no_document() -> None:
    """While the outcome of an append is unknown, the asking node may hold more."""
    site = MetadataHarness(Limits())
    site.commit(WEB)
    question = encode(DocumentQuestion("web-0", "2020-07-01"))
    assert await DocumentReceiver(site.service, uncertain).answer(question) == encode(None)
    assert await DocumentReceiver(site.service, certain).answer(question) != encode(None)


@on_both_loops
async def test_a_document_is_fetched_from_the_node_that_leads(authority: Authority) -> None:
    """Also by way of one that led before."""
    site = MetadataHarness(Limits())
    site.commit(WEB, Enrolled("web", NOW, ""))
    site.announce("e1")
    messages = {DOCUMENT: DocumentReceiver(site.service, certain).answer}
    async with (
        peer_port(authority.files(), messages) as port,
        peer_port(authority.files(), messages, is_leading=False) as old,
        peer_client(authority.files()) as client,
    ):
        old.leadership.leader = port.known(term=2)
        leadership = FixedLeadership(old.known(term=1))
        forwarding = DocumentForwarding(client, leadership, certain)
        found = await forwarding.fetch("web-0", 3)
        assert found == site.service.document_for_peer("web-0", 3)
        assert isinstance(found, LeaderDocument)
        assert await forwarding.fetch("gone", 3) is None


@on_both_loops
async def test_a_node_that_led_refers_only_to_a_later_term(authority: Authority) -> None:
    """Else two nodes could refer to each other for ever."""
    site = MetadataHarness(Limits())
    site.commit(WEB, Enrolled("web", NOW, ""))
    messages = {DOCUMENT: DocumentReceiver(site.service, certain).answer}
    async with (
        peer_port(authority.files(), messages) as port,
        peer_port(authority.files(), messages, is_leading=False) as old,
        peer_client(authority.files()) as client,
    ):
        old.leadership.leader = port.known(term=1)
        forwarding = DocumentForwarding(client, FixedLeadership(old.known(term=1)), certain)
        assert await forwarding.fetch("web-0", 3) is None


@on_both_loops
async def test_without_a_leader_there_is_no_document(authority: Authority) -> None:
    """Nobody leads, the leader does not answer, or it knows nobody else."""
    async with (
        peer_port(authority.files(), {}, is_leading=False) as port,
        peer_client(authority.files()) as client,
    ):
        for leader in (None, KnownLeader("n2", "127.0.0.1:1", 1), port.known()):
            assert await DocumentForwarding(client, FixedLeadership(leader), certain).fetch("web-0", 3) is None


@on_both_loops
async def test_a_version_that_the_leader_does_not_know_has_no_document() -> None:
    """A node of another release asks for it."""
    site = MetadataHarness(Limits())
    site.commit(WEB)
    question = encode(DocumentQuestion("web-0", "2099-01-01"))
    assert await DocumentReceiver(site.service, certain).answer(question) == encode(None)
