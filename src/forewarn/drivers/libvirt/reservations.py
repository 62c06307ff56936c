"""Reservations of capacity on target hosts by migrations in progress, until libvirt counts the machine there.

Without them two concurrent migrations could choose the same free capacity.
"""

import threading
from collections.abc import Callable, Iterable

import msgspec

from forewarn.core.placement import HostCapacity


class Reservation(msgspec.Struct, frozen=True):
    """Capacity that one machine will take on one host."""

    uuid: str
    vm: str
    host: str
    memory: int
    cpus: int
    percent_done: Callable[[], int] = lambda: 0
    """Percentage of its memory that is on the host already."""


class FreeCapacity(msgspec.Struct, frozen=True):
    """Free capacity of a host as libvirt reports it, which counts the machines active there."""

    free: int
    """Bytes of memory that are really free."""
    allowed: int
    """Bytes of memory that ``memory_ratio`` still allows."""
    cpus: int
    active: frozenset[str] = frozenset()
    """UUIDs of the machines that are counted."""

    def after(self, coming: Iterable[Reservation]) -> HostCapacity:
        """Return the free capacity after these machines have arrived, too."""
        free, allowed, cpus = self.free, self.allowed, self.cpus
        for each in coming:
            is_active = each.uuid in self.active
            free -= each.memory * (100 - (each.percent_done() if is_active else 0)) // 100
            if not is_active:
                allowed -= each.memory
                cpus -= each.cpus
        return HostCapacity(min(free, allowed), cpus)


class Reservations:
    """Reservations of all migrations of a driver, by machine UUID."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reservations: dict[str, Reservation] = {}
        self._changes = 0

    def current(self) -> tuple[int, tuple[Reservation, ...]]:
        """Return all reservations, and the number of changes so far."""
        with self._lock:
            return self._changes, tuple(self._reservations.values())

    def reserve(self, reservation: Reservation, changes: int) -> bool:
        """Reserve capacity; return False if reservations have changed since, so that the choice must be repeated."""
        with self._lock:
            if changes != self._changes:
                return False
            self._changes += 1
            self._reservations[reservation.uuid] = reservation
            return True

    def release(self, uuid: str) -> None:
        with self._lock:
            self._changes += 1
            self._reservations.pop(uuid, None)
