"""What a worker needs of its process: journal, clock, listener, log, and the lock by which it is found."""

import gc
import logging
import os
import sys
from collections.abc import Collection, Sequence
from datetime import timedelta
from pathlib import Path
from socket import socket
from typing import Protocol, cast

from forewarn import logs, plugin_loader
from forewarn.clocks import Clock, SystemClock
from forewarn.config.values import ListenAddress
from forewarn.journal.port import Journal, JournalType
from forewarn.metadata.connections import ConnectionRegistry
from forewarn.metadata.identity import Identity
from forewarn.metadata.interface_listeners import make_listener
from forewarn.runtime import exempt_fleet_from_collection
from forewarn.workers import locks
from forewarn.workers.follower import CannotFollow
from forewarn.workers.leader_age_file import LeaderAgeFile
from forewarn.workers.messages import WorkerSettings

log = logging.getLogger(__name__)

CANNOT_FOLLOW = 3
"""The exit code of a worker that could have shown something old."""


class WorkerListener(Protocol):
    """Accepts the connections of VMs."""

    @property
    def listening(self) -> Sequence[socket]:
        """The sockets that accept connections now."""

    async def start(self) -> None:
        """Begin to answer."""

    async def stop(self) -> None:
        """Finish the answers that are owed, and close every connection."""

    def set_ttl(self, ttl: int) -> None:
        """Set the hop limit of responses on connections from now on."""


class WorkerEnvironment(Protocol):
    """The process of one worker."""

    @property
    def clock(self) -> Clock:
        """The clock of the process."""

    def configure(self, settings: WorkerSettings) -> None:
        """Begin with settings, or take over changed ones."""

    def open_journal(self, settings: WorkerSettings) -> Journal:
        """Return the journal, which is not loaded yet."""

    def note_loaded(self) -> None:
        """Note that the fleet is in memory, and take the lock of the process."""

    def make_listener(
        self, registry: ConnectionRegistry, settings: WorkerSettings, taps: Collection[str]
    ) -> WorkerListener:
        """Return what accepts connections."""

    def tell_leader_age(self, age: float | None) -> None:
        """Tell operators how long there has been no leader; None where there is one."""

    def end(self, error: CannotFollow) -> None:
        """End at once: whatever this worker answered now could be older than what another one has shown."""


class ProcessEnvironment:
    """A process of its own."""

    def __init__(self, number: int, sockets: Sequence[socket] = ()) -> None:
        self.clock = SystemClock()
        self._number = number
        self._sockets = sockets
        self._directory = Path()
        self._age_file: LeaderAgeFile | None = None

    def configure(self, settings: WorkerSettings) -> None:
        logs.set_up(sys.stderr, settings.log_level, settings.log_format)
        self._directory = Path(settings.journal_directory)

    def open_journal(self, settings: WorkerSettings) -> Journal:
        gc.disable()  # nothing that is loaded is garbage
        kind = cast("JournalType", plugin_loader.load("forewarn.journals", settings.journal))
        return kind.from_settings(settings.journal_location, self._directory, timedelta(seconds=settings.history))

    def note_loaded(self) -> None:
        exempt_fleet_from_collection()
        self._lock = locks.hold(self._directory)

    def make_listener(
        self, registry: ConnectionRegistry, settings: WorkerSettings, taps: Collection[str]
    ) -> WorkerListener:
        endpoint = ListenAddress(settings.host, settings.port)
        identity = Identity(settings.identity)
        ttl = settings.answer_ttl
        self._age_file = LeaderAgeFile(self._directory, self._number)
        return make_listener(identity, registry, endpoint, taps, ttl, self._sockets, is_shared=True)

    def tell_leader_age(self, age: float | None) -> None:
        if self._age_file and age is None:
            self._age_file.remove()
        elif self._age_file and age is not None:
            self._age_file.write(age)

    def end(self, error: CannotFollow) -> None:
        log.error("the worker cannot follow", extra={"fields": {"reason": str(error)}})
        os._exit(CANNOT_FOLLOW)
