"""Has recorded what a driver sees happen to machines without anybody's asking."""

import asyncio
import logging
from datetime import timedelta
from uuid import uuid4

from msgspec.structs import replace

from forewarn.core.commands import Observe
from forewarn.core.errors import ForewarnError, Unavailable
from forewarn.core.model import NODE, Sighting
from forewarn.node.driver import Driver, Watching
from forewarn.node.node import Node
from forewarn.node.repetition import Repetition

log = logging.getLogger(__name__)

_RETRY = timedelta(seconds=1)
_MOST = 10_000
"""Sightings that may wait to be recorded; a whole site that fails at once is as large as that."""
_LONGEST = 500
"""Characters of a driver's words that go into the journal."""


class Watcher:
    """Turns each sighting into a command, in the order in which they came."""

    def __init__(self, node: Node, driver: Driver) -> None:
        self._node = node
        self._driver = driver
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._repetition = Repetition()

    @property
    def is_idle(self) -> bool:
        """Tell whether no sighting waits to be recorded."""
        return not self._tasks

    def start(self) -> None:
        """Begin to listen, where the driver has something to tell."""
        self._loop = asyncio.get_running_loop()
        if isinstance(self._driver, Watching):
            self._driver.watch(self._hear)

    async def stop(self) -> None:
        """Hear nothing more."""
        self._loop = None
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _hear(self, sighting: Sighting) -> None:
        """Pass a sighting on from a driver's thread to the event loop."""
        if (loop := self._loop) is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._take, sighting)

    def _take(self, seen: Sighting) -> None:
        sighting = self._repetition.admit(replace(seen, detail=seen.detail[:_LONGEST]))
        if sighting is None:
            return
        if len(self._tasks) >= _MOST:
            log.warning("%s was seen %s; too much happens at once to record it", sighting.vm, sighting.what)
            return
        # A task each: one that waits for the journal must not let the driver's word on an impact overtake the rest.
        task = asyncio.create_task(self._record(sighting))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _record(self, sighting: Sighting) -> None:
        command = Observe(id=uuid4().hex, by=NODE, sighting=sighting)
        while True:
            try:
                await self._node.submit(command)
            except Unavailable as error:
                log.warning("that %s was seen %s waits to be recorded: %s", sighting.vm, sighting.what, error)
                await self._pause()
            except ForewarnError as error:
                log.warning("that %s was seen %s cannot be recorded: %s", sighting.vm, sighting.what, error)
                return
            else:
                return

    async def _pause(self) -> None:
        woken = asyncio.Event()
        timer = self._node.clock.call_at(self._node.clock.now() + _RETRY, woken.set)
        try:
            await woken.wait()
        finally:
            timer.cancel()
