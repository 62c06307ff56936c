"""Formats notifications for a Teams workflow ("when a Teams webhook request is received"): an adaptive card."""

import msgspec

from forewarn.control.notifications.notification import Notification, NotificationType
from forewarn.control.notifications.wording import headline, particulars

_COLOURS = {
    NotificationType.STARTED: "warning",
    NotificationType.COMPLETED: "good",
    NotificationType.FAILED: "attention",
    NotificationType.MISSED: "attention",
}


def teams_body(message: Notification) -> bytes:
    """Return the request body for Teams."""
    title = {
        "type": "TextBlock",
        "text": headline(message),
        "weight": "bolder",
        "size": "medium",
        "wrap": True,
        "color": _COLOURS.get(message.type, "default"),
    }
    facts = [{"title": name, "value": said} for name, said in particulars(message)]
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": [title, {"type": "FactSet", "facts": facts}],
    }
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": None, "content": card}
    return msgspec.json.encode({"type": "message", "attachments": [attachment]})
