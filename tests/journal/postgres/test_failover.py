"""The journal survives a failover of the database without a restart, and loses nothing that it acknowledged."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

import psycopg
import pytest

from forewarn.journal.port import AppendUnknown, JournalFailed, NotWritten, StaleWriter
from forewarn.journal.postgres import connection as connections
from forewarn.journal.postgres.address import DatabaseAddress
from forewarn.journal.postgres.journal import PostgresJournal
from forewarn.journal.postgres.schema import migrate
from forewarn.journal.postgres.sessions import connect
from forewarn.journal.shared import JournalDiverged, LeaseLost
from forewarn.testing.calls import begin, in_time
from forewarn.testing.journal_contract import hosts
from forewarn.testing.shared_journal_contract import lead, lead_when_free, report
from tests.cleaning import closed_on_failure
from tests.journal.postgres.journals import execute, leading
from tests.postgresql import PostgresServer

pytestmark = pytest.mark.end_to_end


class ServerPair:
    """A primary and its standby, and a journal in them."""

    def __init__(self) -> None:
        self.primary = PostgresServer()
        self.standby = PostgresServer()
        self.location = (
            f"//postgres@127.0.0.1:{self.primary.port},127.0.0.1:{self.standby.port}/journal?connect_timeout=2"
        )

    def start(self) -> None:
        self.primary.initialize()
        self.primary.start()
        self.primary.execute("CREATE DATABASE journal")
        migrate(DatabaseAddress.parse(self.primary.location("journal")))
        self.standby.copy_from(self.primary, "second")
        self.standby.start()

    def synchronize(self) -> None:
        """Let every commit wait for the standby."""
        self.primary.set("synchronous_standby_names", "second")
        until = monotonic() + 30
        while self.primary.execute("SELECT sync_state FROM pg_stat_replication") != [("sync",)]:
            assert monotonic() < until

    def fail_over(self) -> None:
        """Kill the primary, and promote the standby."""
        self.primary.stop(signal.SIGKILL)
        self.standby.execute("SELECT pg_promote()")

    def close(self) -> None:
        self.primary.close()
        self.standby.close()


@pytest.fixture
def pair() -> Iterator[ServerPair]:
    """Yield two running servers."""
    pair = ServerPair()
    with closed_on_failure(pair.close):
        pair.start()
    yield pair
    pair.close()


@contextmanager
def opened(location: str, **options: float) -> Iterator[PostgresJournal]:
    journal = PostgresJournal(DatabaseAddress.parse(location), **options)  # type: ignore[arg-type]
    try:
        journal.load()
        yield journal
    finally:
        journal.close()


def test_nothing_acknowledged_is_lost_in_a_failover(pair: ServerPair) -> None:
    """The leader opens the journal again and goes on in its term; followers are woken as before."""
    pair.synchronize()
    with leading(pair.location) as leader, opened(pair.location) as follower:
        leader.append(0, hosts(1, 5))
        assert follower.follow(0, timeout=30)
        assert list(follower.entries()) == hosts(1, 5)

        pair.fail_over()
        with pytest.raises((AppendUnknown, NotWritten)):
            leader.append(5, hosts(6, 6))
        following = begin(lambda: follower.follow(5, timeout=60) and list(follower.entries(5)))
        assert leader.reopen() == 5
        leader.append(5, hosts(6, 7))

        assert in_time("follower", 30, following) == hosts(6, 7)
        assert follower.heartbeat(report("other"), 60).lease.node == "one"
        assert follower.load().revision == 7


def test_an_append_waits_for_the_standby(pair: ServerPair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where that does not answer in time its outcome is unknown; opening the journal again tells, when it can."""
    pair.synchronize()
    monkeypatch.setattr(connections.LimitedConnection, "limit", 0.5)
    with leading(pair.location) as leader:
        leader.append(0, hosts(1, 1))
        pair.standby.signal(signal.SIGSTOP)
        connection = leader._writer._connection
        assert connection is not None
        connection.limit = 0.5
        with pytest.raises(AppendUnknown, match=r"no answer within 0\.5 s"):
            leader.append(1, hosts(2, 2))
        with pytest.raises(NotWritten, match="load it again"):
            leader.append(1, hosts(2, 2))
        pair.standby.signal(signal.SIGCONT)

        assert leader.reopen() == 2
        leader.append(2, hosts(3, 3))
        assert list(leader.entries()) == hosts(1, 3)


