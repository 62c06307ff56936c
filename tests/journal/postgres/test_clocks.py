"""A promoted server may have another clock than the one before: leases, terms and names do not suffer from it.

One server whose clock is set stands for both: what is stored is the same.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from time import monotonic

import pytest

from forewarn.core.fact import FORMAT
from forewarn.journal.postgres.address import DatabaseAddress
from forewarn.journal.postgres.journal import PostgresJournal
from forewarn.journal.postgres.schema import migrate
from forewarn.journal.shared import LeaseLost
from forewarn.testing.journal_contract import hosts
from forewarn.testing.shared_journal_contract import lead, report
from tests.cleaning import closed_on_failure
from tests.postgresql import PostgresServer

pytestmark = pytest.mark.end_to_end

HOUR = 3600
LEASE = 3.0
SHORT = 1.0


class ServerWithClock(PostgresServer):
    """A server whose clock is wrong by as many seconds as a file says."""

    def __init__(self) -> None:
        super().__init__()
        self.set_clock(0)
        (library,) = Path("/usr/lib").glob("*/faketime/libfaketime.so.1")
        self.environment = (
            "env",
            f"LD_PRELOAD={library}",
            f"FAKETIME_TIMESTAMP_FILE={self.directory / 'clock'}",
            "FAKETIME_NO_CACHE=1",
            "FAKETIME_DONT_FAKE_MONOTONIC=1",
        )

    def set_clock(self, seconds: int) -> None:
        new = self.directory / "clock.new"
        new.write_text(f"{seconds:+d}s\n", encoding="ascii")
        new.chmod(0o644)
        new.replace(self.directory / "clock")


@pytest.fixture(scope="module")
def server() -> Iterator[ServerWithClock]:
    """Yield a running server."""
    server = ServerWithClock()
    with closed_on_failure(server.close):
        server.initialize()
        server.start()
    yield server
    server.close()


@pytest.fixture
def open_journal(server: ServerWithClock) -> Iterator[Callable[[], PostgresJournal]]:
    """Yield a function that opens a journal as one more process would; at first the clock is right."""
    server.set_clock(0)
    name = server.new_database()
    address = DatabaseAddress.parse(server.location(name))
    migrate(address)
    with ExitStack() as opened:

        def open_one() -> PostgresJournal:
            journal = opened.enter_context(closing(PostgresJournal(address)))
            journal.load()
            return journal

        yield open_one
    server.drop_database(name)


def take(journal: PostgresJournal, name: str, lease: float = LEASE) -> int:
    """Take the lease as soon as it is free; return its term."""
    began = monotonic()
    while True:
        state = journal.heartbeat(report(name), lease)
        if state.lease.process == f"{name}-process":
            journal.begin_term(state.lease.term)
            return state.lease.term
        assert monotonic() - began < 30, f"the lease is not free: {state.lease}"


def beat_for(seconds: float, *journals: tuple[PostgresJournal, str]) -> None:
    """Let nodes send heartbeats, as they do where nothing fails."""
    began = monotonic()
    while monotonic() - began < seconds:
        for journal, name in journals:
            journal.heartbeat(report(name), SHORT)


@pytest.mark.parametrize("is_promoted", [True, False])
def test_a_leader_that_lives_keeps_the_lease_when_the_clock_goes_ahead(
    server: ServerWithClock,
    open_journal: Callable[[], PostgresJournal],
    is_promoted: bool,  # noqa: FBT001 - a case
) -> None:
    """On a promoted server, and on one whose clock is set: the lease seems to have ended, and only its holder has it.

    Another node takes it after the time of a lease in which nobody renewed it.
    """
    one, other = open_journal(), open_journal()
    first = lead(one, "one", SHORT).lease.term
    beat_for(1.5 * SHORT, (one, "one"), (other, "other"))
    server.set_clock(HOUR)
    if is_promoted:
        one._leases.close()  # the sessions were on the server before
        other._leases.close()

    ended = other.heartbeat(report("other"), SHORT).lease
    assert (ended.term, ended.node, ended.process) == (first, "", "")
    assert 0 < ended.remaining <= SHORT
    renewed = one.heartbeat(report("one"), SHORT).lease
    assert (renewed.node, renewed.term > first) == ("one", True)
    assert other.heartbeat(report("other"), SHORT).lease.node == "one"

    server.set_clock(2 * HOUR)
    began = monotonic()
    assert take(other, "other", SHORT) > renewed.term
    assert SHORT <= monotonic() - began < 2 * SHORT


def test_a_lease_is_taken_when_it_ends_where_the_clock_goes_on(open_journal: Callable[[], PostgresJournal]) -> None:
    """A leader that was killed is replaced after the time of its lease: the others know the clock already."""
    one, other = open_journal(), open_journal()
    lead(one, "one", SHORT)
    beat_for(1.5 * SHORT, (one, "one"), (other, "other"))
    remaining = other.heartbeat(report("other"), SHORT).lease.remaining
    began = monotonic()
    take(other, "other", SHORT)

    assert monotonic() - began < remaining + 0.25


def test_a_term_never_comes_again_whatever_the_clock_says(
    server: ServerWithClock, open_journal: Callable[[], PostgresJournal]
) -> None:
    """By a clock that is ahead, the lease has ended; when the clock is mended, terms go on above that."""
    one, other, third = open_journal(), open_journal(), open_journal()
    first = lead(one, "one", LEASE).lease.term
    one.append(0, hosts(1, 1))
    server.set_clock(HOUR)
    second = take(other, "other")
    assert second >= first + HOUR - 60
    with pytest.raises(LeaseLost):
        one.append(1, hosts(2, 2))
    other.reopen()
    other.append(1, hosts(2, 2))
    server.set_clock(0)

    assert take(third, "third") == second + 1
    with pytest.raises(LeaseLost):
        other.append(2, hosts(3, 3))
    third.reopen()
    third.append(2, hosts(3, 3))
    assert list(one.entries()) == hosts(1, 3)


def test_a_lease_of_a_clock_that_was_ahead_ends_soon(
    server: ServerWithClock, open_journal: Callable[[], PostgresJournal]
) -> None:
    """Its leader died with the old server; while it lives, it renews the lease, and keeps it."""
    one, other = open_journal(), open_journal()
    server.set_clock(HOUR)
    first = take(one, "one")
    server.set_clock(0)
    for _ in range(3):
        assert other.heartbeat(report("other"), LEASE).lease.node == "one"
        state = one.heartbeat(report("one"), LEASE)
        assert (state.lease.term, state.lease.remaining <= LEASE) == (first, True)
    server.set_clock(HOUR)
    assert take(one, "one") > first
    server.set_clock(0)
    began = monotonic()
    take(other, "other")

    assert monotonic() - began < 2 * LEASE + 5


def test_a_node_can_start_again_after_a_failover_to_a_clock_that_is_behind(
    server: ServerWithClock, open_journal: Callable[[], PostgresJournal]
) -> None:
    """Its earlier process was last heard of in the future."""
    one, again = open_journal(), open_journal()
    server.set_clock(HOUR)
    one.heartbeat(report("one"), LEASE)
    server.set_clock(0)

    members = again.heartbeat(report("one", process="second"), LEASE).members
    assert [each.report.process for each in members] == ["second"]


def test_a_node_that_lives_counts_for_the_format_although_the_clock_is_ahead(
    server: ServerWithClock, open_journal: Callable[[], PostgresJournal]
) -> None:
    """It is of an older release, and its next heartbeat comes in a second: nothing is written that it cannot read."""
    one, old = open_journal(), open_journal()
    lead(one, "one", LEASE)
    newer = report("one", format=FORMAT + 1)
    old.heartbeat(report("old", can_lead=False), LEASE)
    server.set_clock(HOUR)
    one._leases.close()  # its session was on the server before
    one.heartbeat(newer, LEASE)
    old.heartbeat(report("old", can_lead=False), LEASE)
    one.heartbeat(newer, LEASE)

    assert one.heartbeat(newer, LEASE).format == FORMAT
