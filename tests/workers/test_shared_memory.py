"""Shared memory: what one process writes the others read, and each worker has a part of its own."""

import os
from collections.abc import Iterator

import pytest

from forewarn.workers.shared_memory import SLOTS, SharedMemory


@pytest.fixture
def memory() -> Iterator[SharedMemory]:
    made = SharedMemory.create(3)
    yield made
    os.close(made.descriptor)


def test_what_one_process_writes_another_reads(memory: SharedMemory) -> None:
    """The shown revision, the leader's sign of life, and the counters of a worker."""
    other = SharedMemory(memory.descriptor, 3)
    memory.shown[0] = 2**63
    memory.leader_alive_at = 12.5
    memory.workers[1].connections = 7

    assert (other.shown[0], other.leader_alive_at, other.workers[1].connections) == (2**63, 12.5, 7)


def test_the_parts_of_workers_do_not_overlap(memory: SharedMemory) -> None:
    """The last place of each table of one worker is not the first of the next."""
    for number, worker in enumerate(memory.workers, 1):
        worker.connections, worker.unknown_callers = number, 10 * number
        for slot in (0, SLOTS - 1):
            worker.open_by_caller[slot] = number
            worker.rate_keys[slot] = -number
            worker.spent_until[slot] = number / 2
    memory.shown[0] = 9

    for number, worker in enumerate(memory.workers, 1):
        assert (worker.connections, worker.unknown_callers) == (number, 10 * number)
        for slot in (0, SLOTS - 1):
            found = worker.open_by_caller[slot], worker.rate_keys[slot], worker.spent_until[slot]
            assert found == (number, -number, number / 2)


def test_a_worker_that_has_ended_has_no_connections(memory: SharedMemory) -> None:
    """How far ahead VMs are stays true; the other workers keep theirs."""
    for worker in memory.workers:
        worker.connections = worker.unknown_callers = 4
        worker.open_by_caller[SLOTS - 1] = 4
        worker.spent_until[5] = 9.0
    memory.workers[1].clear()

    assert [worker.connections for worker in memory.workers] == [4, 0, 4]
    assert [worker.unknown_callers for worker in memory.workers] == [4, 0, 4]
    assert [worker.open_by_caller[SLOTS - 1] for worker in memory.workers] == [4, 0, 4]
    assert memory.workers[1].spent_until[5] == 9.0


def test_more_workers_than_have_room_are_refused() -> None:
    """Their rows would lie in the tables of the first worker."""
    with pytest.raises(AssertionError, match="do not fit"):
        SharedMemory.create(64)
