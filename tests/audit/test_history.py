"""The record answers by VM, group, host, event, caller and time, to each as far as it may know."""

import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from forewarn.audit.history import HistoryQuery, first_revision_since, read_history_page, read_newest_lines
from forewarn.audit.history_lines import HistoryLine
from forewarn.core.access import Principal
from forewarn.core.commands import (
    ChangeFleet,
    CreateToken,
    DeallocateVm,
    OperateVm,
    RecordFetched,
    SetGroup,
    StartVm,
    VmOperation,
)
from forewarn.core.facts import Entry, Fetch
from forewarn.core.model import NODE, ApprovalRule, Event, Role, Token, Vm
from forewarn.journal.port import Journal
from forewarn.journal.sqlite.journal import SqliteJournal
from forewarn.testing.journal_contract import NOON, hosts
from tests.control.history_harness import ADA, OPERATOR, START, VIEWER, HistoryHarness, owner

LIFE = ["announced", "approved", "started", "attempted", "completed"]


@pytest.fixture
def history_harness() -> HistoryHarness:
    """A freeze of each of three VMs, approved by a VM of its group and carried out; then web-0 is deallocated."""
    history_harness = HistoryHarness()
    for vm, neighbour in (("web-0", "web-1"), ("db-0", "db-0"), ("web-1", "web-1")):
        event = history_harness.freeze(vm)
        history_harness.approve(event, neighbour)
        history_harness.finish(event)
    history_harness.do(DeallocateVm(id=history_harness.id(), by=ADA, vm="web-0"))
    return history_harness


def test_a_vm_s_history_is_what_names_it_and_the_lives_of_its_events(history_harness: HistoryHarness) -> None:
    """What was approved and carried out is found, though those facts name the event alone."""
    found = history_harness.ask(HistoryQuery(vm="web-0", oldest_first=True)).lines

    assert [line.fact for line in found] == ["fleet-changed", *LIFE, "vm-deallocated"]
    assert {line.group for line in found} == {"web"}
    assert all("web-0" in line.vms for line in found)


def test_a_group_s_history_holds_all_its_vms(history_harness: HistoryHarness) -> None:
    """What happened to the VMs of a group belongs to it, what happened to others does not."""
    facts = history_harness.facts(HistoryQuery(group="web", oldest_first=True))

    assert facts == ["fleet-changed", *LIFE, *LIFE, "vm-deallocated"]


def test_a_host_s_history_holds_the_events_on_it(history_harness: HistoryHarness) -> None:
    """The events of the VMs that stood there, whole."""
    assert history_harness.facts(HistoryQuery(host="h2", oldest_first=True)) == ["fleet-changed", *LIFE]


def test_an_event_is_found_by_its_id(history_harness: HistoryHarness) -> None:
    """One event's life, and nothing that happened beside it."""
    event = history_harness.freeze("db-0")
    history_harness.restart("web-1")

    assert history_harness.facts(HistoryQuery(event=event)) == ["announced"]


def test_a_caller_s_history_is_what_it_caused(history_harness: HistoryHarness) -> None:
    """A VM's approvals are found by its name, with the address they came from."""
    found = history_harness.ask(HistoryQuery(caller="web-1")).lines

    assert [(line.fact, line.origin) for line in found] == [
        ("started", "10.0.0.2"),
        ("approved", "10.0.0.2"),
    ] * 2


def test_all_that_is_asked_for_must_fit(history_harness: HistoryHarness) -> None:
    """A VM and a caller together give what that caller did to that VM."""
    assert history_harness.facts(HistoryQuery(vm="web-0", caller="web-1", oldest_first=True)) == [
        "approved",
        "started",
    ]
    assert history_harness.facts(HistoryQuery(vm="web-0", group="db")) == []


def test_time_bounds_what_is_told(history_harness: HistoryHarness) -> None:
    """From a time on, and up to another that is itself left out; alone, or with a name."""
    hour = timedelta(hours=1)

    assert history_harness.facts(HistoryQuery(since=START + hour, until=START + 2 * hour)) == ["announced"]
    assert history_harness.facts(HistoryQuery(until=START + hour)) == ["fleet-changed"]
    assert history_harness.facts(HistoryQuery(vm="web-0", since=START + 3 * hour, until=START + 9 * hour)) == [
        "completed",
        "attempted",
    ]
    assert (
        history_harness.facts(HistoryQuery(since=history_harness.now))
        == history_harness.facts(HistoryQuery(until=START))
        == []
    )


