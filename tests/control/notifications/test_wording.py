"""What people read."""

import pytest

from forewarn.control.notifications.notification import (
    Notification,
    NotificationType,
    gap_notification,
    make_test_notification,
)
from forewarn.control.notifications.wording import headline, particulars
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
    told = Notification(
        "7-0-web", NotificationType.VM_REMOVED, 7, AT, "ada", "why", group="web", vms=("web-0", "web-1")
    )

    assert headline(told) == "web-0, web-1 of web left the fleet"
    assert dict(particulars(told)) == {"Group": "web", "VMs": "web-0, web-1", "By": "ada", "Detail": "why"}
