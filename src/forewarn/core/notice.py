"""Durations and limits of the rules, and the minimum notice of each event type."""

import re
from datetime import datetime, timedelta

import msgspec

from forewarn.core.errors import Refused
from forewarn.core.event_types import DEFAULT_NOTICES
from forewarn.core.fleet import EVICTIONS_KEPT
from forewarn.core.model import EventType
from forewarn.core.terms import LONGEST_LINE, ONE_LINE

SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """Durations and limits of the rules. ``hurried`` divides all durations; the clock is never scaled."""

    notices: dict[EventType, timedelta] = msgspec.field(default_factory=lambda: dict(DEFAULT_NOTICES))
    """The minimum notice by event type; for other types it is a term of the group."""
    idle_after: timedelta = 24 * HOUR
    """A group without a request for this long is switched off."""
    mark_after: timedelta = 6 * HOUR
    """A recorded mark older than this is updated."""
    evictions_count_for: timedelta = EVICTIONS_KEPT
    """How long an eviction counts when spot VMs are reclaimed."""
    terminate_notice_scale: float = 1.0
    """The divisor of the terminate notice of groups."""
    user_operation_limit: int = 0
    """How many user-initiated events may be Scheduled in the whole fleet; 0 is no limit."""
    hurry: float = 1.0
    """What durations that an operator states of a rollout are divided by."""
    maintenance_windows: tuple[str, ...] = ()
    """When the events of any rollout may start; none is always. ``core/rollouts/windows.py`` says how."""

    def hurried(self, rate: float) -> "Rules":
        """Divide every duration by ``rate``."""
        return Rules(
            notices={type_: notice / rate for type_, notice in self.notices.items()},
            idle_after=self.idle_after / rate,
            mark_after=self.mark_after / rate,
            evictions_count_for=self.evictions_count_for / rate,
            terminate_notice_scale=self.terminate_notice_scale * rate,
            user_operation_limit=self.user_operation_limit,
            hurry=self.hurry * rate,
            maintenance_windows=self.maintenance_windows,
        )

    def minimum(self, type_: EventType, terminate_notice: int | None = None) -> timedelta:
        """Return the minimum time between announcement and ``not_before``."""
        if type_ in self.notices:
            return self.notices[type_]
        return timedelta(seconds=(terminate_notice or 0) / self.terminate_notice_scale)


_LINE = re.compile(rf"{ONE_LINE}{{0,{LONGEST_LINE}}}")


def whole_second(time: datetime) -> datetime:
    """Round up to whole seconds, as shown: an event must not start before the shown time."""
    return time if not time.microsecond else time.replace(microsecond=0) + SECOND


def check_line(what: str, text: str) -> None:
    """Refuse a text that cannot be shown on one line."""
    if not _LINE.fullmatch(text):
        raise Refused(f"{what} is one line of at most {LONGEST_LINE} characters")
