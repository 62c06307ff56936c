"""What Slack is sent."""

import msgspec

from forewarn.control.notifications.slack import slack_body
from tests.control.notifications.samples import message


def test_a_message_has_blocks_and_a_line_for_where_they_are_not_shown() -> None:
    """The headline above, the particulars below."""
    body = msgspec.json.decode(slack_body(message(by="root")))

    assert body["text"] == "Freeze of web-0 is scheduled: not before 2026-03-05 07:08:09 UTC"
    assert [block["type"] for block in body["blocks"]] == ["header", "section"]
    assert body["blocks"][0]["text"] == {"type": "plain_text", "text": body["text"]}
    assert "*Group:* web\n*VMs:* web-0\n" in body["blocks"][1]["text"]["text"]


def test_nothing_that_is_told_is_taken_for_a_command() -> None:
    """A reason that mentions everybody alarms nobody."""
    body = slack_body(message(reason="<!channel> & <https://example.org|x>")).decode()

    assert "<!" not in body
    assert "&lt;!channel&gt; &amp; &lt;https://example.org|x&gt;" in body


def test_a_message_is_never_too_long_for_slack() -> None:
    """It would refuse it as a whole."""
    long = message(resources=tuple("x" * 200 for _ in range(10)), reason="y" * 9_000)
    header, section = msgspec.json.decode(slack_body(long))["blocks"]

    assert len(header["text"]["text"]) <= 150
    assert len(section["text"]["text"]) <= 3_000
