"""The replica: it shows what is durable, and nothing else."""

import asyncio
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from forewarn.core.commands import ChangeFleet
from forewarn.core.errors import Unavailable
from forewarn.core.facts import Announced, AnyFact, Canceled, Entry, FleetChanged
from forewarn.core.fleet import Fleet
from forewarn.core.model import (
    Event,
    EventSource,
    EventStatus,
    EventType,
    GroupKind,
    GroupTerms,
    Host,
    Operation,
    Vm,
)
from forewarn.journal.memory import MemoryJournal
from forewarn.journal.port import JournalFailed, Recovered
from forewarn.node.feed import Commit
from forewarn.node.replica import Replica
from tests.node.harness import OPERATOR, NodeHarness, run

OTHER_AT = datetime(2026, 1, 1, tzinfo=UTC)


class SlowJournal(MemoryJournal):
    """Appends when it is let, and fails when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.fails = False

    def reopen(self) -> int:
        if self.fails:
            raise JournalFailed("the disk is gone")
        return super().reopen()

    def append(self, expected_revision: int, entries: Sequence[Entry]) -> None:
        self.gate.wait(20)
        if self.fails:
            raise JournalFailed("the disk is gone")
        super().append(expected_revision, entries)


class Listener:
    """Notes which hosts the fleet had, each time it was told, and the facts."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, list[str]]] = []
        self.facts: list[AnyFact] = []

    def load(self, fleet: Fleet) -> None:
        self.heard.append(("load", list(fleet.hosts)))

    def publish(self, commit: Commit) -> None:
        self.heard.append(("publish", list(commit.fleet.hosts)))
        self.facts.extend(fact for entry in commit.entries for fact in entry.facts)


def add_host(name: str) -> ChangeFleet:
    return ChangeFleet(id=uuid4().hex, by=OPERATOR, hosts=(Host(name),))


def test_what_is_being_appended_is_not_shown_until_it_is_durable() -> None:
    """Whoever reads during an append reads the last commit; whoever waits for it to be confirmed reads the next."""
    journal = SlowJournal()

    async def story(harness: NodeHarness) -> None:
        replica = harness.node.replica
        adding = asyncio.create_task(harness.node.submit(add_host("h1")))
        await asyncio.sleep(0)
        confirming = asyncio.create_task(harness.node.writer.confirm())
        await asyncio.sleep(0)
        assert (list(replica.fleet.hosts), replica.revision) == ([], 0)
        assert not confirming.done()

        journal.gate.set()
        await confirming

        assert (list(replica.fleet.hosts), replica.revision) == (["h1"], 1)
        await adding

    run(story, journal)


def test_while_the_journal_is_gone_the_last_commit_is_shown() -> None:
    """What was decided and lost is never shown; that the journal is gone is told to those who must know."""
    journal = SlowJournal()
    journal.gate.set()

    async def story(harness: NodeHarness) -> None:
        await harness.node.submit(add_host("h1"))
        journal.fails = True
        with pytest.raises(Unavailable):
            await harness.node.submit(add_host("h2"))
        assert list(harness.node.replica.fleet.hosts) == ["h1"]
        with pytest.raises(Unavailable, match="the disk is gone"):
            await harness.node.writer.confirm()
        journal.fails = False
        harness.clock.advance(harness.node.writer.retry_after)

        await harness.node.writer.confirm()

        assert list(harness.node.replica.fleet.hosts) == ["h1"]

    run(story, journal)


def test_entries_of_another_writer_are_taken_in_like_its_own() -> None:
    """A replica needs no writer: durable entries are enough."""
    replica, listener = Replica(MemoryJournal()), Listener()
    replica.load(Recovered(Fleet(), 0))
    replica.subscribe(listener)
    facts = [FleetChanged(hosts=(Host(name),), at_run_time=True) for name in ("h1", "h2")]

    replica.apply([Entry(1, OTHER_AT, "a", OPERATOR, (facts[0],))])
    replica.apply([Entry(2, OTHER_AT, "b", OPERATOR, (facts[1],))])

    assert (replica.revision, replica.fleet.last_at) == (2, OTHER_AT)
    assert listener.heard == [("load", []), ("publish", ["h1"]), ("publish", ["h1", "h2"])]


def test_entries_of_an_earlier_release_are_published_with_the_groups_of_their_events() -> None:
    """A listener needs no memory of which event belongs to which group."""
    replica, listener = Replica(MemoryJournal()), Listener()
    replica.load(Recovered(Fleet(), 0))
    replica.subscribe(listener)
    terms, vm = GroupTerms("web", GroupKind.AVAILABILITY_SET), Vm("web-0", "web", "")
    event = Event(
        id="e",
        type=EventType.FREEZE,
        source=EventSource.USER,
        group="web",
        resources=("web-0",),
        status=EventStatus.SCHEDULED,
        not_before=OTHER_AT,
        announced_at=OTHER_AT,
        operation=Operation.VM_FREEZE,
    )

    replica.apply([Entry(1, OTHER_AT, "a", OPERATOR, (FleetChanged(groups=(terms,), vms=(vm,)), Announced(event)))])
    replica.apply([Entry(2, OTHER_AT, "b", OPERATOR, (Canceled("e", OTHER_AT, "taken back"),))])

    assert listener.facts[-1] == Canceled("e", OTHER_AT, "taken back", group="web")


def test_a_listener_is_loaded_once_there_is_a_fleet() -> None:
    """One that subscribes before the start is loaded with the others, a later one at once."""
    replica, early, late = Replica(MemoryJournal()), Listener(), Listener()
    replica.subscribe(early)
    assert early.heard == []
    replica.load(Recovered(Fleet(), 0))
    replica.subscribe(late)

    assert early.heard == late.heard == [("load", [])]
    replica.feed.unsubscribe(early)
    replica.apply([Entry(1, OTHER_AT, "a", OPERATOR, ())])
    assert (len(early.heard), len(late.heard)) == (1, 2)
