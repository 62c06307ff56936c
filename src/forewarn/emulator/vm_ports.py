"""Listening ports of the emulator: one for each VM, so that the port identifies the caller."""

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
"""Seconds for responses under way when the emulator stops."""

_TURNS = 3
"""Iterations of the event loop from accepting a connection to its protocol."""


class VmPorts:
    """The ports of all VMs; they replace the service's listener."""

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
        """The port of the first VM; 0 if there is none."""
        return next(map(self.port_of, self._servers), 0)

    def port_of(self, vm: str) -> int:
        return int(self._servers[vm].sockets[0].getsockname()[1])

    async def start(self) -> None:
        """Start the registry's timer, unless the owner drives it; ports are opened one by one."""
        if self._beats:
            self.registry.start()

    async def open(self, vm: str, address: str, host: str, port: int) -> None:
        """Open the port of a VM; ``address`` identifies the VM to the service."""
        loop = asyncio.get_running_loop()
        listening = bind(host, port, "--port N")[0]
        self._servers[vm] = await loop.create_server(lambda: EmulatedConnection(self, vm, address), sock=listening)

    async def stop(self) -> None:
        """Accept no more connections, and close all open ones."""
        loop = asyncio.get_running_loop()
        for server in self._servers.values():
            for listening in server.sockets:
                with suppress(NotImplementedError):  # the proactor loop of Windows
                    loop.remove_reader(listening.fileno())
        # Closing a server drops connections that are accepted but have no protocol yet.
        for _ in range(_TURNS):
            await asyncio.sleep(0)
        for server in self._servers.values():
            server.close()
        await self.registry.stop(_GRACE)
