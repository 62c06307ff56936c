"""The peer port: nothing of it is reachable without a certificate of the cluster's authority."""

import asyncio
import ssl
from contextlib import suppress

import pytest

from forewarn.cluster.leadership import KnownLeader
from forewarn.cluster.peers.client import NotLeader
from forewarn.cluster.peers.messages import LARGEST_MESSAGE
from forewarn.cluster.peers.server import LIMITS
from forewarn.control.server.sockets import ServerLimits
from forewarn.core.errors import Unavailable
from tests.cluster.peers.authority import Authority
from tests.cluster.peers.harness import echo, peer_client, peer_port
from tests.metadata.harness import on_both_loops


async def _answer_to(port: int, tls: ssl.SSLContext | None, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
    writer.write(request)
    try:
        return await reader.read(1000)
    finally:
        writer.close()


def _anybody() -> ssl.SSLContext:
    """Return a client that shows no certificate and checks none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


@on_both_loops
async def test_a_caller_without_a_certificate_gets_no_answer(authority: Authority) -> None:
    """The connection ends before anything is read."""
    heard: list[bytes] = []

    async def hear(body: bytes) -> bytes:
        heard.append(body)
        return body

    async with peer_port(authority.files(), {"/echo": hear}) as port:
        for tls in (_anybody(), None):
            with suppress(ssl.SSLError, ConnectionError):
                answer = await _answer_to(port.port, tls, b"POST /echo HTTP/1.1\r\nHost: n1\r\n\r\n")
                assert not answer.startswith(b"HTTP")
    assert heard == []


@on_both_loops
async def test_a_certificate_of_another_authority_is_refused(
    authority: Authority, foreign_authority: Authority
) -> None:
    """The node that shows it is told what is wrong with it."""
    warnings: dict[str, str] = {}
    foreign = foreign_authority.files(authority=authority)
    async with peer_port(authority.files(), {"/echo": echo}) as port, peer_client(foreign, warnings) as client:
        with pytest.raises(Unavailable, match=r"node n1 at .* hangs up: cluster_certificate .* is not signed by the"):
            await client.post(port.known(), "/echo", b"hi", 5)
        assert "is not signed by the authority of this cluster" in warnings["peers"]


@on_both_loops
async def test_an_expired_certificate_is_refused(authority: Authority) -> None:
    """The node that shows it is told so."""
    expired = authority.certify("expired", days=0)
    async with peer_port(authority.files(), {"/echo": echo}) as port, peer_client(expired) as client:
        with pytest.raises(Unavailable, match=r"hangs up: cluster_certificate .*expired\.pem has expired; renew it"):
            await client.post(port.known(), "/echo", b"hi", 5)


@on_both_loops
async def test_a_node_answers_messages_over_one_connection(authority: Authority) -> None:
    """The second message needs no new connection."""
    async with peer_port(authority.files(), {"/echo": echo}) as port, peer_client(authority.files()) as client:
        assert await client.post(port.known(), "/echo", b"one", 5) == b"one"
        assert await client.post(port.known(), "/echo", b"two" * 100_000, 5) == b"two" * 100_000


@on_both_loops
async def test_a_node_that_does_not_lead_names_the_leader(authority: Authority) -> None:
    """It does nothing of what it is asked for."""
    leader = KnownLeader("n2", "10.0.0.2:8257", 7)
    async with (
        peer_port(authority.files(), {"/echo": echo}, is_leading=False) as port,
        peer_client(authority.files()) as client,
    ):
        for known in (None, leader):
            port.leadership.leader = known
            with pytest.raises(NotLeader) as refused:
                await client.post(port.known(), "/echo", b"hi", 5)
            assert refused.value.leader == known


@on_both_loops
async def test_what_no_node_says_is_refused(authority: Authority) -> None:
    """Unknown paths, messages that are too large, and the control API before it has started."""
    async with peer_port(authority.files(), {"/echo": echo}) as port, peer_client(authority.files()) as client:
        with pytest.raises(Unavailable, match="answered 404: there is nothing here"):
            await client.post(port.known(), "/", b"hi", 5)
        with pytest.raises(Unavailable, match="answered 503: this node is starting"):
            await client.post(port.known(), "/control/v1/vms", b"hi", 5)
        with pytest.raises(Unavailable, match="answered 413: the message is too large"):
            await client.post(port.known(), "/echo", bytes(LARGEST_MESSAGE + 1), 5)


@on_both_loops
async def test_a_handshake_must_be_complete_in_time(authority: Authority) -> None:
    """Who says nothing holds no connection."""
    limits = ServerLimits(arrival=0.05)
    async with peer_port(authority.files(), {}, limits) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port.port)
        assert await reader.read() == b""
        writer.close()


@on_both_loops
async def test_one_address_has_a_limit_of_connections(authority: Authority) -> None:
    """Those above it are closed, and the others are answered."""
    certificates = authority.files()
    limits = ServerLimits(connections=LIMITS.connections, per_address=1)
    async with (
        peer_port(certificates, {"/echo": echo}, limits) as port,
        peer_client(certificates) as first,
        peer_client(certificates) as second,
    ):
        await first.post(port.known(), "/echo", b"hi", 5)
        with pytest.raises(Unavailable):
            await second.post(port.known(), "/echo", b"hi", 5)
        assert await first.post(port.known(), "/echo", b"hi", 5) == b"hi"
