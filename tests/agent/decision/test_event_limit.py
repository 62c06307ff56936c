"""How many events of one document the agent follows."""

from forewarn.agent.decision.event_limit import MOST_EVENTS, limit_events
from forewarn.wire.document import Document
from tests.agent.harness import ME, event

NEIGHBOURS = tuple(event(f"n{number}", resources=("db-0",)) for number in range(10))
MINE = event("mine")


def ids(document: Document) -> list[str]:
    return [each.id for each in document.events]


def test_a_document_within_the_limit_is_left_as_it_is() -> None:
    """Two thousand events are followed, whoever they concern."""
    whole = Document(1, tuple(event(f"e{number}") for number in range(MOST_EVENTS)))

    assert limit_events(whole, ME, ()) is whole


def test_events_of_this_vm_come_first_then_those_that_are_known() -> None:
    """An event for which something was done must not seem gone because others came before it."""
    document = Document(1, (*NEIGHBOURS, MINE))

    assert ids(limit_events(document, ME, {"n7", "n9"}, most=3)) == ["n7", "n9", "mine"]
    assert ids(limit_events(document, ME, (), most=3)) == ["n0", "n1", "mine"]


def test_the_limit_also_holds_for_events_of_this_vm() -> None:
    """Those that are known stay."""
    document = Document(1, tuple(event(f"e{number}") for number in range(10)))

    assert ids(limit_events(document, ME, {"e8"}, most=2)) == ["e0", "e8"]
