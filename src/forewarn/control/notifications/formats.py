"""Formats of notifications: headline and details as text, and request bodies for Slack and Teams."""

from collections.abc import Iterator
from datetime import datetime

import msgspec

from forewarn.control.notifications.notification import Notification, NotificationType
from forewarn.core.model import Event, EventStatus
from forewarn.wire.azure_names import SOURCES, STATUSES, TYPES, show_id

_NAMED = 10
"""Number of VMs that are named before the rest is counted."""
_SENTENCES = {
    NotificationType.SCHEDULED: "is scheduled: not before {when}",
    NotificationType.APPROVED: "was approved by {by}",
    NotificationType.POSTPONED: "was postponed: now not before {when}",
    NotificationType.ADVANCED: "comes earlier: now not before {when}",
    NotificationType.STARTED: "has started",
    NotificationType.COMPLETED: "is over",
    NotificationType.FAILED: "failed",
    NotificationType.CANCELED: "was canceled",
}


def headline(message: Notification) -> str:
    event = message.event
    if message.group:
        return f"{_names(message.vms)} of {message.group} left the fleet"
    if message.rollout:
        return message.reason.partition(":")[0].capitalize()
    if event is None:
        return "Test of a subscription" if message.type is NotificationType.TEST else "Messages are missing"
    said = _SENTENCES[message.type].format(when=_shown(event.not_before), by=message.by)
    return f"{TYPES[event.type]} of {_vms(event)} {said}"


def particulars(message: Notification) -> Iterator[tuple[str, str]]:
    event = message.event
    if message.group:
        yield "Group", message.group
        yield "VMs", _names(message.vms)
        yield "By", message.by
    if message.rollout:
        yield "Rollout", message.rollout
        yield "By", message.by
    if event is None:
        yield "Detail", message.reason
        return
    yield "Group", event.group
    yield "VMs", _vms(event)
    yield "Status", STATUSES[event.status]
    if event.status is EventStatus.SCHEDULED:
        yield "Not before", _shown(event.not_before)
    yield "Source", f"{SOURCES[event.source]} ({event.operation})"
    if event.description:
        yield "Description", event.description
    if message.reason:
        yield "Reason", message.reason
    yield "By", message.by
    yield "Event", show_id(event.id)


def _vms(event: Event) -> str:
    return _names(event.resources)


def _names(vms: tuple[str, ...]) -> str:
    named = ", ".join(vms[:_NAMED])
    others = len(vms) - _NAMED
    return f"{named} and {others} more" if others > 0 else named


def _shown(when: datetime) -> str:
    return f"{when:%Y-%m-%d %H:%M:%S} UTC"


_LONGEST_HEADER = 150
_LONGEST_TEXT = 2_900


def slack_body(message: Notification) -> bytes:
    """Return the request body for an incoming webhook of Slack: blocks, and a text as fallback."""
    line = headline(message)
    lines = "\n".join(f"*{name}:* {_escaped(said)}" for name, said in particulars(message))
    return msgspec.json.encode(
        {
            "text": _escaped(line),
            "blocks": [
                {"type": "header", "text": {"type": "plain_text", "text": _shortened(line, _LONGEST_HEADER)}},
                {"type": "section", "text": {"type": "mrkdwn", "text": _shortened(lines, _LONGEST_TEXT)}},
            ],
        }
    )


def _escaped(text: str) -> str:
    """Escape the three characters that Slack interprets."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _shortened(text: str, longest: int) -> str:
    """Shorten a text to Slack's limit; otherwise Slack refuses the whole message."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


_COLOURS = {
    NotificationType.STARTED: "warning",
    NotificationType.COMPLETED: "good",
    NotificationType.FAILED: "attention",
    NotificationType.MISSED: "attention",
}


def teams_body(message: Notification) -> bytes:
    """Return the request body for a Teams workflow ("when a Teams webhook request is received"): an adaptive card."""
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
