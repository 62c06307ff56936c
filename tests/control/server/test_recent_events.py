"""Ended events in memory: what ended lately, how, and when it was approved."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from forewarn.control.server.recent_events import FAILURES_FOR, RecentEvents
from forewarn.core.access import Principal
from forewarn.core.commands import (
    Approve,
    CancelEvent,
    Enrol,
    ImpactResult,
    OperateVm,
    ReportImpact,
    VmOperation,
)
from forewarn.core.model import NODE, Caller, CallerKind, Role
from tests.harness import ApiHarness, open_harness

ANN = Caller(CallerKind.OPERATOR, "ann")
OPERATOR = Principal(ANN, Role.OPERATOR)
OWNER = Principal(ANN, Role.OWNER, groups=frozenset({"pool"}))


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[ApiHarness]:
    with open_harness(tmp_path) as harness:
        harness.do(Enrol(id="a" * 32, by=ANN, group="web", vm="web-0"))
        yield harness


def announce(harness: ApiHarness, number: int) -> str:
    harness.do(OperateVm(id=f"{number:032x}", by=ANN, operation=VmOperation.RESTART, vm="web-0"))
    return next(reversed(harness.node.replica.fleet.events))


def cancel(harness: ApiHarness, number: int, event: str) -> None:
    harness.do(CancelEvent(id=f"{number:032x}", by=ANN, event=event))


def test_an_event_that_ends_is_known_with_its_recorded_end(harness: ApiHarness) -> None:
    """From the commit, without another look at the journal; an owner of another group is not told."""
    recent = harness.context.recent
    assert harness.run(lambda: recent.ended(OPERATOR, 10)) == []
    event = announce(harness, 1)
    harness.clock.advance(timedelta(seconds=90))
    cancel(harness, 2, event)

    (ended,) = harness.run(lambda: recent.ended(OPERATOR, 10))
    assert (ended.event.id, ended.at) == (event, harness.clock.now())
    assert harness.run(lambda: recent.ended(OWNER, 10)) == []


def test_what_ended_before_is_read_from_the_journal(harness: ApiHarness) -> None:
    """As it would have been followed."""
    event = announce(harness, 1)
    cancel(harness, 2, event)
    later = RecentEvents(harness.node, harness.journal)

    assert harness.run(lambda: later.ended(OPERATOR, 10)) == harness.run(
        lambda: harness.context.recent.ended(OPERATOR, 10)
    )
    again = RecentEvents(harness.node, harness.journal)
    assert harness.run(lambda: again.ended(OPERATOR, 10, "web"))[0].event.id == event
    assert harness.run(lambda: again.ended(OWNER, 10, "web")) == []


def test_a_failure_stays_for_hours_however_many_events_end_after_it(harness: ApiHarness) -> None:
    """It is not displaced by the others; it is forgotten after its time."""
    recent = RecentEvents(harness.node, harness.journal, most=2)
    harness.node.replica.subscribe(recent, "RecentEvents of this test")
    event = announce(harness, 1)
    harness.do(Approve(id="b" * 32, by=ANN, events=(event,)))
    harness.attempt(event)
    detail = "the machine does not answer"
    harness.do(ReportImpact(id="e" * 32, by=NODE, event=event, result=ImpactResult.FAILED, detail=detail))
    for number in range(10, 16, 2):
        cancel(harness, number + 1, announce(harness, number))

    (failed,) = harness.run(lambda: recent.failures(OPERATOR))
    assert (failed.event.id, failed.reason) == (event, detail)
    assert len(harness.run(lambda: recent.ended(OPERATOR, 10))) == 2
    harness.clock.advance(FAILURES_FOR + timedelta(seconds=1))
    assert harness.run(lambda: recent.failures(OPERATOR)) == []


def test_an_approval_is_known_with_its_time(harness: ApiHarness) -> None:
    """While the event is unfinished, also where it was given before this process began."""
    harness.do(Enrol(id="c" * 32, by=ANN, group="pool", vm="pool_0"))
    harness.run(lambda: harness.context.recent.ended(OPERATOR, 1))
    event = announce(harness, 1)
    before = harness.clock.now()
    harness.do(Approve(id="b" * 32, by=ANN, events=(event,)))
    later = RecentEvents(harness.node, harness.journal)
    later.load(harness.node.replica.fleet)
    harness.run(lambda: later.ended(OPERATOR, 1))

    for recent in (harness.context.recent, later):
        (given,) = recent.approvals_of(event)
        assert (given.by, given.at) == ("ann", before)


def test_of_the_older_past_only_failures_are_read(harness: ApiHarness) -> None:
    """The last ends are read whatever they were."""
    failed = announce(harness, 1)
    harness.do(Approve(id="b" * 32, by=ANN, events=(failed,)))
    harness.attempt(failed)
    harness.do(ReportImpact(id="e" * 32, by=NODE, event=failed, result=ImpactResult.FAILED, detail="it is gone"))
    for number in (10, 12):
        last = announce(harness, number)
        cancel(harness, number + 1, last)
    recent = RecentEvents(harness.node, harness.journal, read=1)

    assert [each.event.id for each in harness.run(lambda: recent.ended(OPERATOR, 10))] == [failed, last]


def test_events_of_a_host_that_failed_are_read_from_the_journal(harness: ApiHarness) -> None:
    """Their entries hold other facts too: the state of the host, and events of other groups."""
    harness.ask("POST", "/v1/hosts/h1/operations", {"operation": "fail"})
    events = list(harness.node.replica.fleet.events)
    for event in events:
        harness.finish(event)
    recent = RecentEvents(harness.node, harness.journal)

    assert len(events) == 2
    assert [each.event.id for each in harness.run(lambda: recent.ended(OPERATOR, 10))] == events
