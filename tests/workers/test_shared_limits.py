"""Limits over all workers: what one of them admitted counts in the others."""

import os
from collections.abc import Iterator

import pytest

from forewarn.core.model import GroupKind, GroupTerms, Vm
from forewarn.core.notice import Rules
from forewarn.metadata.caller import CallerResolver
from forewarn.metadata.document_cache import DocumentCache, GroupDocuments, VmEntry
from forewarn.metadata.limits import Limits, RateLimiter
from forewarn.metadata.request_records import RequestRecords
from forewarn.metadata.service import MetadataService
from forewarn.wire import error_responses
from forewarn.workers.shared_limits import SharedConnectionRegistry, SharedRates
from forewarn.workers.shared_memory import SLOTS, SharedMemory
from tests.metadata.harness import NOW

LIMITS = Limits(connections=12, connections_per_caller=3)


class FakeConnection:
    """A connection that is open and nothing else."""

    def __init__(self, address: str) -> None:
        self.address = address

    def close_gracefully(self) -> None:
        pass

    def abort(self) -> None:
        pass


@pytest.fixture
def memory() -> Iterator[SharedMemory]:
    made = SharedMemory.create(2)
    yield made
    os.close(made.descriptor)


async def _nothing(*_: object) -> None:
    pass


def registry_of(memory: SharedMemory, number: int, *vms: str) -> SharedConnectionRegistry:
    document_cache = DocumentCache(lambda: 0.0)
    document_cache.vm_entries.update((address, entry_of(address)) for address in vms)
    records = RequestRecords(document_cache, Rules(), lambda: 0.0, lambda: NOW)
    service = MetadataService(
        document_cache,
        CallerResolver(document_cache),
        records,
        LIMITS,
        enrol=_nothing,
        approve=_nothing,
        seconds=lambda: 0.0,
        now=lambda: NOW,
    )
    return SharedConnectionRegistry(service, LIMITS, None, memory.workers, number)


def entry_of(name: str) -> VmEntry:
    terms = GroupTerms(name, GroupKind.STANDALONE)
    return VmEntry(Vm(name, name), GroupDocuments(terms, 1, (), True, True, 0.0, 0.0))


def test_connections_of_a_caller_count_in_every_worker(memory: SharedMemory) -> None:
    """The limit is for all together; a connection that closes makes room in all."""
    first, second = (registry_of(memory, number, "10.0.0.1", "10.0.0.2") for number in range(2))
    opened = [FakeConnection("10.0.0.1") for _ in range(3)]
    first.enter(opened[0])
    second.enter(opened[1])
    assert first.objection("10.0.0.1") is second.objection("10.0.0.1") is None
    first.enter(opened[2])
    assert second.objection("10.0.0.1") is error_responses.TOO_MANY_REQUESTS
    assert second.objection("10.0.0.2") is None
    first.leave(opened[2])
    first.leave(opened[2])
    assert second.objection("10.0.0.1") is None


def test_connections_in_all_count_in_every_worker(memory: SharedMemory) -> None:
    """Whoever opened them."""
    addresses = [f"10.0.0.{number}" for number in range(12)]
    first, second = (registry_of(memory, number, *addresses) for number in range(2))
    for number, address in enumerate(addresses):
        assert first.objection(address) is second.objection(address) is None
        (first, second)[number % 2].enter(FakeConnection(address))
    assert first.objection("10.0.0.0") is second.objection("10.0.0.0") is error_responses.UNAVAILABLE
    assert [worker.connections for worker in memory.workers] == [6, 6]


def test_callers_that_are_no_vm_have_one_share_in_all(memory: SharedMemory) -> None:
    """They cannot fill the connections that VMs need."""
    first, second = (registry_of(memory, number, "10.0.0.1") for number in range(2))
    for number in range(3):
        (first, second)[number % 2].enter(FakeConnection(f"192.0.2.{number}"))
    assert first.objection("192.0.2.9") is second.objection("192.0.2.9") is error_responses.UNAVAILABLE
    assert first.objection("10.0.0.1") is None


def ask(rates: SharedRates, limiter: RateLimiter, vm_entry: VmEntry, now: float) -> bool:
    """Ask one worker; return whether it admits the request."""
    rates.take_in(vm_entry)
    if limiter.admit(vm_entry, now):
        return False
    rates.publish(vm_entry, now)
    return True


def test_a_vm_has_one_burst_and_one_rate_whichever_worker_it_asks(memory: SharedMemory) -> None:
    """In turn, or one worker first and then the other."""
    limiter = RateLimiter(1.0, 6)
    rates = [SharedRates(memory.workers, number) for number in range(2)]
    entries = [entry_of("web-0"), entry_of("web-0")]
    now = 1_000.0

    def admitted(turns: list[int], now: float) -> int:
        return sum(ask(rates[turn], limiter, entries[turn], now) for turn in turns)

    assert admitted([0, 1] * 10, now) == 6
    assert admitted([0] * 5 + [1] * 5, now + 3.0) == 3
    assert admitted([1] * 5 + [0] * 5, now + 60.0) == 6


def test_no_vm_pays_for_another_in_its_place(memory: SharedMemory) -> None:
    """A VM is recognised by its own key; two fit beside each other."""
    limiter = RateLimiter(1.0, 6)
    first, second = (SharedRates(memory.workers, number) for number in range(2))
    worker = memory.workers[0]
    key = hash("web-0") or 1
    slot = key & (SLOTS - 1)
    worker.rate_keys[slot], worker.spent_until[slot] = key + 2 * SLOTS, 1_100.0
    assert ask(second, limiter, entry_of("web-0"), 1_000.0)
    assert ask(first, limiter, entry_of("web-0"), 1_000.0)
    assert (worker.rate_keys[slot], worker.spent_until[slot]) == (key + 2 * SLOTS, 1_100.0)
    assert (worker.rate_keys[slot ^ 1], worker.spent_until[slot ^ 1]) == (key, 1_002.0)


def test_a_place_that_is_over_is_used_again(memory: SharedMemory) -> None:
    """What a VM has covered says nothing any more."""
    limiter = RateLimiter(1.0, 6)
    rates = SharedRates(memory.workers, 0)
    worker = memory.workers[0]
    key = hash("web-0") or 1
    slot = key & (SLOTS - 1)
    for each in (slot, slot ^ 1):
        worker.rate_keys[each], worker.spent_until[each] = 77, 999.0
    assert ask(rates, limiter, entry_of("web-0"), 1_000.0)
    assert key in (worker.rate_keys[slot], worker.rate_keys[slot ^ 1])
