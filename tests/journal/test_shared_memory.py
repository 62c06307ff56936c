"""The journal that nodes of one process share keeps the contract of journals; one node at a time appends."""

from datetime import timedelta

import pytest

from forewarn.clocks import ManualClock, SystemClock
from forewarn.core.fact import FORMAT
from forewarn.journal.port import AppendUnknown, Journal, NotWritten
from forewarn.journal.shared import JournalDiverged, LeaseLost, NodeReport
from forewarn.journal.shared_memory import SharedMemoryJournal, SharedMemoryStore
from forewarn.testing.journal_contract import hosts
from forewarn.testing.shared_journal_contract import OpenJournal, SharedJournalContract, lead


def node_of(store: SharedMemoryStore, name: str) -> SharedMemoryJournal:
    journal = SharedMemoryJournal(store, name)
    journal.load()
    return journal


class TestSharedMemoryJournal(SharedJournalContract):
    """Several journals on one store."""

    store: SharedMemoryStore

    @pytest.fixture
    def open_journal(self) -> OpenJournal:
        self.store = SharedMemoryStore(SystemClock())
        return lambda: SharedMemoryJournal(self.store)

    def fail_next_append(self, journal: Journal, *, is_written: bool) -> bool:
        store = self.store

        def fail(_: str, call: str) -> None:
            if call == "append":
                store.before = store.after = lambda *_: None
                raise AppendUnknown("the connection was lost")

        if is_written:
            store.after = fail
        else:
            store.before = fail
        return True


def test_a_failover_that_lost_entries_is_noticed() -> None:
    """Whoever read them is told, also when as many others were appended since."""
    store = SharedMemoryStore(ManualClock())
    a, b = node_of(store, "a"), node_of(store, "b")
    lead(a)
    a.append(0, hosts(1, 2))
    assert len(list(b.entries(0))) == 2
    store.fail_over(lost=1)
    with pytest.raises(JournalDiverged, match="below 2"):
        b.follow(2, 0)
    a.load()
    a.append(1, hosts(2, 3))
    with pytest.raises(JournalDiverged, match="another entry"):
        list(b.entries(2))
    assert b.load().revision == 3
    assert not list(b.entries(3))


def test_a_failover_that_lost_entries_loses_their_lease_and_repeats_no_term() -> None:
    """The standby knows the lease of its last entry; who leads next has a term that was never there."""
    clock = ManualClock()
    store = SharedMemoryStore(clock)
    a, b = node_of(store, "a"), node_of(store, "b")
    first = lead(a, "a").lease.term
    a.append(0, hosts(1, 1))
    a.release_lease("a", first)
    lost = lead(b, "b").lease.term
    b.append(1, hosts(2, 2))
    clock.advance(timedelta(seconds=5))
    store.fail_over(lost=1)
    assert store.term == first
    with pytest.raises(LeaseLost):
        b.append(1, hosts(2, 2))
    a.release_lease("a", first)

    assert lead(b, "b").lease.term > lost


def test_nothing_is_appended_before_the_journal_was_loaded() -> None:
    """The node would not know what comes before."""
    journal = SharedMemoryJournal(SharedMemoryStore(ManualClock()), "a")

    with pytest.raises(NotWritten, match="load it before appending"):
        journal.append(0, hosts(1, 1))


def test_a_node_is_a_member_until_a_minute_after_its_last_heartbeat() -> None:
    """As in the database."""
    clock = ManualClock()
    store = SharedMemoryStore(clock)

    def members(name: str) -> list[str]:
        report = NodeReport(name=name, process=name, address="", release="", format=FORMAT)
        return [each.report.name for each in store.beat(report, 3.0).members]

    assert members("a") == ["a"]
    clock.advance(timedelta(seconds=59.5))
    assert members("b") == ["a", "b"]
    clock.advance(timedelta(seconds=0.5))
    assert members("b") == ["b"]
