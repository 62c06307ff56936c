"""A large change: nobody sees a part of it, others are answered meanwhile, and it is durable whole or not at all."""

import asyncio
import gc
import sys
import threading
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from msgspec.structs import replace

from forewarn.core import decide
from forewarn.core.commands import (
    ApplyDeclaration,
    ChangeFleet,
    CheckDeadlines,
    Command,
    Enrol,
    MoveVm,
    OperateVm,
    VmOperation,
)
from forewarn.core.errors import ForewarnError, Refused, Unavailable, Unknown
from forewarn.core.facts import Announced, AnyFact, Approved, FleetChanged, FleetDeclared
from forewarn.core.fleet import Fleet
from forewarn.core.model import GroupKind, GroupTerms, Host, Vm
from forewarn.journal.memory import MemoryJournal
from forewarn.journal.port import NotWritten
from forewarn.metadata.document_cache import DocumentCache
from forewarn.node import large_change
from forewarn.node import writer as writer_module
from forewarn.node.large_change import LargeChange, LargeChangeSizes, collection_paused, is_large
from tests.core.invariant_checker import derived, packed
from tests.node.failing_journals import FailingJournal, FoldingJournal
from tests.node.harness import OPERATOR, NodeHarness, add_host, run

THREE_ARE_MANY = LargeChangeSizes(3, 3)
NAMES = ["big-0", "big-1", "big-2"]


class Gate:
    """Holds up the decision of large changes, in their thread."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.may_pass = threading.Event()
        self.decisions = 0
        self.raises: Exception | None = None
        self._loop = asyncio.get_running_loop()

    def enact(self, fleet: Fleet, command: Command, *rest: Any) -> tuple[AnyFact, ...]:
        facts = decide.enact(fleet, command, *rest)
        if is_large(command, THREE_ARE_MANY):
            self.decisions += 1
            self._loop.call_soon_threadsafe(self.reached.set)
            assert self.may_pass.wait(20)
            if self.raises:
                raise self.raises
        return facts


def large(**other: Any) -> ChangeFleet:
    """Return a change that adds three VMs, each with an address."""
    vms = tuple(Vm(name, "big", address=f"10.9.0.{number}") for number, name in enumerate(NAMES))
    groups = (GroupTerms("big", GroupKind.SCALE_SET),)
    return ChangeFleet(id=uuid4().hex, by=OPERATOR, **{"groups": groups, "vms": vms, **other})


async def begin(harness: NodeHarness, monkeypatch: pytest.MonkeyPatch, command: Command) -> tuple[Gate, Any]:
    """Submit a large change, and return when its facts are decided and nothing else."""
    gate = Gate()
    harness.node.writer.large_change_sizes = THREE_ARE_MANY
    monkeypatch.setattr(writer_module, "enact", gate.enact)
    changing = asyncio.create_task(harness.node.submit(command))
    await gate.reached.wait()
    return gate, changing


async def decided_so_far(harness: NodeHarness) -> None:
    """Return when everything that was submitted has had its turn, or was found to have to wait."""
    await asyncio.sleep(0)
    await harness.node.submit(CheckDeadlines(id=uuid4().hex, by=OPERATOR, events=()))


def assert_is_fold(harness: NodeHarness, journal: MemoryJournal) -> None:
    """The fleet is the fold of the journal, and no entry is older than the one before it."""
    entries, fleet, folded = list(journal.entries()), harness.node.replica.fleet, journal.load().fleet
    assert (packed(fleet), derived(fleet)) == (packed(folded), derived(folded))
    assert [entry.at for entry in entries] == sorted(entry.at for entry in entries)


def test_readers_see_all_of_it_or_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither fleet nor documents show a VM of it before it is durable; then both show all, and it is one entry."""
    journal = MemoryJournal()

    async def story(harness: NodeHarness) -> None:
        cache = DocumentCache(lambda: 0.0)
        used: list[object] = []
        cache.replaced = used.append
        harness.node.replica.subscribe(cache)
        await harness.add_fleet()
        gate, changing = await begin(harness, monkeypatch, large())
        assert not harness.node.replica.fleet.vms.keys() & {*NAMES}
        assert cache.vm_entries.keys() | cache.groups.keys() == {"web"}
        revision = harness.node.replica.revision

        gate.may_pass.set()
        await changing

        assert harness.node.replica.fleet.vms.keys() >= {*NAMES}
        assert [cache.vm_entries[f"10.9.0.{number}"].vm.name for number in range(3)] == NAMES
        assert used[-1] is cache.vm_entries
        assert harness.node.replica.revision == revision + 1
        assert_is_fold(harness, journal)

    run(story, journal)


