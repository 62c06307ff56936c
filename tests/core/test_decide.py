"""The one entry to the rules: single commands, and one command for several VMs."""

import pytest

from forewarn.core.commands import (
    BulkCommand,
    CancelEvent,
    CheckDeadlines,
    Command,
    DeallocateVm,
    OperateVm,
    VmOperation,
)
from forewarn.core.decide import attempt_started, decide, enact
from forewarn.core.errors import Refused
from forewarn.core.facts import Announced, Attempted, Selected, StartedAtOnce
from forewarn.core.fleet import Fleet
from forewarn.core.model import NODE, BulkOperation, OperationScope
from forewarn.core.notice import Rules
from tests.core.harness import ANN, NOON, FleetHarness, kinds
from tests.core.invariant_checker import packed


class Unheard(Command, frozen=True, kw_only=True, tag="unheard"):
    """A command that no rule knows."""


def test_a_command_that_no_rule_decides_is_a_mistake_of_ours() -> None:
    """It is not refused like a wish; it is a fault in the program."""
    with pytest.raises(TypeError, match="Unheard"):
        enact(Fleet(), Unheard(id="c", by=ANN), NOON, Rules())


def test_to_decide_is_to_look_only() -> None:
    """The fleet is the same before and after."""
    harness = FleetHarness("ann declares: group web availability-set; vm web-0 in web", "ann freezes web-0")
    before = packed(harness.fleet)
    command = CheckDeadlines(id="w", by=NODE, events=(harness.id("E1"),))
    list(decide(harness.fleet, command, NOON, Rules(), lambda _: True))

    assert packed(harness.fleet) == before


def test_waking_what_is_gone_or_early_does_nothing() -> None:
    """A deadline may come late, twice, or for an event that has ended."""
    harness = FleetHarness("ann declares: group web availability-set; vm web-0 in web", "ann freezes web-0")

    assert harness.give(CheckDeadlines(id="w", by=NODE, events=(harness.id("E1"), "gone"))) == ()


def test_an_unknown_event_is_named() -> None:
    """Who takes back what is not there is told so."""
    with pytest.raises(Refused, match="there is no unfinished event 'E1'"):
        FleetHarness().say("ann cancels E1")


@pytest.mark.parametrize("sentence", ["ann restarts web-0", "web-0 approves E1"], ids=["at once", "approved"])
def test_what_starts_is_attempted_with_it(sentence: str) -> None:
    """The driver can then be called without another commit."""
    harness = FleetHarness("ann declares: group web availability-set; vm web-0 in web; vm web-1 in web")
    if "E1" in sentence:
        harness.say("ann freezes web-0")
    attempts = attempt_started(harness.fleet, harness.say(sentence), NOON, 3, "n1")

    (event,) = harness.fleet.events.values()
    assert attempts == (Attempted(event.id, NOON, 3, "n1", group="web"),)
    assert event.attempts == 1


THREE_VMS = (
    "ann declares: host h1; group web availability-set; vm web-0 in web on h1; vm web-1 in web on h1 spot; "
    "vm web-2 in web on h1 spot"
)
BULK_ID = "00000000-0000-0000-0000-0000000000aa"


def bulk(operation: VmOperation, *vms: str) -> BulkCommand:
    commands: dict[str, Command] = {vm: OperateVm(id="", by=ANN, operation=operation, vm=vm) for vm in vms}
    return BulkCommand(
        id=BULK_ID, by=ANN, operation=BulkOperation.of(OperationScope.VM, operation), commands=commands
    )


def test_each_vm_gets_an_event_of_its_own() -> None:
    """With ids that differ, and are the same whenever the command is given again."""
    first, again = (
        FleetHarness(THREE_VMS, "web-0 asks").give(bulk(VmOperation.RESTART, "web-0", "web-1")) for _ in "ab"
    )

    assert first == again
    assert kinds(first) == ["Selected", "Announced", "Announced"]
    ids = [fact.event.id for fact in first if isinstance(fact, Announced)]
    assert len(set(ids)) == 2


def test_a_refusal_of_one_does_not_hinder_the_others() -> None:
    """The fact names the refused one and why."""
    facts = FleetHarness(THREE_VMS).give(bulk(VmOperation.EVICT, "web-0", "web-1", "web-2"))

    assert isinstance(facts[0], Selected)
    assert facts[0].names == ("web-0", "web-1", "web-2")
    assert list(facts[0].refused) == ["web-0"]
    assert "not a spot VM" in facts[0].refused["web-0"]
    assert kinds(facts[1:]) == ["Announced", "Announced"]


def test_if_all_are_refused_the_whole_is_refused() -> None:
    """Nothing is recorded, so that it can be given again under its key."""
    harness = FleetHarness(THREE_VMS)
    with pytest.raises(Refused, match=r"nothing was changed: web-0: .*not a spot VM.*; nobody: there is no VM"):
        harness.give(bulk(VmOperation.EVICT, "web-0", "nobody"))

    assert not harness.fleet.events


def test_each_is_decided_on_what_those_before_it_left() -> None:
    """So that a limit holds among them, too."""
    harness = FleetHarness(THREE_VMS, "web-0 asks", rules=Rules(user_operation_limit=2))
    facts = harness.give(bulk(VmOperation.RESTART, "web-0", "web-1", "web-2"))

    assert isinstance(facts[0], Selected)
    assert list(facts[0].refused) == ["web-2"]
    assert "the limit is 2" in facts[0].refused["web-2"]


def test_what_is_so_already_is_done() -> None:
    """It is no refusal, and no fact either."""
    harness = FleetHarness(THREE_VMS, "ann deallocates web-0")
    commands: dict[str, Command] = {vm: DeallocateVm(id="", by=ANN, vm=vm) for vm in ("web-0", "web-1")}
    facts = harness.give(BulkCommand(id=BULK_ID, by=ANN, operation=BulkOperation.VM_DEALLOCATE, commands=commands))

    assert kinds(facts) == ["Selected", "VmDeallocated"]
    assert facts[0] == Selected(BulkOperation.VM_DEALLOCATE, ("web-0", "web-1"))


def test_events_are_canceled_but_for_those_that_have_started() -> None:
    """As one by one."""
    harness = FleetHarness(THREE_VMS, "ann restarts web-0", "ann freezes host h1")
    events = list(harness.fleet.events)
    commands: dict[str, Command] = {id_: CancelEvent(id="", by=ANN, event=id_) for id_ in events}
    facts = harness.give(BulkCommand(id=BULK_ID, by=ANN, operation=BulkOperation.EVENT_CANCEL, commands=commands))

    assert isinstance(facts[0], Selected)
    assert list(facts[0].refused) == [events[0]]
    assert kinds(facts[1:]) == ["Canceled"]


def test_events_that_start_at_once_do_so() -> None:
    """In a group that is off, as if each were asked for alone."""
    facts = FleetHarness(THREE_VMS).give(bulk(VmOperation.RESTART, "web-0", "web-1"))

    assert [type(fact) for fact in facts[1:]] == [StartedAtOnce, StartedAtOnce]
