"""Formats notifications for incoming webhooks of Slack: blocks, and a text as fallback."""

import msgspec

from forewarn.control.notifications.notification import Notification
from forewarn.control.notifications.wording import headline, particulars

_LONGEST_HEADER = 150
_LONGEST_TEXT = 2_900


def slack_body(message: Notification) -> bytes:
    """Return the request body for Slack."""
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