def test_an_approval_of_others_is_answered_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is durable before the change, and what it changed is kept when the change is merged."""
    journal = MemoryJournal()

    async def story(harness: NodeHarness) -> None:
        await harness.add_fleet()
        event = await harness.operate("restart", "web-0")
        gate, changing = await begin(harness, monkeypatch, large())

        await harness.approve(event)
        assert any(isinstance(fact, Approved) for fact in harness.facts)
        assert not changing.done()
        await harness.operate("restart", "web-1")
        gate.may_pass.set()
        await changing

        assert harness.node.replica.fleet.user_operations == 1
        assert isinstance(harness.entries[-1].facts[0], FleetChanged)
        assert gate.decisions == 1
        assert_is_fold(harness, journal)

    run(story, journal)


def test_a_confirmation_that_is_asked_for_while_it_begins_does_not_wait_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nor for another command to come: a repeated request is looked up at once."""

    async def story(harness: NodeHarness) -> None:
        await harness.add_fleet()
        loop, find_scope = asyncio.get_running_loop(), LargeChange.find_scope
        begun, may_begin = asyncio.Event(), threading.Event()

        def begin_late(change: LargeChange) -> None:
            loop.call_soon_threadsafe(begun.set)
            assert may_begin.wait(20)
            find_scope(change)

        monkeypatch.setattr(LargeChange, "find_scope", begin_late)
        beginning = asyncio.create_task(begin(harness, monkeypatch, large()))
        await begun.wait()
        confirming = asyncio.create_task(harness.node.writer.confirm())
        await asyncio.sleep(0)
        may_begin.set()
        gate, changing = await beginning

        await asyncio.wait_for(confirming, 20)

        assert not changing.done()
        gate.may_pass.set()
        await changing

    run(story, MemoryJournal())


def test_a_fleet_file_goes_the_same_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also at a start: it is decided beside an approval, and the declaration is recorded with it in one entry."""
    journal = MemoryJournal()

    async def story(harness: NodeHarness) -> None:
        await harness.add_fleet()
        event = await harness.operate("restart", "web-0")
        change = large()
        command = ApplyDeclaration(
            id=uuid4().hex, by=OPERATOR, seen=0, is_start=True, groups=change.groups, vms=change.vms
        )
        gate, changing = await begin(harness, monkeypatch, command)
        await harness.approve(event)
        gate.may_pass.set()
        await changing

        assert [type(fact) for fact in harness.entries[-1].facts] == [FleetChanged, FleetDeclared]
        assert harness.node.replica.fleet.last_applied.revision == 1
        assert_is_fold(harness, journal)

    run(story, journal)


def test_what_concerns_it_waits_for_it_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Events of its groups, and other changes of the fleet, are decided after it as they came."""
    journal = MemoryJournal()

    async def story(harness: NodeHarness) -> None:
        await harness.add_fleet()
        vms = tuple(Vm(f"web-{number}", "web", update_domain=4) for number in range(3))
        gate, changing = await begin(harness, monkeypatch, large(groups=(), vms=vms))
        restart = OperateVm(id=uuid4().hex, by=OPERATOR, operation=VmOperation.RESTART, vm="web-1")
        following: list[Command] = [restart, large(), add_host("h8"), add_host("h9")]
        waiting = [asyncio.create_task(harness.node.submit(command)) for command in following]
        await decided_so_far(harness)
        assert not any(task.done() for task in waiting)

        gate.may_pass.set()
        await asyncio.gather(changing, *waiting)

        (announced,) = (fact for fact in harness.facts if isinstance(fact, Announced))
        assert announced.event.update_domain == 4
        assert [entry.command for entry in harness.entries[-4:]] == [command.id for command in following]
        assert_is_fold(harness, journal)

    run(story, journal)


