"""Contract suite for journals that several nodes share: subclass ``SharedJournalContract``.

    class TestMyJournal(SharedJournalContract):
        @pytest.fixture
        def open_journal(self, database):
            with ExitStack() as opened:
                yield lambda: opened.enter_context(closing(MyJournal(database)))

The fixture yields a function that makes one more journal of the same, empty database, as one more process would. All
rules of ``JournalContract`` are tested too, with a journal that holds the lease.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from time import monotonic, sleep

import pytest
from msgspec.structs import replace

from forewarn.core.fact import FORMAT
from forewarn.journal.port import Journal, NotWritten, RepeatedCommand
from forewarn.journal.shared import (
    ClusterState,
    JournalDiverged,
    LeaseLost,
    NodeNameTaken,
    NodeReport,
    SharedJournal,
)
from forewarn.testing.calls import begin, in_time
from forewarn.testing.journal_contract import JournalContract, assert_same, folded, hosts, request

LONG = 3600.0
"""A lease that does not end during a test."""
SHORT = 0.3

OpenJournal = Callable[[], SharedJournal]


def report(name: str = "one", **changes: object) -> NodeReport:
    """Describe a node; its process is named after it."""
    described = NodeReport(name=name, process=f"{name}-process", address=f"{name}:8300", release="1", format=FORMAT)
    return replace(described, **changes)


def lead(journal: SharedJournal, name: str = "one", lease: float = LONG) -> ClusterState:
    """Take the lease, and begin the term."""
    state = journal.heartbeat(report(name), lease)
    assert state.lease.process == f"{name}-process", f"{name} did not get the lease: {state.lease}"
    journal.begin_term(state.lease.term)
    return state


def lead_when_free(journal: SharedJournal, name: str) -> ClusterState:
    """Take the lease as soon as it ends."""
    until = monotonic() + 30
    while journal.heartbeat(report(name), SHORT).lease.process != f"{name}-process":
        assert monotonic() < until, "the lease did not end"
        sleep(SHORT / 10)
    return lead(journal, name)


class SharedJournalContract(JournalContract):
    """The rules of ``forewarn.journal.shared.SharedJournal``, each as a test, beside those of every journal."""

    @pytest.fixture
    def open_journal(self) -> Iterator[OpenJournal]:
        """Yield a function that opens the same database once more; every subclass says how."""
        raise NotImplementedError

    @pytest.fixture
    def journal(self, open_journal: OpenJournal) -> Journal:
        """Return a journal that holds the lease."""
        journal = open_journal()
        lead(journal)
        return journal

    @pytest.fixture
    def one(self, open_journal: OpenJournal) -> SharedJournal:
        """Return the journal of one process, loaded."""
        journal = open_journal()
        journal.load()
        return journal

    @pytest.fixture
    def other(self, open_journal: OpenJournal) -> SharedJournal:
        """Return the journal of another process, loaded."""
        journal = open_journal()
        journal.load()
        return journal

    def test_a_free_lease_is_taken(self, one: SharedJournal) -> None:
        """The first heartbeat of a node that can lead begins a term; the state names it, for about that long."""
        state = one.heartbeat(report("one"), 60)

        assert (state.lease.node, state.lease.process) == ("one", "one-process")
        # Terms go by the time, so that none comes again where the database is restored or copied.
        assert state.lease.term >= datetime.now(UTC).timestamp() - 60
        assert 50 < state.lease.remaining <= 60
        assert (state.revision, state.format) == (0, FORMAT)
        assert abs(state.now - datetime.now(UTC)) < timedelta(seconds=30)
        assert [member.report for member in state.members] == [report("one")]
        assert 0 <= state.members[0].age < 30

    def test_a_lease_is_renewed_in_its_term(self, one: SharedJournal) -> None:
        """A heartbeat of the process that holds it makes it end later, and nothing else."""
        first = one.heartbeat(report("one"), 20)
        second = one.heartbeat(report("one"), 60)

        assert first.lease.term == second.lease.term
        assert second.lease.remaining > 50

    def test_a_lease_belongs_to_one(self, one: SharedJournal, other: SharedJournal) -> None:
        """As long as it lasts no other node gets it; both see the same."""
        first = lead(one, "one")
        state = other.heartbeat(report("other"), LONG)

        assert (state.lease.term, state.lease.node) == (first.lease.term, "one")
        assert [member.report.name for member in state.members] == ["one", "other"]
        with pytest.raises(LeaseLost):
            other.append(0, hosts(1, 1))

    def test_a_node_that_cannot_lead_takes_no_lease(self, one: SharedJournal) -> None:
        """It is heard of all the same, and does not renew the lease that it has."""
        state = one.heartbeat(report("one", can_lead=False), LONG)
        assert (state.lease.term, state.lease.node, state.lease.process) == (0, "", "")
        assert state.lease.remaining <= 0

        first = one.heartbeat(report("one"), 60)
        second = one.heartbeat(report("one", can_lead=False), LONG)
        assert second.lease.term == first.lease.term
        assert second.lease.remaining <= 60

    def test_a_name_belongs_to_one_process(self, one: SharedJournal, other: SharedJournal) -> None:
        """A second process of that name is refused while the first is heard of, and changes nothing."""
        lead(one, "one")
        with pytest.raises(NodeNameTaken):
            other.heartbeat(report("one", process="second"), LONG)

        one.append(0, hosts(1, 1))
        assert [member.report.process for member in one.heartbeat(report("one"), LONG).members] == ["one-process"]

    def test_a_process_that_left_gives_its_name_away(self, one: SharedJournal, other: SharedJournal) -> None:
        """After ``leave`` the others do not see it any more, and another process may have its name at once."""
        one.heartbeat(report("one", can_lead=False), LONG)
        one.leave("one", "another process")  # of which nothing is known
        assert other.heartbeat(report("other", can_lead=False), LONG).members[0].report.name == "one"
        one.leave("one", "one-process")
        one.leave("one", "one-process")

        assert [each.report.name for each in other.heartbeat(report("other"), LONG).members] == ["other"]
        assert other.heartbeat(report("one", process="second"), LONG).members[0].report.process == "second"

    def test_a_lease_that_ended_is_taken_in_a_new_term(self, one: SharedJournal, other: SharedJournal) -> None:
        """The earlier leader appends nothing any more, and the new one continues behind what it had appended."""
        first = lead(one, "one", SHORT)
        one.append(0, hosts(1, 2))
        second = lead_when_free(other, "other")

        assert second.lease.term > first.lease.term
        with pytest.raises(LeaseLost):
            one.append(2, hosts(3, 3))
        assert list(other.entries(0)) == hosts(1, 2)
        other.append(2, hosts(3, 4))
        assert list(one.entries()) == hosts(1, 4)

    def test_nothing_is_appended_after_the_lease(self, one: SharedJournal) -> None:
        """Even if no other node has taken it; a new heartbeat begins a new term."""
        first = lead(one, "one", SHORT)
        sleep(SHORT * 1.5)

        with pytest.raises(LeaseLost):
            one.append(0, hosts(1, 1))
        assert one.heartbeat(report("one"), LONG).lease.term > first.lease.term
        with pytest.raises(LeaseLost):
            one.append(0, hosts(1, 1))
        lead(one, "one")
        one.append(0, hosts(1, 1))

    def test_a_journal_without_a_term_takes_nothing(self, one: SharedJournal) -> None:
        """Before a term is begun, and after it was given up."""
        with pytest.raises(LeaseLost):
            one.append(0, hosts(1, 1))
        lead(one)
        one.append(0, hosts(1, 1))
        one.begin_term(0)

        with pytest.raises(LeaseLost):
            one.append(1, hosts(2, 2))
        assert issubclass(LeaseLost, NotWritten)
        assert list(one.entries()) == hosts(1, 1)

    def test_a_released_lease_can_be_taken_at_once(self, one: SharedJournal, other: SharedJournal) -> None:
        """Its holder appends nothing any more; releasing again, or a term that is over, changes nothing."""
        first = lead(one, "one").lease.term
        one.release_lease("one", first)
        one.release_lease("one", first)

        with pytest.raises(LeaseLost):
            one.append(0, hosts(1, 1))
        second = lead(other, "other").lease.term
        assert second > first
        one.release_lease("one", first)
        one.release_lease("one", second)
        other.append(0, hosts(1, 1))

    def test_a_released_lease_wakes_followers(self, one: SharedJournal, other: SharedJournal) -> None:
        """Who follows returns at once, without an entry, so that it can take the lease."""
        term = lead(one, "one").lease.term
        one.append(0, hosts(1, 1))
        following = begin(lambda: other.follow(1, timeout=600))
        until = monotonic() + 30
        while not following.done() and monotonic() < until:  # the first time it may be released before it is followed
            one.release_lease("one", term)
            sleep(0.05)
            term = one.heartbeat(report("one"), LONG).lease.term

        assert not in_time("follower", 0, following)

    def test_an_append_is_seen_by_every_node(self, one: SharedJournal, other: SharedJournal) -> None:
        """Others are woken, read it, find it in history, and load it."""
        lead(one)
        one.append(0, hosts(1, 1))
        following = begin(lambda: other.follow(1, timeout=60) and list(other.entries(after=1)))
        one.append(1, hosts(2, 3))

        assert in_time("follower", 30, following) == hosts(2, 3)
        assert other.history("host:host-2") == hosts(2, 2)
        recovered = other.load()
        assert recovered.revision == 3
        assert_same(recovered.fleet, folded(hosts(1, 3)))

    def test_a_request_is_recorded_once_whoever_leads(self, one: SharedJournal, other: SharedJournal) -> None:
        """A leader refuses what an earlier one has recorded."""
        first = lead(one, "one")
        one.append(0, [request(1, "key")])
        one.release_lease("one", first.lease.term)
        other.load()
        lead(other, "other")

        with pytest.raises(RepeatedCommand):
            other.append(1, [request(2, "key")])
        other.append(1, hosts(2, 2))

    def test_loading_beside_a_leader_changes_nothing(self, one: SharedJournal, other: SharedJournal) -> None:
        """Every node loads and reads while one leads."""
        lead(one)
        for revision in range(5):
            one.append(revision, hosts(revision + 1, revision + 1))
            assert other.load().revision == revision + 1

    def test_a_revision_that_is_not_there_is_refused(self, one: SharedJournal) -> None:
        """A process that knows more than the journal does not continue it."""
        lead(one)
        one.append(0, hosts(1, 2))

        with pytest.raises(JournalDiverged):
            one.follow(3, timeout=0)
        with pytest.raises(JournalDiverged):
            list(one.entries(3))

    def test_the_format_is_what_every_node_can_read(self, one: SharedJournal, other: SharedJournal) -> None:
        """It rises when the last node can read more, and never falls."""
        lead(one)
        other.heartbeat(report("other", can_lead=False), LONG)
        one.heartbeat(report("one", format=FORMAT + 1), LONG)
        assert one.heartbeat(report("one", format=FORMAT + 1), LONG).format == FORMAT

        other.heartbeat(report("other", can_lead=False, format=FORMAT + 2), LONG)
        one.heartbeat(report("one", format=FORMAT + 1), LONG)
        assert one.heartbeat(report("one", format=FORMAT + 1), LONG).format == FORMAT + 1

        other.heartbeat(report("other", can_lead=False), LONG)
        assert one.heartbeat(report("one", format=FORMAT + 1), LONG).format == FORMAT + 1
