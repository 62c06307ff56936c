"""Memory that the leader and its workers share: what may be shown, and what each worker counts.

    page 0                the shown revision, the leader's last sign of life, and a row of numbers of each worker
    of each worker        open connections by caller, and how far ahead of its permitted rate each VM is

Each number has one writer, so that none is lost without a lock; who needs a sum adds up the numbers of all workers.
"""

import mmap
import os

_PAGE = 4096
SLOTS = 1 << 20
"""Places for callers and VMs in the tables of a worker. Pages that are never written take no memory."""
_ROW = 8
"""Numbers in the row of a worker."""
_FIRST_ROW = 8
_COMPARED = 1 << 16
"""Bytes that are compared at once, to find what was written."""
CONNECTIONS = 0
UNKNOWN_CALLERS = 1
_COUNTS = 2 * SLOTS
_KEYS = 8 * SLOTS
_TABLES = _COUNTS + 2 * _KEYS


class WorkerMemory:
    """The part of one worker. Only this worker writes it; the leader clears it when the worker has ended."""

    def __init__(self, whole: memoryview, number: int) -> None:
        begin = 8 * (_FIRST_ROW + number * _ROW)
        self.counters = whole[begin : begin + 8 * _ROW].cast("Q")
        """The numbers behind the properties, for those who read them often."""
        begin = _PAGE + number * _TABLES
        self.open_by_caller = whole[begin : begin + _COUNTS].cast("H")
        """Open connections by the slot of the caller."""
        begin += _COUNTS
        self.rate_keys = whole[begin : begin + _KEYS].cast("q")
        """The VM in each slot, by its hash; 0 if there is none."""
        begin += _KEYS
        self.spent_until = whole[begin : begin + _KEYS].cast("d")
        """When the requests of the VM in each slot are covered by the permitted rate."""

    @property
    def connections(self) -> int:
        """Open connections of this worker."""
        return self.counters[CONNECTIONS]

    @connections.setter
    def connections(self, count: int) -> None:
        self.counters[CONNECTIONS] = count

    @property
    def unknown_callers(self) -> int:
        """Open connections of callers that are no VM."""
        return self.counters[UNKNOWN_CALLERS]

    @unknown_callers.setter
    def unknown_callers(self, count: int) -> None:
        self.counters[UNKNOWN_CALLERS] = count

    def clear(self) -> None:
        """Forget the connections of a worker that has ended; how far ahead VMs are stays true."""
        self.connections = self.unknown_callers = 0
        counts = self.open_by_caller.cast("B")
        zeros = bytes(_COMPARED)
        for begin in range(0, _COUNTS, _COMPARED):
            if counts[begin : begin + _COMPARED].tobytes() != zeros:  # a view is compared item by item
                counts[begin : begin + _COMPARED] = zeros


class SharedMemory:
    """The memory as one process has it mapped."""

    def __init__(self, descriptor: int, workers: int) -> None:
        self.descriptor = descriptor
        whole = memoryview(mmap.mmap(descriptor, _size(workers)))
        self.shown = whole[:8].cast("Q")
        """Its only item is the last revision that may be shown: every worker holds it. The leader writes it."""
        self._alive = whole[8:16].cast("d")
        self.workers = tuple(WorkerMemory(whole, number) for number in range(workers))

    @classmethod
    def create(cls, workers: int) -> "SharedMemory":
        """Make memory that ends with the last process that has its descriptor."""
        if 8 * (_FIRST_ROW + workers * _ROW) > _PAGE:
            raise AssertionError(f"the rows of {workers} workers do not fit into a page")
        descriptor = os.memfd_create("forewarn-workers")
        os.ftruncate(descriptor, _size(workers))
        return cls(descriptor, workers)

    @property
    def leader_alive_at(self) -> float:
        """When the leader was last well, in seconds since boot."""
        return self._alive[0]

    @leader_alive_at.setter
    def leader_alive_at(self, seconds: float) -> None:
        self._alive[0] = seconds


def _size(workers: int) -> int:
    return _PAGE + workers * _TABLES
