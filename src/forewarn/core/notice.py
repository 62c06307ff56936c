"""What each operation announces, and how long before: one table, and the minimums below which no notice falls."""

import re
from datetime import datetime, timedelta

import msgspec

from forewarn.core.errors import Refused
from forewarn.core.fleet import EVICTIONS_KEPT
from forewarn.core.model import EventSource, EventType, Operation

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """The durations and limits the rules go by. ``hurried`` divides all durations; the clock is never scaled."""

    freeze_notice: timedelta = 15 * MINUTE
    reboot_notice: timedelta = 15 * MINUTE
    redeploy_notice: timedelta = 10 * MINUTE
    preempt_notice: timedelta = 30 * SECOND
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
            freeze_notice=self.freeze_notice / rate,
            reboot_notice=self.reboot_notice / rate,
            redeploy_notice=self.redeploy_notice / rate,
            preempt_notice=self.preempt_notice / rate,
            idle_after=self.idle_after / rate,
            mark_after=self.mark_after / rate,
            evictions_count_for=self.evictions_count_for / rate,
            terminate_notice_scale=self.terminate_notice_scale * rate,
            user_operation_limit=self.user_operation_limit,
        )

    def minimum(self, type_: EventType, terminate_notice: int | None = None) -> timedelta:
        """Return the least time between announcement and ``not_before``."""
        match type_:
            case EventType.FREEZE:
                return self.freeze_notice
            case EventType.REBOOT:
                return self.reboot_notice
            case EventType.REDEPLOY:
                return self.redeploy_notice
            case EventType.PREEMPT:
                return self.preempt_notice
            case EventType.TERMINATE:
                return timedelta(seconds=(terminate_notice or 0) / self.terminate_notice_scale)


class Announcement(msgspec.Struct, frozen=True):
    """What an operation announces."""

    type: EventType
    source: EventSource
    description: str
    duration: int = -1


_BY_USER = "Virtual machine is going to be {} as requested by authorized user."
_MAINTENANCE = "Host server is undergoing maintenance."
_MIGRATION = "Virtual machine is being paused because of a memory-preserving Live Migration operation."

_REPAIR = "Host server is undergoing an emergency repair."
_FAILURE = "Virtual machine has encountered a failure."

ANNOUNCEMENTS = {
    Operation.VM_RESTART: Announcement(EventType.REBOOT, EventSource.USER, _BY_USER.format("restarted")),
    Operation.VM_REDEPLOY: Announcement(EventType.REDEPLOY, EventSource.USER, _BY_USER.format("redeployed")),
    Operation.VM_FREEZE: Announcement(EventType.FREEZE, EventSource.PLATFORM, _MAINTENANCE, duration=5),
    Operation.VM_EVICT: Announcement(EventType.PREEMPT, EventSource.PLATFORM, ""),
    Operation.VM_DELETE: Announcement(EventType.TERMINATE, EventSource.USER, ""),
    Operation.VM_MOVE: Announcement(EventType.REDEPLOY, EventSource.PLATFORM, _MIGRATION),
    Operation.VM_FAIL: Announcement(EventType.REDEPLOY, EventSource.PLATFORM, _FAILURE),
    Operation.HOST_FREEZE: Announcement(EventType.FREEZE, EventSource.PLATFORM, _MAINTENANCE, duration=5),
    Operation.HOST_REBOOT: Announcement(EventType.REBOOT, EventSource.PLATFORM, _MAINTENANCE),
    Operation.HOST_REDEPLOY: Announcement(EventType.REDEPLOY, EventSource.PLATFORM, _MIGRATION),
    Operation.HOST_DEGRADE: Announcement(EventType.REDEPLOY, EventSource.PLATFORM, _REPAIR),
    Operation.HOST_FAIL: Announcement(EventType.REDEPLOY, EventSource.PLATFORM, _FAILURE),
    Operation.HOST_DRAIN: Announcement(EventType.REDEPLOY, EventSource.PLATFORM, _MIGRATION),
}
"""What each operation announces."""

LIVE_MIGRATION = Announcement(EventType.FREEZE, EventSource.PLATFORM, _MIGRATION, duration=5)
"""What a redeploy of a host, a drain or a move announces instead where the driver moves the guests live."""

_LINE = re.compile(r"[^\x00-\x1f\x7f]{0,500}")


def whole_second(time: datetime) -> datetime:
    """Round up to what is shown: an event must not start before the time that its VMs were told."""
    return time if not time.microsecond else time.replace(microsecond=0) + SECOND


def check_line(what: str, text: str) -> None:
    """Refuse a text that VMs and people could not be shown on one line."""
    if not _LINE.fullmatch(text):
        raise Refused(f"{what} is one line of at most 500 characters")