def test_the_first_revision_of_a_time_is_found_by_halving(history_harness: HistoryHarness) -> None:
    """For times before, between, on and after the entries."""
    for revision in range(1, history_harness.revision + 1):
        at = START + timedelta(hours=revision - 1)
        assert first_revision_since(history_harness.journal, at, history_harness.revision) == revision
        assert (
            first_revision_since(history_harness.journal, at + timedelta(seconds=1), history_harness.revision)
            == revision + 1
        )


@pytest.mark.parametrize(
    "asked",
    [
        HistoryQuery(),
        HistoryQuery(group="web"),
        HistoryQuery(vm="web-0"),
        HistoryQuery(caller="ada"),
        HistoryQuery(since=START),
    ],
)
@pytest.mark.parametrize("oldest_first", [False, True])
def test_pages_hold_every_line_once(
    history_harness: HistoryHarness, asked: HistoryQuery, *, oldest_first: bool
) -> None:
    """Read in pages of two, a history is the same as read at once, also where an entry is split."""
    asked = replace(asked, oldest_first=oldest_first)
    whole = history_harness.ask(asked)
    paged: list[HistoryLine] = []
    query = replace(asked, limit=2)
    while True:
        page = history_harness.ask(query)
        paged += page.lines
        if page.is_all:
            break
        query = replace(query, behind=page.lines[-1].place)

    assert whole.is_all
    assert tuple(paged) == whole.lines
    assert [line.place for line in paged] == sorted((line.place for line in paged), reverse=not oldest_first)


def test_histories_longer_than_a_chunk_are_read_on() -> None:
    """More entries than are read at a time come whole, from either end."""
    history_harness = HistoryHarness()
    for _ in range(150):
        history_harness.do(DeallocateVm(id=history_harness.id(), by=ADA, vm="web-0"))
        history_harness.fleet.vms["web-0"] = replace(history_harness.fleet.vms["web-0"], deallocated=False)
        history_harness.do(DeallocateVm(id=history_harness.id(), by=ADA, vm="web-1"))
        history_harness.fleet.vms["web-1"] = replace(history_harness.fleet.vms["web-1"], deallocated=False)

    for query in (HistoryQuery(limit=999), HistoryQuery(caller="ada", limit=999)):
        newest = history_harness.ask(query).lines
        assert len(newest) == 301
        assert history_harness.ask(replace(query, oldest_first=True)).lines == newest[::-1]


@pytest.mark.parametrize("kept_from", [2, 250, 451, 601])
def test_a_history_whose_beginning_was_deleted_is_told_once(tmp_path: Path, kept_from: int) -> None:
    """From either end, and bounded by a time before, at and after the first entry that is kept."""
    journal = SqliteJournal(tmp_path)
    fleet = journal.load().fleet
    journal.append(0, hosts(1, 650))
    with closing(sqlite3.connect(tmp_path / "journal.sqlite3")) as connection:
        connection.execute("DELETE FROM entries WHERE revision < ?", (kept_from,))
        connection.commit()
    everything = list(range(kept_from, 651))

    for oldest_first in (False, True):
        order = everything if oldest_first else everything[::-1]
        for until in (None, 1, kept_from, kept_from + 9, 640):
            bound = NOON + timedelta(seconds=until) if until else None
            asked = HistoryQuery(limit=9_999, oldest_first=oldest_first, until=bound)
            result = [line.revision for line in read_history_page(journal, fleet, 650, asked, OPERATOR).lines]
            assert result == [revision for revision in order if until is None or revision < until]
    journal.close()


def test_an_owner_reads_of_its_own_groups_only(history_harness: HistoryHarness) -> None:
    """Whatever it asks for: nothing, another's VM, group or caller, or a time."""
    principal = owner("db")

    assert history_harness.facts(HistoryQuery(oldest_first=True), principal) == ["fleet-changed", *LIFE]
    assert history_harness.facts(HistoryQuery(vm="db-0", oldest_first=True), principal) == ["fleet-changed", *LIFE]
    assert history_harness.facts(HistoryQuery(since=START), principal) == history_harness.facts(
        HistoryQuery(), principal
    )
    for foreign in (
        HistoryQuery(vm="web-0"),
        HistoryQuery(group="web"),
        HistoryQuery(caller="web-1"),
        HistoryQuery(host="h2"),
    ):
        assert history_harness.facts(foreign, principal) == []


