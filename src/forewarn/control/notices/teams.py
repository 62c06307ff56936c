"""A notice as a workflow of Teams takes it ("when a Teams webhook request is received"): an adaptive card."""

import msgspec

from forewarn.control.notices.messages import Notice, NoticeType
from forewarn.control.notices.wording import headline, particulars

_COLOURS = {
    NoticeType.STARTED: "warning",
    NoticeType.COMPLETED: "good",
    NoticeType.FAILED: "attention",
    NoticeType.MISSED: "attention",
}


def teams_body(notice: Notice) -> bytes:
    """Write the message that Teams shows."""
    title = {
        "type": "TextBlock",
        "text": headline(notice),
        "weight": "bolder",
        "size": "medium",
        "wrap": True,
        "color": _COLOURS.get(notice.type, "default"),
    }
    facts = [{"title": name, "value": said} for name, said in particulars(notice)]
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": [title, {"type": "FactSet", "facts": facts}],
    }
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": None, "content": card}
    return msgspec.json.encode({"type": "message", "attachments": [attachment]})
