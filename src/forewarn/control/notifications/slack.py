"""A message as an incoming webhook of Slack takes it: blocks, and a line for where blocks are not shown."""

import msgspec

from forewarn.control.notifications.notification import Notification
from forewarn.control.notifications.wording import headline, particulars

_LONGEST_HEADER = 150
_LONGEST_TEXT = 2_900


def slack_body(message: Notification) -> bytes:
    """Write the message that Slack shows."""
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
    """Write the three characters that Slack would read as its own."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _shortened(text: str, longest: int) -> str:
    """Keep within what Slack takes; it refuses the whole message otherwise."""
    return text if len(text) <= longest else text[: longest - 1] + "…"
