"""Listener for VMs: binds the socket, accepts connections, applies connection limits.

The listener accepts connections itself: most carry plain requests only and are served by the fast path without a
transport. Connections with other requests are handed off to the event loop. On event loops that cannot watch a socket
(Windows) asyncio accepts instead.
"""

import asyncio
import contextlib
import errno
import logging
import os
import socket
import sys
from collections.abc import Sequence
from typing import cast

from forewarn.core.errors import Unavailable
from forewarn.metadata.caller import plain_address
from forewarn.metadata.connections import ConnectionRegistry
from forewarn.metadata.fast_path import FastPath, Handoff
from forewarn.metadata.http_connection import HttpConnection
from forewarn.metadata.request import CLOSE
from forewarn.wire.error_responses import ErrorResponse

log = logging.getLogger(__name__)

_FLAG = "--metadata HOST:PORT"
_BACKLOG = 4096
_AT_ONCE = 64
"""Connections accepted in one go, so that existing ones do not have to wait."""
_FIRST_READ = 4096
_DEFER_SECONDS = 1
_COMPLAIN_EVERY = 60.0
_Address = tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]
_NO_FILES_LEFT = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_PROGRAMMING_ERRORS = (errno.EBADF, errno.EINVAL, errno.ENOTSOCK, errno.EFAULT)


def bind(
    host: str, port: int, flag: str = _FLAG, *, ttl: int = 0, device: str = "", is_shared: bool = False
) -> list[socket.socket]:
    """Return bound sockets for that address; raise Unavailable with the reason and the flag that chooses another one.

    They do not listen yet: no connection is accepted before requests can be answered. ``ttl`` limits the hops of
    responses. With ``device``, only packets that arrive there reach the sockets. With ``is_shared``, other processes
    of this user may listen there too, and the kernel distributes the connections.
    """
    where = _where(host, port)
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError:
        raise Unavailable(f"cannot listen on {where}: {host!r} is not an address of this machine") from None
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            opened = socket.socket(family, kind, protocol)
            _limit(opened, ttl, device)
            if is_shared:
                opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            sockets.append(_claim(opened, address, is_one_of_many=len(found) > 1))
    except OSError as error:
        for opened in sockets:
            opened.close()
        raise Unavailable(f"cannot listen on {where}: {_remedy(error, port, flag)}") from None
    return sockets


def adopt(passed: Sequence[socket.socket], ttl: int = 0) -> Sequence[socket.socket]:
    """Configure sockets that a service manager opened, as ``bind`` would."""
    for listening in passed:
        set_ttl(listening, ttl)  # also for 0: the socket may have served another configuration before
        _defer(listening)
    return passed


def set_ttl(listening: socket.socket, ttl: int) -> None:
    """Set the hop limit of responses on new connections; 0 is the system's default."""
    hops = ttl or (-1 if sys.platform == "linux" else 64)
    if listening.family == socket.AF_INET6:
        listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS, hops)
    # Also on IPv6 sockets: it applies to the IPv4 callers that they accept.
    listening.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, hops)


def _defer(listening: socket.socket) -> None:
    if hasattr(socket, "TCP_DEFER_ACCEPT"):
        # The kernel passes a connection on when its first bytes have arrived, or after a second without any.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, _DEFER_SECONDS)


def _limit(listening: socket.socket, ttl: int, device: str) -> None:
    """Set options that accepted connections inherit from the listening socket."""
    try:
        if device:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device.encode())
        if ttl:
            set_ttl(listening, ttl)
    except OSError:
        listening.close()
        raise


def _claim(listening: socket.socket, address: _Address, *, is_one_of_many: bool) -> socket.socket:
    try:
        if os.name == "posix":  # on Windows the option means something else: sharing the port
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if listening.family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(is_one_of_many))
        _defer(listening)
        listening.bind(address)
        listening.setblocking(False)
    except OSError:
        listening.close()
        raise
    return listening


