"""Nodes of a cluster on loopback, with real certificates; who leads is what the test says."""

import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from forewarn.cluster.leadership import KnownLeader
from forewarn.cluster.peers.certificates import PeerCertificates
from forewarn.cluster.peers.client import PeerClient
from forewarn.cluster.peers.server import LIMITS, AnswerMessage, PeerServer
from forewarn.config.values import ListenAddress
from forewarn.control.server.sockets import ServerLimits, listen


class FixedLeadership:
    """Who leads, as the test says."""

    def __init__(self, leader: KnownLeader | None = None, *, is_leading: bool = False) -> None:
        self.leader = leader
        self.is_leading = is_leading


class PeerPort:
    """The peer port of a node."""

    def __init__(self, server: PeerServer, leadership: FixedLeadership, listening: socket.socket) -> None:
        self.server = server
        self.leadership = leadership
        self.port: int = listening.getsockname()[1]

    def known(self, name: str = "n1", term: int = 1) -> KnownLeader:
        """Return how other nodes know this one."""
        return KnownLeader(name, f"127.0.0.1:{self.port}", term)


@asynccontextmanager
async def peer_port(
    certificates: PeerCertificates,
    messages: Mapping[str, AnswerMessage],
    limits: ServerLimits = LIMITS,
    *,
    is_leading: bool = True,
) -> AsyncIterator[PeerPort]:
    leadership = FixedLeadership(is_leading=is_leading)
    listening = listen(ListenAddress("127.0.0.1", 0))
    server = PeerServer(leadership, listening, certificates.server, messages, limits)
    await server.open()
    try:
        yield PeerPort(server, leadership, listening)
    finally:
        await server.close()
        listening.close()


@asynccontextmanager
async def peer_client(
    certificates: PeerCertificates, warnings: dict[str, str] | None = None
) -> AsyncIterator[PeerClient]:
    client = PeerClient(certificates, {} if warnings is None else warnings)
    try:
        yield client
    finally:
        client.close()


async def echo(body: bytes) -> bytes:
    """Answer with what was said."""
    return body
