"""The durations and limits that the rules go by, and the minimums below which no notice falls."""

import re
from datetime import datetime, timedelta

import msgspec

from forewarn.core.errors import Refused
from forewarn.core.event_types import DEFAULT_NOTICES
from forewarn.core.fleet import EVICTIONS_KEPT
from forewarn.core.model import EventType
from forewarn.core.terms import LONGEST_LINE, ONE_LINE

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """The durations and limits the rules go by. ``hurried`` divides all durations; the clock is never scaled."""

    notices: dict[EventType, timedelta] = msgspec.field(default_factory=lambda: dict(DEFAULT_NOTICES))
    """The least notice of each type that has one; that of the others is a term of the group."""
    idle_after: timedelta = 24 * HOUR
    """A group that nobody asked for this long is switched off."""
    mark_after: timedelta = 6 * HOUR
    """A recorded mark that is older than this is brought up to date."""
    evictions_count_for: timedelta = EVICTIONS_KEPT
    """How long a group's loss counts when spot VMs are reclaimed."""
    terminate_notice_scale: float = 1.0
    """What a group's own terminate notice is divided by."""
    user_operation_limit: int = 0
    """How many user-initiated events may be Scheduled in the whole fleet; 0 is no limit."""

    def hurried(self, rate: float) -> "Rules":
        """Divide every duration by ``rate``."""
        return Rules(
            notices={type_: notice / rate for type_, notice in self.notices.items()},
            idle_after=self.idle_after / rate,
            mark_after=self.mark_after / rate,
            evictions_count_for=self.evictions_count_for / rate,
            terminate_notice_scale=self.terminate_notice_scale * rate,
            user_operation_limit=self.user_operation_limit,
        )

    def minimum(self, type_: EventType, terminate_notice: int | None = None) -> timedelta:
        """Return the least time between announcement and ``not_before``."""
        if type_ in self.notices:
            return self.notices[type_]
        return timedelta(seconds=(terminate_notice or 0) / self.terminate_notice_scale)


_LINE = re.compile(rf"{ONE_LINE}{{0,{LONGEST_LINE}}}")


def whole_second(time: datetime) -> datetime:
    """Round up to what is shown: an event must not start before the time that its VMs were told."""
    return time if not time.microsecond else time.replace(microsecond=0) + SECOND


def check_line(what: str, text: str) -> None:
    """Refuse a text that VMs and people could not be shown on one line."""
    if not _LINE.fullmatch(text):
        raise Refused(f"{what} is one line of at most {LONGEST_LINE} characters")