def test_a_commit_that_was_not_replicated_is_not_acknowledged(pair: ServerPair) -> None:
    """An administrator can end the wait for the standby; the server then reports success, with a warning."""
    pair.synchronize()
    with leading(pair.location) as leader:
        leader.append(0, hosts(1, 1))
        pair.standby.signal(signal.SIGSTOP)
        appending = begin(lambda: leader.append(1, hosts(2, 2)))
        waiting = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
        until = monotonic() + 30
        while not pair.primary.execute(waiting):
            assert monotonic() < until

        with pytest.raises(AppendUnknown, match="has not replicated a commit"):
            in_time("append", 30, appending)
        pair.standby.signal(signal.SIGCONT)
        assert leader.reopen() == 2


def test_a_failover_that_loses_commits_is_noticed(pair: ServerPair) -> None:
    """A standby that is not synchronous may lack some: who has read them loads the journal again."""
    with leading(pair.location) as leader, opened(pair.location) as follower:
        leader.append(0, hosts(1, 3))
        until = monotonic() + 30
        while pair.standby.execute("SELECT revision FROM forewarn.head", "journal") != [(3,)]:
            assert monotonic() < until
        pair.standby.set("primary_conninfo", "")
        while pair.primary.execute("SELECT FROM pg_stat_replication"):
            assert monotonic() < until
        leader.append(3, hosts(4, 6))
        assert list(follower.entries()) == hosts(1, 6)
        pair.fail_over()

        with pytest.raises(JournalDiverged):
            follower.follow(6, timeout=30)
        with pytest.raises(JournalDiverged):
            list(follower.entries(6))
        with pytest.raises(JournalDiverged):
            leader.reopen()
        assert leader.load().revision == 3
        leader.append(3, hosts(4, 4))
        with pytest.raises(JournalDiverged):
            follower.follow(6, timeout=30)
        assert follower.load().revision == 4
        assert not follower.follow(4, timeout=0)


def test_other_entries_in_the_place_of_lost_ones_are_noticed(database: str) -> None:
    """The revision may be as high as before, or higher: the chain of hashes tells."""
    with leading(database) as leader, opened(database) as follower:
        leader.append(0, hosts(1, 3))
        assert list(follower.entries()) == hosts(1, 3)
        execute(database, "DELETE FROM forewarn.entries WHERE revision = 3")
        execute(database, "DELETE FROM forewarn.commands; DELETE FROM forewarn.subjects")
        execute(
            database,
            "UPDATE forewarn.head SET revision = 2, hash = (SELECT hash FROM forewarn.entries WHERE revision = 2)",
        )
        with pytest.raises(StaleWriter):
            leader.append(3, hosts(4, 4))
        assert leader.load().revision == 2
        other = [*hosts(4, 5)]
        leader.append(
            2, [type(each)(each.revision - 1, each.at, each.command, each.by, each.facts) for each in other]
        )

        with pytest.raises(JournalDiverged):
            list(follower.entries(3))
        with pytest.raises(JournalDiverged):
            list(follower.entries(2))
        with pytest.raises(JournalDiverged):
            follower.reopen()
        assert follower.load().revision == 4


def test_an_append_that_arrives_after_its_connection_was_given_up_adds_nothing(database: str) -> None:
    """Its outcome was told already: what is on its way finds another session."""
    with leading(database) as journal:
        journal.append(0, hosts(1, 1))
        connection = journal._writer._connection
        assert connection is not None
        run, late = connection.run, []

        def lose(name: str, /, **values: object) -> list[tuple[object, ...]]:
            late.append((name, values))
            connection.interrupt()
            return run("read_head")

        connection.run = lose  # type: ignore[method-assign]  # the one of a connection that ends with it
        with pytest.raises(AppendUnknown):
            journal.append(1, hosts(2, 2))
        assert journal.reopen() == 1
        with connect(DatabaseAddress.parse(database)) as other:
            ((name, values),) = late
            assert other.run(name, **values) == []

        assert list(journal.entries()) == hosts(1, 1)
        journal.append(1, hosts(2, 2))


