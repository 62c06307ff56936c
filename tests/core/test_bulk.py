"""One command for several VMs: each is operated on, or refused, by itself."""

import pytest

from forewarn.core.commands import BulkCommand, CancelEvent, Command, DeallocateVm, OperateVm, VmOperation
from forewarn.core.errors import Refused
from forewarn.core.facts import Announced, Selected, StartedAtOnce
from forewarn.core.model import BulkOperation, OperationScope
from forewarn.core.notice import Rules
from tests.core.harness import ANN, FleetHarness, kinds

FLEET = (
    "ann declares: host h1; group web availability-set; vm web-0 in web on h1; vm web-1 in web on h1 spot; "
    "vm web-2 in web on h1 spot"
)
ID = "00000000-0000-0000-0000-0000000000aa"


def bulk(operation: VmOperation, *vms: str) -> BulkCommand:
    commands: dict[str, Command] = {vm: OperateVm(id="", by=ANN, operation=operation, vm=vm) for vm in vms}
    return BulkCommand(id=ID, by=ANN, operation=BulkOperation.of(OperationScope.VM, operation), commands=commands)


def test_each_vm_gets_an_event_of_its_own() -> None:
    """With ids that differ, and are the same whenever the command is given again."""
    first, again = (FleetHarness(FLEET, "web-0 asks").give(bulk(VmOperation.RESTART, "web-0", "web-1")) for _ in "ab")

    assert first == again
    assert kinds(first) == ["Selected", "Announced", "Announced"]
    ids = [fact.event.id for fact in first if isinstance(fact, Announced)]
    assert len(set(ids)) == 2


def test_a_refusal_of_one_does_not_hinder_the_others() -> None:
    """The fact names the refused one and why."""
    facts = FleetHarness(FLEET).give(bulk(VmOperation.EVICT, "web-0", "web-1", "web-2"))

    assert isinstance(facts[0], Selected)
    assert facts[0].names == ("web-0", "web-1", "web-2")
    assert list(facts[0].refused) == ["web-0"]
    assert "not a spot VM" in facts[0].refused["web-0"]
    assert kinds(facts[1:]) == ["Announced", "Announced"]


def test_if_all_are_refused_the_whole_is_refused() -> None:
    """Nothing is recorded, so that it can be given again under its key."""
    harness = FleetHarness(FLEET)
    with pytest.raises(Refused, match=r"nothing was changed: web-0: .*not a spot VM.*; nobody: there is no VM"):
        harness.give(bulk(VmOperation.EVICT, "web-0", "nobody"))

    assert not harness.fleet.events


def test_each_is_decided_on_what_those_before_it_left() -> None:
    """So that a limit holds among them, too."""
    harness = FleetHarness(FLEET, "web-0 asks", rules=Rules(user_operation_limit=2))
    facts = harness.give(bulk(VmOperation.RESTART, "web-0", "web-1", "web-2"))

    assert isinstance(facts[0], Selected)
    assert list(facts[0].refused) == ["web-2"]
    assert "the limit is 2" in facts[0].refused["web-2"]


def test_what_is_so_already_is_done() -> None:
    """It is no refusal, and no fact either."""
    harness = FleetHarness(FLEET, "ann deallocates web-0")
    commands: dict[str, Command] = {vm: DeallocateVm(id="", by=ANN, vm=vm) for vm in ("web-0", "web-1")}
    facts = harness.give(BulkCommand(id=ID, by=ANN, operation=BulkOperation.VM_DEALLOCATE, commands=commands))

    assert kinds(facts) == ["Selected", "VmDeallocated"]
    assert facts[0] == Selected(BulkOperation.VM_DEALLOCATE, ("web-0", "web-1"))


def test_events_are_canceled_but_for_those_that_have_started() -> None:
    """As one by one."""
    harness = FleetHarness(FLEET, "ann restarts web-0", "ann freezes host h1")
    events = list(harness.fleet.events)
    commands: dict[str, Command] = {id_: CancelEvent(id="", by=ANN, event=id_) for id_ in events}
    facts = harness.give(BulkCommand(id=ID, by=ANN, operation=BulkOperation.EVENT_CANCEL, commands=commands))

    assert isinstance(facts[0], Selected)
    assert list(facts[0].refused) == [events[0]]
    assert kinds(facts[1:]) == ["Canceled"]


def test_events_that_start_at_once_do_so() -> None:
    """In a group that is off, as if each were asked for alone."""
    facts = FleetHarness(FLEET).give(bulk(VmOperation.RESTART, "web-0", "web-1"))

    assert [type(fact) for fact in facts[1:]] == [StartedAtOnce, StartedAtOnce]
