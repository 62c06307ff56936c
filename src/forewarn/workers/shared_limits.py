"""Limits that hold over all workers together: connections per caller and in total, and the rate of a VM.

Each worker counts in its own part of the shared memory and adds up the parts when it decides.

- Connections in total are exact. Those of a caller are exact for its own worker; of the others a slot is counted,
  which callers may share: a caller may be refused early because of another one, never late.
- A VM is looked up by its own key, so that it never pays for another one. Two requests of a VM that two workers
  receive within the same microseconds may count as one. A VM that finds both its slots taken by VMs that are further
  ahead is limited by each worker for itself at that moment.
"""

from collections.abc import Sequence

from forewarn.metadata.connections import UNKNOWN_SHARE, ConnectionRegistry, RegisteredConnection
from forewarn.metadata.document_cache import VmEntry
from forewarn.metadata.limits import Limits
from forewarn.metadata.request import AllowedHosts
from forewarn.metadata.service import MetadataService
from forewarn.wire import error_responses
from forewarn.wire.error_responses import ErrorResponse
from forewarn.workers.shared_memory import CONNECTIONS, SLOTS, UNKNOWN_CALLERS, WorkerMemory

_MASK = SLOTS - 1
_MOST = 0xFFFF


class SharedConnectionRegistry(ConnectionRegistry):
    """Registers the connections of one worker, and limits those of all."""

    def __init__(
        self,
        service: MetadataService,
        limits: Limits,
        hosts: AllowedHosts | None,
        memories: Sequence[WorkerMemory],
        number: int,
    ) -> None:
        super().__init__(service, limits, hosts)
        self._memory = memories[number]
        self._others = tuple(each for each in memories if each is not self._memory)
        self._other_counters = tuple(each.counters for each in self._others)

    def objection(self, address: str) -> ErrorResponse | None:
        limits = self.limits
        if limits.connections:
            total = len(self._connections)
            for counters in self._other_counters:
                total += counters[CONNECTIONS]
            if total >= limits.connections or (address not in self.service.vm_entries and self._is_crowd()):
                return error_responses.UNAVAILABLE
        if limits.connections_per_caller:
            slot = hash(address) & _MASK
            of_caller = self._open_of.get(address, 0) + sum(other.open_by_caller[slot] for other in self._others)
            if of_caller >= limits.connections_per_caller:
                return error_responses.TOO_MANY_REQUESTS
        return None

    def _is_crowd(self) -> bool:
        """Return whether callers that are no VM have used up their share."""
        unknown = len(self._of_unknown_callers) + sum(each[UNKNOWN_CALLERS] for each in self._other_counters)
        return unknown >= max(1, self.limits.connections // UNKNOWN_SHARE)

    def enter(self, connection: RegisteredConnection) -> None:
        super().enter(connection)
        slot = hash(connection.address) & _MASK
        self._memory.open_by_caller[slot] = min(self._memory.open_by_caller[slot] + 1, _MOST)
        self._publish()

    def leave(self, connection: RegisteredConnection) -> None:
        if connection in self._connections:
            slot = hash(connection.address) & _MASK
            self._memory.open_by_caller[slot] = max(self._memory.open_by_caller[slot] - 1, 0)
            super().leave(connection)
            self._publish()

    def _publish(self) -> None:
        counters = self._memory.counters
        counters[CONNECTIONS] = len(self._connections)
        counters[UNKNOWN_CALLERS] = len(self._of_unknown_callers)


class SharedRates:
    """How far ahead of its permitted rate each VM is, whichever workers it asked."""

    def __init__(self, memories: Sequence[WorkerMemory], number: int) -> None:
        own = memories[number]
        self._keys, self._until = own.rate_keys, own.spent_until
        self._others = tuple((each.rate_keys, each.spent_until) for each in memories if each is not own)

    def take_in(self, vm_entry: VmEntry) -> None:
        """Let what other workers admitted count here."""
        key = hash(vm_entry.vm.name) or 1
        slot = key & _MASK
        for keys, until in self._others:
            if keys[slot] == key:
                spent = until[slot]
            elif keys[slot ^ 1] == key:
                spent = until[slot ^ 1]
            else:
                continue
            vm_entry.spent_until = max(vm_entry.spent_until, spent)

    def publish(self, vm_entry: VmEntry, now: float) -> None:
        """Let what this worker admitted count in the others."""
        key = hash(vm_entry.vm.name) or 1
        slot = key & _MASK
        keys, until, spent = self._keys, self._until, vm_entry.spent_until
        if keys[slot] == key:
            until[slot] = spent
            return
        if keys[slot ^ 1] == key or until[slot] > max(now, until[slot ^ 1]):
            slot ^= 1
        if keys[slot] == key:
            until[slot] = spent
        elif until[slot] < max(now, spent):
            keys[slot] = 0  # no reader may see the time of one VM with the key of another
            until[slot] = spent
            keys[slot] = key
