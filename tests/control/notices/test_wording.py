"""What people read."""

import pytest

from forewarn.control.notices.messages import NoticeType, missed_notice, trial_notice
from forewarn.control.notices.wording import headline, particulars
from forewarn.core.model import EventStatus
from tests.control.notices.samples import AT, notice


@pytest.mark.parametrize(
    ("type_", "said"),
    [
        (NoticeType.SCHEDULED, "is scheduled: not before 2026-03-05 07:08:09 UTC"),
        (NoticeType.APPROVED, "was approved by web-1"),
        (NoticeType.POSTPONED, "was postponed: now not before 2026-03-05 07:08:09 UTC"),
        (NoticeType.ADVANCED, "comes earlier: now not before 2026-03-05 07:08:09 UTC"),
        (NoticeType.STARTED, "has started"),
        (NoticeType.COMPLETED, "is over"),
        (NoticeType.FAILED, "failed"),
        (NoticeType.CANCELED, "was canceled"),
    ],
)
def test_the_headline_says_what_happened_to_whom(type_: NoticeType, said: str) -> None:
    """One sentence for each kind of notice."""
    assert headline(notice(type=type_, by="web-1")) == f"Freeze of web-0 {said}"


def test_many_vms_are_counted() -> None:
    """A headline stays a line."""
    many = notice(resources=tuple(f"vm-{number}" for number in range(12)), type=NoticeType.STARTED)

    assert headline(many).endswith("vm-8, vm-9 and 2 more has started")


def test_the_particulars_leave_out_what_is_not_known() -> None:
    """Nobody reads an empty line."""
    assert dict(particulars(notice(by="root"))) == {
        "Group": "web",
        "VMs": "web-0",
        "Status": "Scheduled",
        "Not before": "2026-03-05 07:08:09 UTC",
        "Source": "Platform (vm freeze)",
        "By": "root",
        "Event": "F020BA2E-3BC0-4C40-A10B-86575A9EABD5",
    }
    started = dict(particulars(notice(status=EventStatus.STARTED, reason="due", description="Maintenance.")))
    assert "Not before" not in started
    assert (started["Reason"], started["Description"]) == ("due", "Maintenance.")


def test_what_is_about_no_event_says_what_it_is() -> None:
    """A test is no alarm, and a gap is no test."""
    assert headline(trial_notice("x", AT, "ops")) == "Test of a subscription"
    assert headline(missed_notice(1, 2, AT)) == "Notices are missing"
    assert dict(particulars(missed_notice(1, 2, AT))).keys() == {"Detail"}
