"""Sends requests to other nodes, over connections that are kept open."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from http import HTTPStatus

import msgspec

from forewarn.cluster.leadership import KnownLeader
from forewarn.cluster.peers.certificates import PeerCertificates, explain
from forewarn.cluster.peers.messages import LARGEST_MESSAGE, MISDIRECTED, decode_leader
from forewarn.core.errors import OutcomeUnknown, Unavailable
from forewarn.http.async_connection import AsyncHttpConnection
from forewarn.http.codec import HttpRequest, MalformedResponse
from forewarn.http.connection import ConnectionEnded

log = logging.getLogger(__name__)

_CONNECT = 2.0
_KEPT = 8
"""Idle connections to one node."""
_IDLE = 30.0
"""Seconds for which an idle connection is used again; the server keeps it for longer."""
_TOPIC = "peers"


class NotLeader(Unavailable):
    """The node that was asked does not lead; nothing was done."""

    def __init__(self, leader: KnownLeader | None) -> None:
        super().__init__("the node that was asked does not lead any more; ask again")
        self.leader = leader
        """The leader that it knows."""


class PeerResponse:
    """A response that has begun."""

    def __init__(self, connection: AsyncHttpConnection, name: str) -> None:
        self.status = connection.codec.status
        self.headers = connection.codec.fields
        self._connection = connection
        self._name = name

    async def read(self) -> bytes:
        """Return what comes next of the body; nothing at its end."""
        try:
            return await self._connection.read()
        except (OSError, MalformedResponse) as error:
            raise _lost(self._name, error) from None

    async def whole(self) -> bytes:
        """Return the whole body of a message."""
        body = b""
        while data := await self.read():
            body += data
            if len(body) > LARGEST_MESSAGE:
                raise OutcomeUnknown(f"node {self._name} sends more than {LARGEST_MESSAGE >> 20} MiB")
        return body


class PeerClient:
    """Talks to the peer ports of other nodes.

    ``Unavailable``: the request was not carried out. ``OutcomeUnknown``: it may have been.
    """

    def __init__(self, certificates: PeerCertificates, warnings: dict[str, str]) -> None:
        """``warnings`` gets which node cannot be reached, and why."""
        self._certificates = certificates
        self._warnings = warnings
        self._idle: dict[str, deque[tuple[float, AsyncHttpConnection]]] = {}
        self._limits: dict[asyncio.Timeout, KnownLeader] = {}
        """What is under way."""

    async def post(self, leader: KnownLeader, target: str, body: bytes, seconds: float) -> bytes:
        """Send a message to the leader, and return its answer."""
        request = HttpRequest(method="POST", target=target, host=leader.address, body=body)
        try:
            async with self.within(leader, seconds), self.begin(leader, request) as response:
                answer = await response.whole()
        except TimeoutError:
            raise OutcomeUnknown(f"node {leader.name} did not answer within {seconds:g} s; ask again") from None
        if response.status != HTTPStatus.OK:
            raise Unavailable(f"node {leader.name} answered {response.status}: {answer[:200].decode('latin-1')}")
        return answer

    @asynccontextmanager
    async def within(self, leader: KnownLeader, seconds: float) -> AsyncIterator[None]:
        """Raise TimeoutError after some seconds, or when another node leads."""
        limit = asyncio.timeout(seconds)
        self._limits[limit] = leader
        try:
            async with limit:
                yield
        finally:
            del self._limits[limit]

    def abandon(self, leader: KnownLeader | None) -> None:
        """Wait no longer for answers of nodes that led before this one: they may be stopped, and never answer."""
        for limit, asked in tuple(self._limits.items()):
            if leader is not None and asked.term < leader.term and not limit.expired():
                limit.reschedule(0.0)

    @asynccontextmanager
    async def begin(
        self, leader: KnownLeader, request: HttpRequest, body: AsyncIterator[bytes] | None = None
    ) -> AsyncIterator[PeerResponse]:
        """Send a request; the response has begun, and is read while the context is open."""
        connection = await self._connection(leader)
        is_kept = False
        try:
            response = await self._start(leader, connection, request, body)
            if response.status != MISDIRECTED:
                yield response
                is_kept = connection.is_reusable
                return
            known = _read_leader(await response.whole())
            is_kept = connection.is_reusable
        finally:
            if is_kept:
                self._keep(leader.address, connection)
            else:
                connection.close()
        raise NotLeader(known)

    def close(self) -> None:
        """Close all connections that are not in use, and warn of no node."""
        self._warnings.pop(_TOPIC, None)
        for connections in self._idle.values():
            for _, connection in connections:
                connection.close()
        self._idle.clear()

    async def _connection(self, leader: KnownLeader) -> AsyncHttpConnection:
        idle = self._idle.get(leader.address)
        while idle:
            since, connection = idle.pop()
            if asyncio.get_running_loop().time() - since < _IDLE and connection.is_reusable:
                return connection
            connection.close()
        host, port = _host_and_port(leader.address)
        if not port:
            raise Unavailable(f"the address of node {leader.name} is not known; ask again")
        try:
            return await AsyncHttpConnection.open(host, port, self._certificates.client, _CONNECT)
        except OSError as error:
            raise self._failed(leader, explain(error, host)) from None

    async def _start(
        self,
        leader: KnownLeader,
        connection: AsyncHttpConnection,
        request: HttpRequest,
        body: AsyncIterator[bytes] | None,
    ) -> PeerResponse:
        try:
            await connection.start(request, body)
        except (OSError, MalformedResponse) as error:
            if connection.has_received or not (own := self._certificates.warning(datetime.now(UTC))):
                raise _lost(leader.name, error) from None
            # TLS 1.3: a server that refuses a certificate hangs up after the handshake. It has read nothing.
            raise self._failed(leader, f"hangs up: {own}") from None
        self._warnings.pop(_TOPIC, None)
        return PeerResponse(connection, leader.name)

    def _failed(self, leader: KnownLeader, why: str) -> Unavailable:
        said = f"node {leader.name} at {leader.address} {why}"
        if self._warnings.get(_TOPIC) != said:
            self._warnings[_TOPIC] = said
            log.warning("a node cannot be asked", extra={"fields": {"reason": said}})
        return Unavailable(said)

    def _keep(self, address: str, connection: AsyncHttpConnection) -> None:
        idle = self._idle.setdefault(address, deque())
        idle.append((asyncio.get_running_loop().time(), connection))
        if len(idle) > _KEPT:
            idle.popleft()[1].close()


def _host_and_port(address: str) -> tuple[str, int]:
    """Return the parts of HOST:PORT; no port without an address."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port or 0)


def _lost(name: str, error: Exception) -> OutcomeUnknown:
    if isinstance(error, ConnectionEnded | MalformedResponse):
        said = str(error)
    else:
        said = f"broke the connection ({getattr(error, 'strerror', '') or type(error).__name__})"
    return OutcomeUnknown(f"node {name} {said}; it is not known whether this was done: ask again")


def _read_leader(body: bytes) -> KnownLeader | None:
    try:
        return decode_leader(body)
    except msgspec.DecodeError:
        return None
