"""What a command did, told from its entry."""

from datetime import UTC, datetime

from forewarn.control.server.operations import _named_in
from forewarn.core.facts import Approved, BroughtForward, Entry, HostStateSet, RecordedRequest
from forewarn.core.model import NODE, HostState

AT = datetime(2026, 1, 1, tzinfo=UTC)


def test_an_entry_concerns_the_events_of_its_facts_and_of_its_request() -> None:
    """Each once; also where the entry has no request."""
    facts = (Approved("a", AT, NODE), BroughtForward("b", AT, AT), HostStateSet("h1", HostState.UP, AT))

    assert _named_in(Entry(1, AT, "c", NODE, facts)) == ["a", "b"]
    assert _named_in(Entry(1, AT, "c", NODE, facts, RecordedRequest("f", ("b", "z")))) == ["a", "b", "z"]
