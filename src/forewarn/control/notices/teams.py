"""A message as a workflow of Teams takes it ("when a Teams webhook request is received"): an adaptive card."""

import msgspec

from forewarn.control.notices.messages import Message, MessageType
from forewarn.control.notices.wording import headline, particulars

_COLOURS = {
    MessageType.STARTED: "warning",
    MessageType.COMPLETED: "good",
    MessageType.FAILED: "attention",
    MessageType.MISSED: "attention",
}


def teams_body(message: Message) -> bytes:
    """Write the message that Teams shows."""
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
