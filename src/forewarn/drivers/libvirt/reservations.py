"""Room that migrations under way will take of their target hosts, until libvirt there counts the machines itself.

Two migrations that choose a host at the same time would else both find the same room free.
"""

import threading
from collections.abc import Callable, Iterable

import msgspec

from forewarn.core.placement import HostCapacity


class Reservation(msgspec.Struct, frozen=True):
    """What one machine will take of one host."""

    uuid: str
    vm: str
    host: str
    memory: int
    cpus: int
    percent_done: Callable[[], int] = lambda: 0
    """How much of its memory is on the host already."""


class FreeCapacity(msgspec.Struct, frozen=True):
    """What a host has left by what libvirt tells, which counts the machines that are active there."""

    free: int
    """Bytes of memory that are free in fact."""
    allowed: int
    """Bytes that ``memory_ratio`` allows more machines to have."""
    cpus: int
    active: frozenset[str] = frozenset()
    """The UUIDs of the machines that are counted."""

    def after(self, coming: Iterable[Reservation]) -> HostCapacity:
        """Return what is left once these machines have come, too."""
        free, allowed, cpus = self.free, self.allowed, self.cpus
        for each in coming:
            is_active = each.uuid in self.active
            free -= each.memory * (100 - (each.percent_done() if is_active else 0)) // 100
            if not is_active:
                allowed -= each.memory
                cpus -= each.cpus
        return HostCapacity(min(free, allowed), cpus)


class Reservations:
    """The reservations of all migrations of a driver, by the machine's UUID."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._standing: dict[str, Reservation] = {}
        self._changes = 0

    def standing(self) -> tuple[int, tuple[Reservation, ...]]:
        """Return all reservations, and how often they have changed."""
        with self._lock:
            return self._changes, tuple(self._standing.values())

    def reserve(self, reservation: Reservation, changes: int) -> bool:
        """Reserve room; tell whether nothing has changed since, so that the room was still there."""
        with self._lock:
            if changes != self._changes:
                return False
            self._changes += 1
            self._standing[reservation.uuid] = reservation
            return True

    def release(self, uuid: str) -> None:
        with self._lock:
            self._changes += 1
            self._standing.pop(uuid, None)
