"""The agent's log: a line for each thing that happens."""

import logging
from datetime import timedelta

import pytest

from forewarn.agent.facts import (
    Approved,
    Begun,
    Consulted,
    Ended,
    Fact,
    Forgotten,
    Held,
    Joined,
    LeftOut,
    NotApproved,
    Released,
    Shown,
    Withdrawn,
)
from forewarn.agent.handler import Direction, Done, Failed
from forewarn.agent.telling import Teller, tell_change, tell_fact
from forewarn.client.changes import Change, ChangeKind, Ending
from forewarn.logs import HumanFormatter
from forewarn.wire.document import Document
from tests.agent.world import START, event

DO, UNDO = Direction.DO, Direction.UNDO


def line(caplog: pytest.LogCaptureFixture) -> str:
    return HumanFormatter().format(caplog.records[-1])[9:]


@pytest.mark.parametrize(
    ("fact", "said"),
    [
        (Begun("e1", "drain", DO, 1, START), "begun event=E1 handler=drain"),
        (Begun("e1", "drain", UNDO, 2, START), "undo begun event=E1 handler=drain attempt=2"),
        (Ended("e1", "drain", DO, Done(), START), "done event=E1 handler=drain"),
        (Ended("e1", "drain", UNDO, Done(detail="well"), START), "undone event=E1 handler=drain detail=well"),
        (Ended("e1", "drain", DO, Failed("no"), START), "warning: failed event=E1 handler=drain reason=no"),
        (Ended("e1", "drain", UNDO, Failed("no"), START), "warning: undo failed event=E1 handler=drain reason=no"),
        (LeftOut("e1", "drain", "no time", START), 'warning: left out event=E1 handler=drain reason="no time"'),
        (Joined("e1", "drain", "e2", START), "done already event=E1 handler=drain for=E2"),
        (Held("e1", "db", START), 'held event=E1 holder=db until="Thu, 01 Jan 2026 12:00:00 GMT"'),
        (Released("e1", "db"), "ready event=E1 holder=db"),
        (Consulted("e1", True, START, "all well"), 'coordinator agrees event=E1 detail="all well"'),
        (Consulted("e1", False, START), "coordinator does not agree yet event=E1"),
        (Approved("e1", START), "approved event=E1"),
        (NotApproved("e1", 1, START, "it says no"), 'warning: not approved yet event=E1 reason="it says no"'),
        (
            Forgotten("e1", ("tell",), ("drain", "db")),
            "warning: not all is put back, and it is not tried again event=E1 handlers=drain,db",
        ),
        (Forgotten("e1", ("drain",)), "all is put back event=E1"),
    ],
)
def test_each_fact_is_a_line(fact: Fact, said: str, caplog: pytest.LogCaptureFixture) -> None:
    """For people first: what happened, then to what."""
    caplog.set_level(logging.INFO)
    tell_fact(fact)

    assert line(caplog) == said


@pytest.mark.parametrize("fact", [Shown(Document(1, ()), START), Withdrawn("e1", "drain", DO), Forgotten("e1")])
def test_what_is_told_otherwise_is_no_line(fact: Fact, caplog: pytest.LogCaptureFixture) -> None:
    """A document is told as the changes that it brings; who had nothing to put back says nothing of it."""
    caplog.set_level(logging.DEBUG)
    tell_fact(fact)

    assert caplog.records == []


def test_an_answer_that_is_given_again_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """Another answer is told, and the same one about another event, and after a while with something between."""
    caplog.set_level(logging.INFO)
    tell = Teller()
    for fact in (
        Consulted("e1", False, START, "not yet"),
        Consulted("e1", False, START + timedelta(seconds=10), "not yet"),
        Consulted("e2", False, START, "not yet"),
        Consulted("e1", False, START + timedelta(seconds=20), "still not"),
        Consulted("e1", True, START, ""),
        NotApproved("e1", 1, START, "no"),
        NotApproved("e1", 2, START, "no"),
        NotApproved("e1", 3, START, "busy"),
        Forgotten("e1", ("drain",)),
        NotApproved("e1", 1, START, "busy"),
    ):
        tell(fact)

    assert [record.getMessage() for record in caplog.records] == [
        "coordinator does not agree yet",
        "coordinator does not agree yet",
        "coordinator does not agree yet",
        "coordinator agrees",
        "not approved yet",
        "not approved yet",
        "all is put back",
        "not approved yet",
    ]


def test_a_services_words_stay_in_their_line(caplog: pytest.LogCaptureFixture) -> None:
    """They could look like a line of ours, or speak to the terminal."""
    caplog.set_level(logging.INFO)
    hostile = event(description="a\n12:00:00\tapproved", resources=("web-0\x1b[2J",))
    tell_change(Change(ChangeKind.NEW, hostile))

    assert line(caplog).isprintable()


def test_an_event_that_is_gone_tells_how_it_ended(caplog: pytest.LogCaptureFixture) -> None:
    """Nobody has to guess whether it happened."""
    caplog.set_level(logging.INFO)
    tell_change(Change(ChangeKind.GONE, event(), event(), Ending.CANCELED))

    assert line(caplog) == "event gone event=E1 type=Reboot ending=canceled"