def test_opening_again_waits_for_an_append_that_is_under_way(database: str) -> None:
    """The server may still work on it although its connection was given up."""
    with leading(database) as journal:
        journal.append(0, hosts(1, 1))
        connection = journal._writer._connection
        assert connection is not None
        connection.limit = 0.5
        with psycopg.connect(DatabaseAddress.parse(database).conninfo) as other:
            other.execute("SELECT FROM forewarn.head FOR UPDATE")
            with pytest.raises(AppendUnknown):
                journal.append(1, hosts(2, 2))
            reopening = begin(journal.reopen)
            other.rollback()

        assert in_time("reopen", 30, reopening) == 2
        journal.append(2, hosts(3, 3))


def test_a_server_that_hangs_does_not_hang_a_node(pair: ServerPair) -> None:
    """Every call ends in its time, and goes on when the standby has taken over."""
    pair.synchronize()
    with leading(pair.location, read_limit=1.0) as leader, opened(pair.location, read_limit=1.0) as follower:
        leader.append(0, hosts(1, 1))
        pair.primary.signal(signal.SIGSTOP)
        connection = leader._writer._connection
        assert connection is not None
        connection.limit = 1.0

        with pytest.raises(AppendUnknown):
            in_time("append", 20, begin(lambda: leader.append(1, hosts(2, 2))))
        with pytest.raises(JournalFailed):
            in_time("heartbeat", 20, begin(lambda: leader.heartbeat(report("one"), 1.0)))
        with pytest.raises(JournalFailed):
            in_time("follower", 20, begin(lambda: list(follower.entries())))
        pair.standby.execute("SELECT pg_promote()")

        assert in_time("reopen", 20, begin(leader.reopen)) == 1
        assert in_time("follower", 20, begin(lambda: list(follower.entries()))) == hosts(1, 1)
        leader.append(1, hosts(2, 2))


def test_sessions_on_a_silent_host_end_when_another_one_takes_over(pair: ServerPair) -> None:
    """The first session that finds the new primary frees the others, which would wait for up to 30 s."""
    pair.synchronize()
    with leading(pair.location) as leader, opened(pair.location) as follower:
        leader.append(0, hosts(1, 1))
        assert list(follower.entries()) == hosts(1, 1)
        pair.primary.signal(signal.SIGSTOP)
        appending = begin(lambda: leader.append(1, hosts(2, 2)))
        reading = begin(lambda: list(follower.entries()))
        pair.standby.execute("SELECT pg_promote()")
        follower.heartbeat(report("other"), 1.0)

        assert in_time("reader", 5, reading) == hosts(1, 1)
        with pytest.raises(AppendUnknown):
            in_time("append", 5, appending)
        began = monotonic()
        assert leader.reopen() == 1
        assert monotonic() - began < 2, "a session tried the silent host first"


def test_a_standby_alone_is_refused(pair: ServerPair) -> None:
    """Nothing can be appended there: the address needs the primary."""
    journal = PostgresJournal(DatabaseAddress.parse(pair.standby.location("journal")))

    with pytest.raises(JournalFailed, match="no server that accepts writes: name the primary, or promote a standby"):
        journal.load()


def test_terms_go_on_after_a_failover(pair: ServerPair) -> None:
    """The lease is in the database: it is as it was, and a new term is above all before."""
    pair.synchronize()
    with leading(pair.location) as leader, opened(pair.location) as other:
        term = leader.heartbeat(report("one"), 0.5).lease.term
        pair.fail_over()
        state = lead_when_free(other, "other")

        assert state.lease.term > term
        with pytest.raises((LeaseLost, AppendUnknown)):
            leader.append(0, hosts(1, 1))
        leader.reopen()
        with pytest.raises(LeaseLost):
            leader.append(0, hosts(1, 1))
        assert lead(other, "other").lease.term == state.lease.term