@pytest.mark.parametrize(
    ("operation", "other"),
    [
        ("redeploy", {"removed_hosts": ("h3",)}),
        ("restart", {"removed_vms": ("web-2",)}),
    ],
    ids=["hosts", "group"],
)
def test_an_approval_that_it_may_depend_on_waits(
    monkeypatch: pytest.MonkeyPatch, operation: str, other: dict[str, Any]
) -> None:
    """A change that removes hosts goes by events that may move a VM there; one that removes a VM by its group's."""
    journal = MemoryJournal()

    async def story(harness: NodeHarness) -> None:
        await harness.add_fleet()
        await harness.node.submit(add_host("h3"))
        event = await harness.operate(operation, "web-0")
        gate, changing = await begin(harness, monkeypatch, large(**other))
        approving = asyncio.create_task(harness.approve(event))
        await decided_so_far(harness)
        assert not approving.done()

        gate.may_pass.set()
        await asyncio.gather(changing, approving)

        assert_is_fold(harness, journal)

    run(story, journal)


async def hold_change(harness: NodeHarness) -> str:
    """Declare groups db and app beside the small fleet; then a file moves db-0 to app, which its event holds."""
    await harness.add_fleet()
    fleet, db = harness.node.replica.fleet, Vm("db-0", "db")
    declaration = ApplyDeclaration(
        id=uuid4().hex,
        by=OPERATOR,
        seen=0,
        hosts=tuple(fleet.hosts.values()),
        groups=(fleet.groups["web"].terms, *(GroupTerms(name, GroupKind.AVAILABILITY_SET) for name in ("db", "app"))),
        vms=(*fleet.vms.values(), db, Vm("app-0", "app")),
    )
    await harness.node.submit(declaration)
    for group in ("db", "app"):
        await harness.node.submit(Enrol(id=uuid4().hex, by=OPERATOR, group=group, vm=f"{group}-0"))
    event = await harness.operate("restart", "db-0")
    moved = ApplyDeclaration(id=uuid4().hex, by=OPERATOR, seen=1, is_start=True, vms=(replace(db, group="app"),))
    await harness.node.submit(moved)
    assert fleet.last_applied.waiting
    return event


@pytest.mark.parametrize("mode", [{}, {"yes": True}, {"exact": True}], ids=["plain", "yes", "exact"])
def test_beside_held_changes_only_approvals_in_their_groups_wait(
    monkeypatch: pytest.MonkeyPatch, mode: dict[str, Any]
) -> None:
    """A held change is tried again with the change, so that it goes by the events of both groups of its VM."""
    journal = MemoryJournal()

    async def story(harness: NodeHarness) -> None:
        events = {"db-0": await hold_change(harness), "app-0": await harness.operate("restart", "app-0")}
        free = await harness.operate("restart", "web-0")
        change = large()
        declaration = ApplyDeclaration(
            id=uuid4().hex, by=OPERATOR, seen=2, groups=change.groups, vms=change.vms, cancel_events=True, **mode
        )
        gate, changing = await begin(harness, monkeypatch, declaration)
        await harness.approve(free)
        waiting = [asyncio.create_task(harness.approve(event, vm=vm)) for vm, event in events.items()]
        await decided_so_far(harness)
        assert not any(task.done() for task in waiting)

        gate.may_pass.set()
        await changing
        with pytest.raises(Unknown):  # db-0 left its event with the change
            await waiting[0]
        await waiting[1]

        assert harness.node.replica.fleet.vms["db-0"].group == "app"
        assert gate.decisions == 1
        assert_is_fold(harness, journal)

    run(story, journal)


