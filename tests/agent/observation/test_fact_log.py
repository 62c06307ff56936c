"""The agent's log: a line for each thing that happens."""

import logging
from datetime import timedelta

import pytest

from forewarn.agent.decision.facts import (
    AgentFact,
    ApprovalFailed,
    ApprovalGiven,
    CallBegun,
    CallEnded,
    CallShared,
    CallWithdrawn,
    CoordinatorConsulted,
    DocumentShown,
    EventForgotten,
    HandlerSkipped,
    HoldPlaced,
    HoldReleased,
)
from forewarn.agent.handler import Direction, HandlerDone, HandlerFailed
from forewarn.agent.observation.fact_log import AgentFactLog, log_change, log_fact
from forewarn.client.changes import Change, ChangeKind, Ending
from forewarn.logs import HumanFormatter
from forewarn.wire.document import Document
from tests.agent.harness import START, event

DO, UNDO = Direction.DO, Direction.UNDO


def line(caplog: pytest.LogCaptureFixture) -> str:
    return HumanFormatter().format(caplog.records[-1])[9:]


@pytest.mark.parametrize(
    ("fact", "said"),
    [
        (CallBegun("e1", "drain", DO, 1, START), "begun event=E1 handler=drain"),
        (CallBegun("e1", "drain", UNDO, 2, START), "undo begun event=E1 handler=drain attempt=2"),
        (CallEnded("e1", "drain", DO, HandlerDone(), START), "done event=E1 handler=drain"),
        (
            CallEnded("e1", "drain", UNDO, HandlerDone(detail="well"), START),
            "undone event=E1 handler=drain detail=well",
        ),
        (
            CallEnded("e1", "drain", DO, HandlerFailed("no"), START),
            "warning: failed event=E1 handler=drain reason=no",
        ),
        (
            CallEnded("e1", "drain", UNDO, HandlerFailed("no"), START),
            "warning: undo failed event=E1 handler=drain reason=no",
        ),
        (
            HandlerSkipped("e1", "drain", "no time", START),
            'warning: left out event=E1 handler=drain reason="no time"',
        ),
        (CallShared("e1", "drain", "e2", START), "done already event=E1 handler=drain for=E2"),
        (HoldPlaced("e1", "db", START), 'held event=E1 holder=db until="Thu, 01 Jan 2026 12:00:00 GMT"'),
        (HoldReleased("e1", "db"), "ready event=E1 holder=db"),
        (CoordinatorConsulted("e1", True, START, "all well"), 'coordinator agrees event=E1 detail="all well"'),
        (CoordinatorConsulted("e1", False, START), "coordinator does not agree yet event=E1"),
        (ApprovalGiven("e1", START), "approved event=E1"),
        (ApprovalFailed("e1", 1, START, "it says no"), 'warning: not approved yet event=E1 reason="it says no"'),
        (
            EventForgotten("e1", ("tell",), ("drain", "db")),
            "warning: undo incomplete; it is not retried event=E1 handlers=drain,db",
        ),
        (EventForgotten("e1", ("drain",)), "undo complete event=E1"),
    ],
)
def test_each_fact_is_a_line(fact: AgentFact, said: str, caplog: pytest.LogCaptureFixture) -> None:
    """For people first: what happened, then to what."""
    caplog.set_level(logging.INFO)
    log_fact(fact)

    assert line(caplog) == said


@pytest.mark.parametrize(
    "fact", [DocumentShown(Document(1, ()), START), CallWithdrawn("e1", "drain", DO), EventForgotten("e1")]
)
def test_what_is_told_otherwise_is_no_line(fact: AgentFact, caplog: pytest.LogCaptureFixture) -> None:
    """A document is told as the changes that it brings; who had nothing to put back says nothing of it."""
    caplog.set_level(logging.DEBUG)
    log_fact(fact)

    assert caplog.records == []


def test_an_answer_that_is_given_again_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """Another answer is told, and the same one about another event, and after a while with something between."""
    caplog.set_level(logging.INFO)
    tell = AgentFactLog()
    for fact in (
        CoordinatorConsulted("e1", False, START, "not yet"),
        CoordinatorConsulted("e1", False, START + timedelta(seconds=10), "not yet"),
        CoordinatorConsulted("e2", False, START, "not yet"),
        CoordinatorConsulted("e1", False, START + timedelta(seconds=20), "still not"),
        CoordinatorConsulted("e1", True, START, ""),
        ApprovalFailed("e1", 1, START, "no"),
        ApprovalFailed("e1", 2, START, "no"),
        ApprovalFailed("e1", 3, START, "busy"),
        EventForgotten("e1", ("drain",)),
        ApprovalFailed("e1", 1, START, "busy"),
    ):
        tell(fact)

    assert [record.getMessage() for record in caplog.records] == [
        "coordinator does not agree yet",
        "coordinator does not agree yet",
        "coordinator does not agree yet",
        "coordinator agrees",
        "not approved yet",
        "not approved yet",
        "undo complete",
        "not approved yet",
    ]


def test_a_services_words_stay_in_their_line(caplog: pytest.LogCaptureFixture) -> None:
    """They could look like a line of ours, or speak to the terminal."""
    caplog.set_level(logging.INFO)
    hostile = event(description="a\n12:00:00\tapproved", resources=("web-0\x1b[2J",))
    log_change(Change(ChangeKind.NEW, hostile))

    assert line(caplog).isprintable()


def test_an_event_that_is_gone_tells_how_it_ended(caplog: pytest.LogCaptureFixture) -> None:
    """Nobody has to guess whether it happened."""
    caplog.set_level(logging.INFO)
    log_change(Change(ChangeKind.GONE, event(), event(), Ending.CANCELED))

    assert line(caplog) == "event gone event=E1 type=Reboot ending=canceled"


def test_a_new_event_tells_whom_it_concerns(caplog: pytest.LogCaptureFixture) -> None:
    """By name."""
    caplog.set_level(logging.INFO)
    log_change(Change(ChangeKind.NEW, event(resources=("web-0", "web-1"))))

    assert "resources=web-0,web-1" in line(caplog)
