"""An event as somebody outside is told of it."""

import msgspec
import pytest

from forewarn.core.model import EventStatus, GroupKind
from forewarn.wire.document import render
from forewarn.wire.notification_json import make_notification_event
from forewarn.wire.versions import API_VERSIONS
from tests.wire.samples import EVERY_TYPE, event


@pytest.mark.parametrize("sample", EVERY_TYPE, ids=lambda sample: sample.type)
def test_an_event_is_told_as_the_newest_document_shows_it(sample: object) -> None:
    """The same keys, in the same order, with the same words; ours stand behind them."""
    newest = max(API_VERSIONS, key=lambda version: version.name)
    (shown,) = msgspec.json.decode(render([sample], 1, newest, GroupKind.STANDALONE))["Events"]  # type: ignore[list-item]
    told = msgspec.json.decode(msgspec.json.encode(make_notification_event(sample, "root", "why")))  # type: ignore[arg-type]

    assert list(told) == [*shown, "Group", "Operation", "By", "Reason"]
    assert {key: told[key] for key in shown} == shown
    assert (told["By"], told["Reason"]) == ("root", "why")


@pytest.mark.parametrize(
    ("status", "word"),
    [(EventStatus.COMPLETED, "Completed"), (EventStatus.CANCELED, "Canceled"), (EventStatus.FAILED, "Failed")],
)
def test_how_an_event_ended_is_told(status: EventStatus, word: str) -> None:
    """No document shows these; there is nothing left to wait for."""
    told = make_notification_event(event(status=status), "", "")

    assert (told.event_status, told.not_before) == (word, "")