def _where(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _remedy(error: OSError, port: int, flag: str = _FLAG) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return f"another program listens there; stop it, or choose another port with {flag}"
        case errno.EACCES:
            return (
                f"port {port} is for privileged programs; choose one above 1023 with {flag},"
                " or give this one CAP_NET_BIND_SERVICE"
            )
        case errno.EADDRNOTAVAIL:
            return "no interface of this machine has that address; add it to one, or choose another"
        case _:
            return error.strerror or str(error)


class MetadataListener:
    """Accepts connections of VMs on the given sockets."""

    def __init__(self, registry: ConnectionRegistry, sockets: Sequence[socket.socket], *, pause: float = 0.5) -> None:
        """``pause``: seconds without accepting, after no file was left for a connection."""
        self.port = int(sockets[0].getsockname()[1]) if sockets else 0
        self._registry = registry
        self._sockets = sockets
        self._pause_seconds = pause
        self._fast_path = FastPath(registry, self._hand_off)
        self._loop = asyncio.get_running_loop()
        self._servers: list[asyncio.Server] = []
        self._arriving: set[asyncio.Task[None]] = set()
        self._complains_at = 0.0

    @property
    def listening(self) -> Sequence[socket.socket]:
        """The sockets that accept connections now."""
        return self._sockets

    async def start(self) -> None:
        for listening in self._sockets:
            try:
                listening.listen(_BACKLOG)
            except OSError as error:
                host, port = listening.getsockname()[:2]
                raise Unavailable(f"cannot listen on {_where(host, port)}: {_remedy(error, port)}") from None
        self._registry.start()
        for listening in self._sockets:
            try:
                self._loop.add_reader(listening, self._accept, listening)
            except NotImplementedError:
                server = await self._loop.create_server(lambda: Acceptor(self._registry), sock=listening)
                self._servers.append(server)

    def set_ttl(self, ttl: int) -> None:
        """Set the hop limit of responses on connections from now on; 0 is the system's default."""
        for listening in self._sockets:
            set_ttl(listening, ttl)

    async def stop(self, grace: float = 5.0) -> None:
        """Stop accepting, send pending responses, close every connection."""
        for server in self._servers:
            server.close()
        for listening in self._sockets if not self._servers else ():
            self._loop.remove_reader(listening)
            listening.close()
        self._sockets = ()
        if self._arriving:
            await asyncio.wait(self._arriving)
        await self._registry.stop(grace)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_AT_ONCE):
            try:
                # The public method would create a socket object, which costs as much as the rest of a plain response.
                file, peer = listening._accept()  # type: ignore[attr-defined]  # noqa: SLF001
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno in _NO_FILES_LEFT:
                    self._pause(listening, error)
                    return
                if error.errno in _PROGRAMMING_ERRORS:
                    raise
                continue  # Linux reports here what happened to the connection: a firewall, a removed route
            address = peer[0]
            self._admit(file, plain_address(address) if ":" in address else address)

    def _admit(self, file: int, address: str) -> None:
        """Serve a new connection, or refuse it with an error response."""
        objection = self._registry.objection(address)
        try:
            os.set_blocking(file, False)
            if objection is not None:
                self._refuse(file, objection)
        except OSError:
            pass  # the caller has disconnected already
        if objection is not None:
            os.close(file)
        else:
            self._fast_path.accept(file, address)

    def _refuse(self, file: int, objection: ErrorResponse) -> None:
        # If received bytes stay unread, the kernel resets the connection and the response is lost.
        with contextlib.suppress(BlockingIOError):
            os.read(file, _FIRST_READ)
        os.write(file, self._registry.service.common_headers.refusal(objection, CLOSE, b"Retry-After: 1\r\n"))

    def _hand_off(self, file: int, address: str, handoff: Handoff) -> None:
        """Pass the connection on to the event loop."""
        connection = HttpConnection(self._registry, address, handoff)
        arriving = self._loop.create_task(self._connect(file, connection))
        self._arriving.add(arriving)
        arriving.add_done_callback(self._arriving.discard)

    async def _connect(self, file: int, connection: HttpConnection) -> None:
        accepted = socket.socket(fileno=file)
        try:
            await self._loop.connect_accepted_socket(lambda: connection, accepted)
        except OSError:
            accepted.close()
            self._registry.leave(connection)

    def _pause(self, listening: socket.socket, error: OSError) -> None:
        now = self._loop.time()
        if now >= self._complains_at:
            self._complains_at = now + _COMPLAIN_EVERY
            log.warning(
                "cannot accept connections; raise the limit on open files (ulimit -n)",
                extra={"fields": {"reason": error.strerror or str(error)}},
            )
        self._loop.remove_reader(listening)
        self._loop.call_later(self._pause_seconds, self._resume, listening)

    def _resume(self, listening: socket.socket) -> None:
        if listening.fileno() >= 0:
            self._loop.add_reader(listening, self._accept, listening)


class Acceptor(asyncio.Protocol):
    """Creates the HttpConnection of a connection that asyncio accepted."""

    def __init__(self, registry: ConnectionRegistry) -> None:
        self._registry = registry

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast("asyncio.Transport", transport)
        address = plain_address(transport.get_extra_info("peername")[0])
        objection = self._registry.objection(address)
        if objection is not None:
            transport.write(self._registry.service.common_headers.refusal(objection, CLOSE, b"Retry-After: 1\r\n"))
            transport.close()
            return
        connection = HttpConnection(self._registry, address)
        transport.set_protocol(connection)
        connection.connection_made(transport)