def test_an_owner_finds_what_was_its_own_when_the_vm_is_gone(history_harness: HistoryHarness) -> None:
    """A VM that left the fleet keeps its history in the group it was in."""
    del history_harness.fleet.vms["db-0"]

    assert history_harness.facts(HistoryQuery(vm="db-0", oldest_first=True), owner("db")) == ["fleet-changed", *LIFE]
    assert history_harness.facts(HistoryQuery(vm="db-0"), owner("web")) == []


def test_fetches_are_told_one_by_one(history_harness: HistoryHarness) -> None:
    """A batch is a line for each VM that fetched; a VM's own history holds its own."""
    event = history_harness.freeze("web-1")
    fetches = tuple(Fetch(event, vm, history_harness.now) for vm in ("web-0", "web-1"))
    history_harness.do(RecordFetched(id=history_harness.id(), by=NODE, fetches=fetches))

    lines = history_harness.ask(HistoryQuery(event=event, oldest_first=True)).lines
    assert [(line.fact, line.vms) for line in lines[1:]] == [("fetched", ("web-0",)), ("fetched", ("web-1",))]
    assert [line.vms for line in history_harness.ask(HistoryQuery(vm="web-1", limit=1)).lines] == [("web-1",)]


def test_only_operators_read_of_tokens_and_nobody_reads_their_hashes(history_harness: HistoryHarness) -> None:
    """A viewer sees everything else."""
    token = Token("t1", "ci", Role.VIEWER, "5ec7e7", history_harness.now)
    history_harness.do(CreateToken(id=history_harness.id(), by=ADA, token=token))

    (line,) = history_harness.ask(HistoryQuery(limit=1)).lines
    assert (line.fact, line.detail["name"]) == ("token-created", "ci")
    assert "5ec7e7" not in str(line.detail)
    assert history_harness.facts(HistoryQuery(limit=1), VIEWER) == ["vm-deallocated"]


def test_a_large_declaration_is_summed_up(history_harness: HistoryHarness) -> None:
    """Asked by time, a declaration says how much; asked by VM, what of it."""
    (line,) = history_harness.ask(HistoryQuery(until=START + timedelta(hours=1)), OPERATOR).lines
    assert line.detail == {"hosts": 2, "groups": 2, "vms": 3}

    *_, declared = history_harness.ask(HistoryQuery(vm="db-0")).lines
    assert declared.detail == {"declared": {"name": "db-0", "group": "db", "host": "h1", "address": "10.0.0.3"}}


def test_terms_that_changed_are_told_before_and_after(history_harness: HistoryHarness) -> None:
    """Each key that changed, and no other."""
    history_harness.do(SetGroup(id=history_harness.id(), by=ADA, group="web", approval=ApprovalRule.QUORUM, quorum=2))

    (line,) = history_harness.ask(HistoryQuery(group="web", limit=1)).lines

    assert line.detail == {
        "changed": {
            "approval": {"before": "any", "after": "quorum"},
            "policy.quorum": {"before": 0, "after": 2},
        }
    }


def test_a_group_s_history_holds_who_joined_and_left(history_harness: HistoryHarness) -> None:
    """By declaration, by moving to another group, and by removal; a VM that changed is told before and after."""
    moved = Vm("web-1", "db", "h2", update_domain=1, fault_domain=1, address="10.0.0.2")
    changed = Vm("db-0", "db", "h1", address="10.0.0.9")
    history_harness.do(ChangeFleet(id=history_harness.id(), by=ADA, vms=(Vm("web-2", "web", "h1"), moved, changed)))
    history_harness.do(ChangeFleet(id=history_harness.id(), by=ADA, removed_vms=("web-2",)))

    left, joined = history_harness.ask(HistoryQuery(group="web", limit=2)).lines
    assert (left.vms, left.detail) == (("web-2",), {"left": ("web-2",)})
    assert (joined.vms, joined.detail) == (("web-2", "web-1"), {"joined": ("web-2",), "left": ("web-1",)})
    line = next(line for line in history_harness.ask(HistoryQuery(group="db")).lines if line.fact == "fleet-changed")
    assert line.detail == {
        "joined": ("web-1",),
        "changed": {"db-0.address": {"before": "10.0.0.3", "after": "10.0.0.9"}},
    }
    *_, first = history_harness.ask(HistoryQuery(group="web")).lines
    assert first.detail["joined"] == ("web-0", "web-1")


