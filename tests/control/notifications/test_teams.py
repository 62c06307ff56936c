"""What Teams is sent."""

import msgspec

from forewarn.control.notifications.notification import NotificationType
from forewarn.control.notifications.teams import teams_body
from tests.control.notifications.samples import message


def test_a_message_is_one_adaptive_card() -> None:
    """As a workflow takes it: the headline above, the particulars below."""
    body = msgspec.json.decode(teams_body(message(by="root", type=NotificationType.FAILED)))
    (attachment,) = body["attachments"]
    card = attachment["content"]
    title, facts = card["body"]

    assert body["type"] == "message"
    assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    assert (card["type"], card["version"]) == ("AdaptiveCard", "1.4")
    assert (title["type"], title["text"], title["color"]) == ("TextBlock", "Freeze of web-0 failed", "attention")
    assert facts["type"] == "FactSet"
    assert {"title": "Group", "value": "web"} in facts["facts"]
