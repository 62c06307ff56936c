"""Requests to other nodes: a caller learns whether one was carried out, was not, or may have been."""

import asyncio

import pytest

from forewarn.cluster.leadership import KnownLeader
from forewarn.core.errors import OutcomeUnknown, Unavailable
from tests.cluster.peers.authority import Authority
from tests.cluster.peers.harness import echo, peer_client, peer_port
from tests.metadata.harness import on_both_loops
from tests.ports import free_port


@pytest.fixture
def nowhere() -> KnownLeader:
    return KnownLeader("n2", f"127.0.0.1:{free_port()}", 1)


@on_both_loops
async def test_a_node_that_is_not_there_was_asked_nothing(authority: Authority, nowhere: KnownLeader) -> None:
    """The caller may ask again; health names the node until it answers."""
    warnings: dict[str, str] = {}
    async with peer_client(authority.files(), warnings) as client:
        with pytest.raises(Unavailable) as refused:
            await client.post(nowhere, "/echo", b"hi", 5)
        assert not isinstance(refused.value, OutcomeUnknown)
        assert str(refused.value).startswith(f"node n2 at {nowhere.address} cannot be reached (")
        assert warnings == {"peers": str(refused.value)}
        async with peer_port(authority.files(), {"/echo": echo}) as port:
            await client.post(port.known(), "/echo", b"hi", 5)
        assert warnings == {}


@on_both_loops
async def test_the_certificate_must_name_the_address_that_is_called(authority: Authority) -> None:
    """A node that has another's address is not believed."""
    other = authority.certify("other", names="DNS:elsewhere.test")
    async with peer_port(other, {"/echo": echo}) as port, peer_client(authority.files()) as client:
        with pytest.raises(Unavailable, match=r"is not trusted: its certificate does not name 127\.0\.0\.1"):
            await client.post(port.known(), "/echo", b"hi", 5)


@on_both_loops
async def test_an_expired_certificate_of_the_server_is_not_trusted(authority: Authority) -> None:
    """The message says which node has to renew it."""
    expired = authority.certify("expired", days=0)
    async with peer_port(expired, {"/echo": echo}) as port, peer_client(authority.files()) as client:
        with pytest.raises(Unavailable, match=r"node n1 at .* is not trusted: its certificate has expired; renew it"):
            await client.post(port.known(), "/echo", b"hi", 5)


@on_both_loops
async def test_a_port_that_speaks_no_tls_is_named_as_such(authority: Authority) -> None:
    """Somebody gave the address of another port."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, peer_client(authority.files()) as client:
        with pytest.raises(Unavailable, match="does not speak TLS"):
            await client.post(KnownLeader("n2", address, 1), "/echo", b"hi", 5)


@on_both_loops
async def test_a_response_that_does_not_come_leaves_the_outcome_unknown(authority: Authority) -> None:
    """The node may have done it."""
    asked, is_over = asyncio.Event(), asyncio.Event()

    async def be_silent(_: bytes) -> bytes:
        asked.set()
        await is_over.wait()
        return b""

    async with peer_port(authority.files(), {"/silent": be_silent}) as port, peer_client(authority.files()) as client:
        with pytest.raises(OutcomeUnknown, match=r"node n1 did not answer within 0\.2 s"):
            await client.post(port.known(), "/silent", b"hi", 0.2)
        assert asked.is_set()
        is_over.set()


@on_both_loops
async def test_a_connection_that_ends_leaves_the_outcome_unknown(authority: Authority) -> None:
    """The leader's process ended after it had read the request."""

    async def end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1000)
        writer.close()

    context = authority.files().server.context
    server = await asyncio.start_server(end, "127.0.0.1", 0, ssl=context)
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, peer_client(authority.files()) as client:
        with pytest.raises(OutcomeUnknown, match="node n2 closed the connection"):
            await client.post(KnownLeader("n2", address, 1), "/echo", b"hi", 5)


@on_both_loops
async def test_an_idle_connection_that_ended_is_not_used(authority: Authority) -> None:
    """The leader was started again between two requests."""
    certificates = authority.files()
    async with peer_client(certificates) as client:
        async with peer_port(certificates, {"/echo": echo}) as port:
            leader = port.known()
            await client.post(leader, "/echo", b"hi", 5)
        with pytest.raises(Unavailable) as refused:
            await client.post(leader, "/echo", b"hi", 5)
        assert not isinstance(refused.value, OutcomeUnknown)