def test_an_owner_reads_that_its_vm_was_removed(history_harness: HistoryHarness) -> None:
    """Also by the VM's name, when it is gone."""
    history_harness.do(ChangeFleet(id=history_harness.id(), by=ADA, removed_vms=("db-0",)))

    for query in (HistoryQuery(limit=1), HistoryQuery(vm="db-0", limit=1)):
        (line,) = history_harness.ask(query, owner("db")).lines
        assert (line.fact, line.group, line.vms) == ("fleet-changed", "db", ("db-0",))
    assert "db-0" not in str(history_harness.ask(HistoryQuery(limit=1), owner("web")).lines)


def test_what_changed_is_told_where_nothing_is_asked_for_by_name(history_harness: HistoryHarness) -> None:
    """Beside how much it was."""
    history_harness.do(
        ChangeFleet(id=history_harness.id(), by=ADA, vms=(Vm("db-0", "db", "h2", address="10.0.0.3"),))
    )

    (line,) = history_harness.ask(HistoryQuery(limit=1)).lines

    assert line.detail == {"vms": 1, "changed": {"db-0.host": {"before": "h1", "after": "h2"}}}


class _CountingJournal:
    """A journal that counts the entries that it returns."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.read = 0

    def history(self, subject: str, **span: Any) -> list[Entry]:
        found = self._journal.history(subject, **span)
        self.read += len(found)
        return found


@pytest.mark.parametrize("principal", [OPERATOR, owner("web")], ids=["operator", "owner"])
@pytest.mark.parametrize("query", [HistoryQuery(limit=15, group="web"), HistoryQuery(limit=15, vm="web-0")])
def test_the_newest_lines_cost_what_they_are(query: HistoryQuery, principal: Principal) -> None:
    """However long the history is. They are the newest of all, also of an event that waits since long ago."""
    history_harness = HistoryHarness()
    later = START + timedelta(days=300)
    freeze = OperateVm(id=history_harness.id(), by=ADA, operation=VmOperation.FREEZE, vm="web-0", not_before=later)
    history_harness.do(freeze)
    (announced,) = history_harness.fleet.events.values()
    costs = []
    for _ in range(3):
        for _ in range(250):
            history_harness.finish(history_harness.restart("web-0"))
        journal = _CountingJournal(history_harness.journal)
        told = _newest(history_harness, journal, query, principal, [announced])
        assert told == history_harness.ask(query, principal).lines
        costs.append(journal.read)
    history_harness.approve(announced.id, "web-1")
    history_harness.finish(announced.id)
    told = _newest(history_harness, history_harness.journal, query, principal, [announced])
    assert [line.fact for line in told[:4]] == ["completed", "attempted", "started", "approved"]

    assert costs[2] == costs[1] < 1_500


def test_lines_are_found_by_their_kind_and_by_who_caused_them(history_harness: HistoryHarness) -> None:
    """Both must match; VMs and the service are not people."""
    facts = frozenset({"approved", "vm-deallocated", "announced"})
    by_people = history_harness.facts(HistoryQuery(facts=facts, only_people=True))

    assert sorted(set(by_people)) == ["announced", "vm-deallocated"]
    assert "approved" in history_harness.facts(HistoryQuery(facts=facts))
    assert set(history_harness.facts(HistoryQuery(only_people=True))) > set(by_people)


def test_the_newest_lines_are_looked_for_until_there_are_enough() -> None:
    """If the newest entries about a VM have too few of them, older ones are read."""
    history_harness = HistoryHarness()
    event = history_harness.freeze("web-0")
    history_harness.approve(event, "web-0")
    history_harness.finish(event)
    for _ in range(250):
        history_harness.do(DeallocateVm(id=history_harness.id(), by=ADA, vm="web-0"))
        history_harness.do(StartVm(id=history_harness.id(), by=ADA, vm="web-0"))
    query = HistoryQuery(limit=15, vm="web-0", caller="web-0")

    told = _newest(history_harness, history_harness.journal, query, OPERATOR, [])
    assert told == history_harness.ask(query).lines
    assert [line.fact for line in told] == ["started", "approved"]


def _newest(
    history_harness: HistoryHarness, journal: Any, query: HistoryQuery, principal: Principal, known: list[Event]
) -> tuple[HistoryLine, ...]:
    return read_newest_lines(journal, history_harness.fleet, history_harness.revision, query, principal, known)
