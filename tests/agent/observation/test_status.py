"""What the agent tells of itself survives the way to whoever reads it."""

import msgspec

from forewarn.agent.observation.status import AgentStatus
from tests.agent.samples import SHOWN_ID, status, view


def test_a_status_is_the_same_on_the_other_end() -> None:
    """As JSON it can be read back whole."""
    whole = status(view(), listeners=2)

    assert msgspec.json.decode(msgspec.json.encode(whole), type=AgentStatus) == whole


def test_a_status_speaks_in_the_words_of_the_wire() -> None:
    """The event in it has the keys and words of a document."""
    shown = msgspec.to_builtins(status(view()))["events"][0]

    assert shown["event"]["EventId"] == SHOWN_ID
    assert shown["event"]["EventType"] == "Reboot"
    assert shown["steps"][0]["state"] == "running"


def test_ailments_are_what_is_not_well() -> None:
    """Both kinds of trouble are told, and nothing when all is well."""
    assert status().unhealthy_reasons == ()
    assert status(trouble="no answer", memory_trouble="disk full").unhealthy_reasons == ("no answer", "disk full")
