"""Texts of notifications, and request bodies for Slack and Teams."""

import msgspec
import pytest

from forewarn.control.notifications.formats import headline, particulars, slack_body, teams_body
from forewarn.control.notifications.notification import (
    Notification,
    NotificationType,
    gap_notification,
    make_test_notification,
)
from forewarn.core.model import EventStatus
from tests.control.notifications.samples import AT, message


@pytest.mark.parametrize(
    ("type_", "said"),
    [
        (NotificationType.SCHEDULED, "is scheduled: not before 2026-03-05 07:08:09 UTC"),
        (NotificationType.APPROVED, "was approved by web-1"),
        (NotificationType.POSTPONED, "was postponed: now not before 2026-03-05 07:08:09 UTC"),
        (NotificationType.ADVANCED, "comes earlier: now not before 2026-03-05 07:08:09 UTC"),
        (NotificationType.STARTED, "has started"),
        (NotificationType.COMPLETED, "is over"),
        (NotificationType.FAILED, "failed"),
        (NotificationType.CANCELED, "was canceled"),
    ],
)
def test_the_headline_says_what_happened_to_whom(type_: NotificationType, said: str) -> None:
    """One sentence for each kind of message."""
    assert headline(message(type=type_, by="web-1")) == f"Freeze of web-0 {said}"


def test_many_vms_are_counted() -> None:
    """A headline stays a line."""
    many = message(resources=tuple(f"vm-{number}" for number in range(12)), type=NotificationType.STARTED)

    assert headline(many).endswith("vm-8, vm-9 and 2 more has started")


def test_the_particulars_leave_out_what_is_not_known() -> None:
    """Nobody reads an empty line."""
    assert dict(particulars(message(by="root"))) == {
        "Group": "web",
        "VMs": "web-0",
        "Status": "Scheduled",
        "Not before": "2026-03-05 07:08:09 UTC",
        "Source": "Platform (vm freeze)",
        "By": "root",
        "Event": "F020BA2E-3BC0-4C40-A10B-86575A9EABD5",
    }
    started = dict(particulars(message(status=EventStatus.STARTED, reason="due", description="Maintenance.")))
    assert "Not before" not in started
    assert (started["Reason"], started["Description"]) == ("due", "Maintenance.")


def test_what_is_about_no_event_says_what_it_is() -> None:
    """A test is no alarm, and a gap is no test."""
    assert headline(make_test_notification("x", AT, "ops")) == "Test of a subscription"
    assert headline(gap_notification(1, 2, AT)) == "Messages are missing"
    assert dict(particulars(gap_notification(1, 2, AT))).keys() == {"Detail"}


def test_removed_vms_are_named_with_their_group() -> None:
    """And who removed them."""
    result = Notification(
        "7-0-web", NotificationType.VM_REMOVED, 7, AT, "ada", "why", group="web", vms=("web-0", "web-1")
    )

    assert headline(result) == "web-0, web-1 of web left the fleet"
    assert dict(particulars(result)) == {"Group": "web", "VMs": "web-0, web-1", "By": "ada", "Detail": "why"}


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
