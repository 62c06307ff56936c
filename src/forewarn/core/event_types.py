"""The types of event, and what each operation announces: one row each.

A new type takes its row in ``EVENT_TYPES``, the row of an operation that announces it, its word and first api-version
in ``wire/azure_names.py``, its impact in each driver, and its golden bytes.
"""

from datetime import timedelta

import msgspec

from forewarn.core.model import EventSource, EventType, Operation


class EventTypeTraits(msgspec.Struct, frozen=True):
    """What the rules know of a type of event."""

    notice: timedelta | None
    """The least time between announcement and NotBefore, if nothing else is set; None: a term of the group."""
    is_maintenance: bool = False
    """From the platform, it goes one update domain at a time."""
    start_order: int = 2
    """Ready events with a lower number start first."""
    ends_vm: bool = False
    """Its VMs are deallocated or deleted; it cannot be postponed."""
    takes_machine: bool = False
    """It ends the machine that a VM runs on; a crash meanwhile is part of it."""


EVENT_TYPES = {
    EventType.FREEZE: EventTypeTraits(timedelta(minutes=15), is_maintenance=True),
    EventType.REBOOT: EventTypeTraits(timedelta(minutes=15), is_maintenance=True),
    EventType.REDEPLOY: EventTypeTraits(timedelta(minutes=10), is_maintenance=True, takes_machine=True),
    EventType.PREEMPT: EventTypeTraits(timedelta(seconds=30), start_order=0, ends_vm=True, takes_machine=True),
    EventType.TERMINATE: EventTypeTraits(None, start_order=1, ends_vm=True, takes_machine=True),
}

DEFAULT_NOTICES = {type_: row.notice for type_, row in EVENT_TYPES.items() if row.notice is not None}
"""The types with a minimum that is a setting, and its default."""


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
