"""Listeners that identify a caller by packet mark or tap device, whatever its source address. Linux only.

The mark or device is read once, when the connection is accepted; then it is used in place of an address.
"""

import asyncio
import logging
import os
import socket
import struct
from collections.abc import Collection, Sequence
from pathlib import Path

from forewarn.config.values import ListenAddress
from forewarn.core.errors import BadInput, Unavailable
from forewarn.metadata.connections import ConnectionRegistry
from forewarn.metadata.identity import Identity
from forewarn.metadata.listener import MetadataListener, adopt, bind

log = logging.getLogger(__name__)

_ACCEPT_MARKS = Path("/proc/sys/net/ipv4/tcp_fwmark_accept")
_RESCAN_EVERY = 1.0
_NAME_LENGTH = 16


def make_listener(
    identity: Identity,
    registry: ConnectionRegistry,
    endpoint: ListenAddress,
    taps: Collection[str] = (),
    ttl: int = 0,
    passed: Sequence[socket.socket] = (),
    *,
    is_shared: bool = False,
) -> MetadataListener:
    """Return a listener on the endpoint, or on passed sockets, that identifies callers by ``identity``.

    With ``is_shared``, other processes of this user may listen there too.
    """
    at = endpoint.host, endpoint.port
    if identity is Identity.TAP and passed:
        raise BadInput(
            'identity = "tap" opens a listener on each tap itself; stop and disable the .socket unit that passes'
            " metadata, or set identity to address or mark"
        )
    if identity is Identity.ADDRESS:
        return MetadataListener(registry, adopt(passed, ttl) or bind(*at, ttl=ttl, is_shared=is_shared))
    if not hasattr(socket, "SO_MARK") or not hasattr(socket, "SO_BINDTODEVICE"):
        raise BadInput(f'identity = "{identity}" needs Linux; this system can identify VMs by address only')
    if identity is Identity.MARK:
        return MarkListener(registry, adopt(passed, ttl) or bind(*at, ttl=ttl, is_shared=is_shared))
    return TapListener(registry, endpoint, taps, ttl, is_shared=is_shared)


def marks_are_accepted() -> bool:
    """Return whether connections inherit the mark of the packet that opened them."""
    return _ACCEPT_MARKS.exists() and _ACCEPT_MARKS.read_text("ascii").strip() == "1"


class MarkListener(MetadataListener):
    """Identifies callers by the mark of their packets."""

    async def start(self) -> None:
        await super().start()
        if not marks_are_accepted():
            log.warning(
                "every VM will be refused: the kernel does not pass packet marks on to connections; run"
                " 'forewarn network setup', or sysctl -w net.ipv4.tcp_fwmark_accept=1"
            )

    def _admit(self, file: int, address: str) -> None:
        try:
            mark = struct.unpack("I", _read_socket_option(file, socket.SO_MARK, 4))[0]
        except OSError:
            os.close(file)
        else:
            super()._admit(file, str(mark))


class TapListener(MetadataListener):
    """Listens on each tap separately, including taps that appear later."""

    def __init__(
        self,
        registry: ConnectionRegistry,
        endpoint: ListenAddress,
        taps: Collection[str],
        ttl: int = 0,
        *,
        is_shared: bool = False,
    ) -> None:
        super().__init__(registry, ())
        self.port = endpoint.port
        self._endpoint = endpoint
        self._taps = taps
        self._ttl = ttl
        self._is_shared = is_shared
        self._open: dict[str, tuple[int, socket.socket]] = {}
        """The socket on each tap, with the interface index at that time: a recreated tap has another index."""
        self._last_error: dict[str, str] = {}
        self._next_tick: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        self._registry.start()
        self._update_sockets()

    async def stop(self, grace: float = 5.0) -> None:
        if self._next_tick:
            self._next_tick.cancel()
        await super().stop(grace)

    def set_ttl(self, ttl: int) -> None:
        self._ttl = ttl
        super().set_ttl(ttl)

    def _update_sockets(self) -> None:
        """Open sockets on new taps of VMs, and close those of removed taps."""
        there = {name: number for number, name in socket.if_nameindex() if name in self._taps}
        for tap, (number, listening) in list(self._open.items()):
            if there.get(tap) != number:
                self._loop.remove_reader(listening)
                listening.close()
                del self._open[tap]
        for tap in there.keys() - self._open.keys():
            self._listen_on(tap, there[tap])
        self._sockets = tuple(listening for _, listening in self._open.values())
        self._next_tick = self._loop.call_later(_RESCAN_EVERY, self._update_sockets)

    def _listen_on(self, tap: str, number: int) -> None:
        try:
            host, port = self._endpoint.host, self._endpoint.port
            (listening,) = bind(host, port, ttl=self._ttl, device=tap, is_shared=self._is_shared)
            listening.listen()
        except (Unavailable, OSError) as error:
            if self._last_error.get(tap) != str(error):
                log.warning("cannot listen on a tap", extra={"fields": {"tap": tap, "reason": str(error)}})
            self._last_error[tap] = str(error)
            return
        self._last_error.pop(tap, None)
        self._open[tap] = number, listening
        self._loop.add_reader(listening, self._accept, listening)

    def _admit(self, file: int, address: str) -> None:
        try:
            device = _read_socket_option(file, socket.SO_BINDTODEVICE, _NAME_LENGTH)
        except OSError:
            os.close(file)  # the tap was removed meanwhile, and its caller with it
        else:
            super()._admit(file, device.rstrip(b"\0").decode())


def _read_socket_option(file: int, option: int, length: int) -> bytes:
    borrowed = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 0, file)
    try:
        return borrowed.getsockopt(socket.SOL_SOCKET, option, length)
    finally:
        borrowed.detach()
