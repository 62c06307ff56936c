"""Where callers arrive at the emulator: one door for each VM, so that the port says who is asking."""

import asyncio
from contextlib import suppress

from forewarn.clocks import Clock
from forewarn.emulator.connection import EmulatedConnection
from forewarn.emulator.faults import Faults
from forewarn.emulator.requests import RequestLog
from forewarn.emulator.response_faults import ShownIncarnations
from forewarn.metadata.connections import ConnectionRegistry
from forewarn.metadata.limits import Limits
from forewarn.metadata.listener import bind
from forewarn.metadata.service import MetadataService

_GRACE = 0.5
"""Seconds that answers may still take when the emulator stops."""

_TURNS = 3
"""Turns of the event loop from letting somebody in to hearing of it."""


class VmPorts:
    """All doors together: an entrance to the service in place of its listener."""

    def __init__(
        self, service: MetadataService, limits: Limits, clock: Clock, faults: Faults, *, beats: bool
    ) -> None:
        self.service = service
        self.clock = clock
        self.faults = faults
        self.registry = ConnectionRegistry(service, limits)
        self.requests = RequestLog()
        self.incarnations = ShownIncarnations(faults.seed)
        self._beats = beats
        self._servers: dict[str, asyncio.Server] = {}

    @property
    def port(self) -> int:
        """The port of the first door, 0 while there is none."""
        return next(map(self.port_of, self._servers), 0)

    def port_of(self, vm: str) -> int:
        return int(self._servers[vm].sockets[0].getsockname()[1])

    async def start(self) -> None:
        """Begin to count the seconds, unless somebody else does; the doors themselves are opened one by one."""
        if self._beats:
            self.registry.start()

    async def open(self, vm: str, address: str, host: str, port: int) -> None:
        """Open the door of a VM, which the service knows by its address."""
        loop = asyncio.get_running_loop()
        listening = bind(host, port, "--port N")[0]
        self._servers[vm] = await loop.create_server(lambda: EmulatedConnection(self, vm, address), sock=listening)

    async def stop(self) -> None:
        """Take nobody more in, and close every connection."""
        loop = asyncio.get_running_loop()
        for server in self._servers.values():
            for listening in server.sockets:
                with suppress(NotImplementedError):  # where Python waits for callers in another way
                    loop.remove_reader(listening.fileno())
        # Python drops whoever it has let in and not yet introduced when a server is closed.
        for _ in range(_TURNS):
            await asyncio.sleep(0)
        for server in self._servers.values():
            server.close()
        await self.registry.stop(_GRACE)
