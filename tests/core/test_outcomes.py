"""What follows when an impact has ended."""

import pytest

from forewarn.core.commands import Report, Result
from forewarn.core.facts import Failed
from forewarn.core.model import NODE
from tests.core.asking import Asking, kinds

FLEET = (
    "ann declares: host h1; host h2; group web availability-set; group pool scale-set; "
    "vm web-0 in web on h1; vm web-1 in web on h1; vm pool-0 in pool on h1 spot; vm pool-1 in pool on h1"
)


def report(office: Asking, label: str, hosts: dict[str, str] | None = None, result: Result = Result.DONE) -> Report:
    return Report(id="r", by=NODE, event=office.id(label), result=result, hosts=hosts or {})


def test_a_word_on_what_has_not_started_changes_nothing() -> None:
    """Neither for a Scheduled event nor for one that nobody knows."""
    office = Asking(FLEET, "ann freezes web-0")

    assert office.give(report(office, "E1")) == ()
    assert office.give(report(office, "E9")) == ()


def test_a_failure_without_reason_says_so() -> None:
    """The record never holds an empty reason."""
    office = Asking(FLEET, "ann restarts web-0")

    (failed,) = office.give(report(office, "E1", result=Result.FAILED))

    assert isinstance(failed, Failed)
    assert failed.reason == "the driver gave no reason"


@pytest.mark.parametrize("hosts", [{"web-1": "h2"}, {"web-0": "h1"}, {"nobody": "h2"}])
def test_only_who_was_impacted_and_went_elsewhere_has_moved(hosts: dict[str, str]) -> None:
    """What a driver says of others is no news."""
    office = Asking(FLEET, "ann redeploys web-0")

    assert kinds(office.give(report(office, "E1", hosts))) == ["Completed"]


def test_who_is_evicted_has_not_moved() -> None:
    """A host named for a VM that gave its place back means nothing."""
    office = Asking(FLEET, "ann evicts pool-0", "pool-0 approves E1")

    assert kinds(office.give(report(office, "E1", {"pool-0": "h2"}))) == ["Completed", "VmDeallocated"]


def test_coming_home_is_no_move_any_more() -> None:
    """A VM that returns to its declared host has no other one noted."""
    office = Asking(FLEET, "ann redeploys web-0", "the driver is done with E1, web-0 on h2", "ann redeploys web-0")
    office.give(report(office, "E2", {"web-0": "h1"}))

    assert office.fleet.vms["web-0"].moved_to == ""
    assert set(office.fleet.vms_on("h1")) == {"web-0", "web-1", "pool-0", "pool-1"}


def test_what_two_share_stays_while_one_is_there() -> None:
    """The maintenance of a host goes on for the VM that did not move."""
    office = Asking(FLEET, "ann freezes host h1", "ann redeploys web-0")

    assert kinds(office.say("the driver is done with E3, web-0 on h2")) == ["Completed", "VmMoved"]
