"""Messages for the tests of this folder."""

from datetime import UTC, datetime
from typing import Any

from forewarn.control.notifications.notification import Notification, NotificationType
from tests.wire.samples import event

AT = datetime(2026, 3, 5, 6, 53, 9, tzinfo=UTC)


def message(
    revision: int = 7, id: str = "", type: NotificationType = NotificationType.SCHEDULED, **given: Any
) -> Notification:
    """Make a message of which only what is given matters."""
    said = {name: given.pop(name) for name in ("by", "reason") if name in given}
    lane = given.pop("lane", None)
    about = event(**given | ({"id": lane} if lane else {}))
    return Notification(id or f"{revision}-0", type, revision, AT, event=about, **said)
