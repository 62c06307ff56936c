"""An event that a client read is handed on in the words it came in."""

import json
from datetime import UTC, datetime

import msgspec
import pytest

from forewarn.core.model import EventSource, EventStatus, EventType, GroupKind
from forewarn.wire import document
from forewarn.wire.document import ScheduledEvent, render
from forewarn.wire.event_json import make_event_json, make_notification_event
from forewarn.wire.versions import API_VERSIONS
from tests.wire.samples import EVERY_TYPE, event

EVENT = ScheduledEvent(
    id="f020ba2e-3bc0-4c40-a10b-86575a9eabd5",
    type=EventType.REBOOT,
    status=EventStatus.SCHEDULED,
    resources=("web-0", "web-1"),
    not_before=datetime(2026, 3, 5, 7, 8, 9, tzinfo=UTC),
    description="Host server is undergoing maintenance.",
    source=EventSource.PLATFORM,
    duration=30,
)


def as_json(event: ScheduledEvent) -> dict[str, object]:
    shown: dict[str, object] = json.loads(msgspec.json.encode(make_event_json(event)))
    return shown


def test_an_event_is_shown_with_the_keys_and_words_of_the_document() -> None:
    """Keys, their order, and every word are Azure's."""
    assert list(as_json(EVENT).items()) == [
        ("EventId", "F020BA2E-3BC0-4C40-A10B-86575A9EABD5"),
        ("EventStatus", "Scheduled"),
        ("EventType", "Reboot"),
        ("ResourceType", "VirtualMachine"),
        ("Resources", ["web-0", "web-1"]),
        ("NotBefore", "Thu, 05 Mar 2026 07:08:09 GMT"),
        ("Description", "Host server is undergoing maintenance."),
        ("EventSource", "Platform"),
        ("DurationInSeconds", 30),
    ]


def test_what_is_shown_can_be_read_again() -> None:
    """Nothing that a client knew is lost."""
    body = json.dumps({"DocumentIncarnation": 1, "Events": [as_json(EVENT)]}).encode()

    assert document.parse(body).events == (EVENT,)


def test_unknown_words_and_what_a_version_does_not_tell_are_kept() -> None:
    """A new type of event and a new source pass through; a missing source and a passed NotBefore are empty."""
    result = ScheduledEvent(id="a", type="Teleport", status="Paused", resources=("web-0",))
    shown = as_json(result)

    assert (shown["EventType"], shown["EventStatus"]) == ("Teleport", "Paused")
    assert as_json(msgspec.structs.replace(result, source="Weather"))["EventSource"] == "Weather"
    assert (shown["EventSource"], shown["NotBefore"], shown["DurationInSeconds"]) == ("", "", -1)


@pytest.mark.parametrize("sample", EVERY_TYPE, ids=lambda sample: sample.type)
def test_an_event_is_told_as_the_newest_document_shows_it(sample: object) -> None:
    """The same keys, in the same order, with the same words; ours stand behind them."""
    newest = max(API_VERSIONS, key=lambda version: version.name)
    (shown,) = msgspec.json.decode(render([sample], 1, newest, GroupKind.STANDALONE))["Events"]  # type: ignore[list-item]
    result = msgspec.json.decode(msgspec.json.encode(make_notification_event(sample, "root", "why")))  # type: ignore[arg-type]

    assert list(result) == [*shown, "Group", "Operation", "By", "Reason"]
    assert {key: result[key] for key in shown} == shown
    assert (result["By"], result["Reason"]) == ("root", "why")


@pytest.mark.parametrize(
    ("status", "word"),
    [(EventStatus.COMPLETED, "Completed"), (EventStatus.CANCELED, "Canceled"), (EventStatus.FAILED, "Failed")],
)
def test_how_an_event_ended_is_told(status: EventStatus, word: str) -> None:
    """No document shows these; there is nothing left to wait for."""
    result = make_notification_event(event(status=status), "", "")

    assert (result.event_status, result.not_before) == (word, "")