def test_beside_a_removal_of_hosts_an_approval_that_moves_no_vm_there_is_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It moves no VM, or it moves one to a host that stays."""
    journal = MemoryJournal()

    async def story(harness: NodeHarness) -> None:
        await harness.add_fleet()
        await harness.node.submit(add_host("h3"))
        move = MoveVm(id=uuid4().hex, by=OPERATOR, vm="web-2", host="h2", can_move=True, live=True)
        (announced,) = (fact for fact in await harness.node.submit(move) if isinstance(fact, Announced))
        events = [await harness.operate("restart", "web-0"), announced.event.id]
        gate, changing = await begin(harness, monkeypatch, large(removed_hosts=("h3",)))
        await harness.approve(*events)
        assert not changing.done()

        gate.may_pass.set()
        await changing

        assert "h3" not in harness.node.replica.fleet.hosts
        assert gate.decisions == 1
        assert_is_fold(harness, journal)

    run(story, journal)


@pytest.mark.parametrize("journal_type", [FailingJournal, FoldingJournal])
def test_a_failed_append_leaves_nothing_of_it(
    monkeypatch: pytest.MonkeyPatch, journal_type: type[FailingJournal]
) -> None:
    """Its caller is told so, fleet and documents are as before, and it can be sent again."""
    journal = journal_type()

    async def story(harness: NodeHarness) -> None:
        cache = DocumentCache(lambda: 0.0)
        harness.node.replica.subscribe(cache)
        await harness.add_fleet()
        gate, changing = await begin(harness, monkeypatch, large())
        journal.fails = "before"
        gate.may_pass.set()
        with pytest.raises(Unavailable, match="nothing was changed: the disk is full"):
            await changing
        assert not harness.node.replica.fleet.vms.keys() & {*NAMES}
        assert cache.vm_entries.keys() | cache.groups.keys() == {"web"}
        journal.fails = ""
        harness.clock.advance(harness.node.writer.retry_after)

        await harness.node.submit(large())

        assert harness.node.replica.fleet.vms.keys() >= {*NAMES}
        assert_is_fold(harness, journal)

    run(story, journal)


class UnpreparedJournal(FoldingJournal):
    """Cannot store what a large change is prepared for, while ``fails`` says so."""

    def prepare(self, facts: tuple[AnyFact, ...]) -> None:
        if self.fails:
            raise NotWritten("the disk is full")


def test_one_that_cannot_be_prepared_leaves_nothing_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its caller is told so, the journal is opened anew before it is written again, and it can be sent again."""
    journal = UnpreparedJournal()

    async def story(harness: NodeHarness) -> None:
        await harness.add_fleet()
        gate, changing = await begin(harness, monkeypatch, large())
        journal.fails = "preparing"
        gate.may_pass.set()
        with pytest.raises(Unavailable, match="nothing was changed: the disk is full"):
            await changing
        assert not harness.node.replica.fleet.vms.keys() & {*NAMES}
        assert not harness.node.writer.is_sound
        journal.fails = ""
        opened = journal.opened
        harness.clock.advance(harness.node.writer.retry_after)

        await harness.node.submit(large())

        assert journal.opened == opened + 1
        assert harness.node.replica.fleet.vms.keys() >= {*NAMES}
        assert_is_fold(harness, journal)

    run(story, journal)


def test_it_is_decided_again_after_the_journal_was_opened_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it was decided on may not be what is durable."""
    journal = FoldingJournal()

    async def story(harness: NodeHarness) -> None:
        await harness.add_fleet()
        event = await harness.operate("restart", "web-0")
        gate, changing = await begin(harness, monkeypatch, large())
        journal.fails = "after"
        await harness.approve(event)
        journal.fails = ""
        harness.clock.advance(harness.node.writer.retry_after)
        gate.may_pass.set()

        await changing

        assert gate.decisions == 2
        assert_is_fold(harness, journal)

    run(story, journal)


@pytest.mark.parametrize("error", [Refused("no room"), ZeroDivisionError()])
def test_one_that_is_not_decided_changes_nothing(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """Its caller is told, and the commands that waited for it go on."""
    journal = MemoryJournal()

    async def story(harness: NodeHarness) -> None:
        gate, changing = await begin(harness, monkeypatch, large())
        gate.raises = error
        waiting = asyncio.create_task(harness.node.submit(add_host("h1")))
        gate.may_pass.set()

        with pytest.raises(ForewarnError, match=r"no room|nothing was changed: the service made a mistake"):
            await changing

        await waiting
        assert list(harness.node.replica.fleet.hosts) == ["h1"]
        assert not harness.node.replica.fleet.vms
        assert_is_fold(harness, journal)

    run(story, journal)


def test_a_stop_finishes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was submitted is done, also if its caller has gone; what comes later is refused."""
    journal = MemoryJournal()

    async def story(harness: NodeHarness) -> None:
        gate, changing = await begin(harness, monkeypatch, large())
        waiting = asyncio.create_task(harness.node.submit(add_host("h1")))
        await asyncio.sleep(0)
        changing.cancel()
        stopping = asyncio.create_task(harness.node.stop())
        await asyncio.sleep(0)
        with pytest.raises(Unavailable, match="stopping"):
            await harness.node.submit(add_host("h2"))
        gate.may_pass.set()

        await asyncio.gather(stopping, waiting)

        assert [len(entry.facts) for entry in journal.entries()] == [1, 1]
        assert list(harness.node.replica.fleet.hosts) == ["h1"]
        assert harness.node.replica.fleet.vms.keys() == {*NAMES}

    run(story, journal)


def test_a_step_of_the_clock_meanwhile_is_recorded_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The step changes events, so that the change is decided again after it."""
    journal = MemoryJournal()

    async def story(harness: NodeHarness) -> None:
        gate, changing = await begin(harness, monkeypatch, large())
        harness.clock.step(timedelta(hours=2))
        gate.may_pass.set()

        await changing

        kinds = [type(fact).__name__ for fact in harness.facts]
        assert kinds == ["ClockStepped", "FleetChanged"]
        assert gate.decisions == 2
        assert_is_fold(harness, journal)

    run(story, journal)


def test_what_is_not_needed_afterwards_is_freed_record_by_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """Freed as a whole, a million records would stop the service: no part has another owner when its turn comes."""
    free, owners = large_change._free, []

    def note_and_free(parts: list[object]) -> None:
        if isinstance(parts[-1], (dict, list, set)) and repr(parts[-1]) not in ("{}", "[]", "set()"):
            owners.append(sys.getrefcount(parts[-1]) - 1)
        free(parts)

    monkeypatch.setattr(large_change, "_free", note_and_free)

    async def story(harness: NodeHarness) -> None:
        harness.node.replica.subscribe(DocumentCache(lambda: 0.0))
        harness.node.writer.large_change_sizes = THREE_ARE_MANY
        await harness.node.submit(large())
        await harness.node.submit(
            ChangeFleet(id=uuid4().hex, by=OPERATOR, removed_vms=tuple(NAMES), removed_groups=("big",))
        )

    run(story, MemoryJournal())

    assert len(owners) > 20
    assert {*owners} == {1}


def test_a_small_change_is_decided_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No thread is used for it."""

    async def story(harness: NodeHarness) -> None:
        monkeypatch.setattr(LargeChange, "__init__", lambda *_: 1 / 0)

        assert await harness.node.submit(add_host("h1")) == (FleetChanged(hosts=(Host("h1"),), at_run_time=True),)

    run(story)


def test_the_garbage_collector_goes_on_after_a_large_change() -> None:
    """It would find no garbage meanwhile."""
    assert gc.isenabled()
    with collection_paused():
        assert not gc.isenabled()

    assert gc.isenabled()
