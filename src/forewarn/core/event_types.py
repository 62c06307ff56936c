"""Tables: the types of event, and the operations with what each announces.

Command line, settings, emulator, drivers and docs read these two tables; ``wire/azure_names.py`` says how each
api-version shows a type.
"""

from datetime import timedelta

import msgspec

from forewarn.core.model import Event, EventSource, EventType, Operation


class EventTypeTraits(msgspec.Struct, frozen=True):
    """Properties of an event type."""

    verb: str
    """What happens to a VM, as an infinitive: "restart", "be evicted"."""
    notice: timedelta | None
    """Default minimum notice; None: a term of the group."""
    is_maintenance: bool = False
    """With source Platform, one update domain at a time."""
    start_order: int = 2
    """Ready events with a lower number start first."""
    ends_vm: bool = False
    """Its VMs are deallocated or deleted; it cannot be postponed."""
    takes_machine: bool = False
    """It ends the machine of a VM; a crash during the event is expected."""
    boots_vm: bool = False
    """Its VMs boot again."""

    @property
    def effect(self) -> str:
        """What happens to a VM, in the present tense: "restarts", "is evicted"."""
        return f"is{self.verb.removeprefix('be')}" if self.verb.startswith("be ") else f"{self.verb}s"


_EVICTION_NOTICE = timedelta(seconds=30)

EVENT_TYPES = {
    EventType.FREEZE: EventTypeTraits("freeze", timedelta(minutes=15), is_maintenance=True),
    EventType.REBOOT: EventTypeTraits("restart", timedelta(minutes=15), is_maintenance=True, boots_vm=True),
    EventType.REDEPLOY: EventTypeTraits(
        "be redeployed", timedelta(minutes=10), is_maintenance=True, takes_machine=True, boots_vm=True
    ),
    EventType.PREEMPT: EventTypeTraits(
        "be evicted", _EVICTION_NOTICE, start_order=0, ends_vm=True, takes_machine=True
    ),
    EventType.TERMINATE: EventTypeTraits("be deleted", None, start_order=1, ends_vm=True, takes_machine=True),
}

DEFAULT_NOTICES = {type_: row.notice for type_, row in EVENT_TYPES.items() if row.notice is not None}
"""Event types with a configurable minimum notice, and its default."""


class Announcement(msgspec.Struct, frozen=True):
    """What an operation announces."""

    type: EventType
    source: EventSource
    description: str
    duration: int = -1
    summary: str = ""
    """Help text of the command, if it needs no longer one."""


_BY_USER = "Virtual machine is going to be {} as requested by authorized user."
_MAINTENANCE = "Host server is undergoing maintenance."
_MIGRATION = "Virtual machine is being paused because of a memory-preserving Live Migration operation."

_REPAIR = "Host server is undergoing an emergency repair."
_FAILURE = "Virtual machine has encountered a failure."

ANNOUNCEMENTS = {
    Operation.VM_RESTART: Announcement(
        EventType.REBOOT,
        EventSource.USER,
        _BY_USER.format("restarted"),
        summary="Restart a VM, after notice to its group.",
    ),
    Operation.VM_REDEPLOY: Announcement(
        EventType.REDEPLOY,
        EventSource.USER,
        _BY_USER.format("redeployed"),
        summary="Move a VM to another host.\n\nIt restarts there, after notice to its group.",
    ),
    Operation.VM_FREEZE: Announcement(
        EventType.FREEZE,
        EventSource.PLATFORM,
        _MAINTENANCE,
        duration=5,
        summary="Pause a VM for some seconds, after notice to its group.",
    ),
    Operation.VM_EVICT: Announcement(
        EventType.PREEMPT,
        EventSource.PLATFORM,
        "",
        summary=f"Evict a spot VM, after {_EVICTION_NOTICE.seconds} seconds of notice.",
    ),
    Operation.VM_DELETE: Announcement(
        EventType.TERMINATE,
        EventSource.USER,
        "",
        summary="Delete a VM.\n\nAnnounced first if its scale set has a terminate notice; else done at once.",
    ),
    Operation.VM_MOVE: Announcement(EventType.REDEPLOY, EventSource.PLATFORM, _MIGRATION),
    Operation.VM_FAIL: Announcement(EventType.REDEPLOY, EventSource.PLATFORM, _FAILURE),
    Operation.HOST_FREEZE: Announcement(
        EventType.FREEZE,
        EventSource.PLATFORM,
        _MAINTENANCE,
        duration=5,
        summary="Pause the host's VMs for some seconds, after notice.",
    ),
    Operation.HOST_REBOOT: Announcement(
        EventType.REBOOT, EventSource.PLATFORM, _MAINTENANCE, summary="Restart the host and its VMs, after notice."
    ),
    Operation.HOST_REDEPLOY: Announcement(
        EventType.REDEPLOY,
        EventSource.PLATFORM,
        _MIGRATION,
        summary="Move its VMs elsewhere, after notice.\n\nLive where the driver can.",
    ),
    Operation.HOST_DEGRADE: Announcement(EventType.REDEPLOY, EventSource.PLATFORM, _REPAIR),
    Operation.HOST_FAIL: Announcement(EventType.REDEPLOY, EventSource.PLATFORM, _FAILURE),
    Operation.HOST_DRAIN: Announcement(EventType.REDEPLOY, EventSource.PLATFORM, _MIGRATION),
}
"""What each operation announces."""

LIVE_MIGRATION = Announcement(EventType.FREEZE, EventSource.PLATFORM, _MIGRATION, duration=5)
"""What host redeploy, drain and move announce if the driver supports live migration."""

KNOWN_DURATION = frozenset(each.type for each in ANNOUNCEMENTS.values() if each.duration >= 0)
"""Event types with a known duration."""

_MOVES = {Operation.HOST_REDEPLOY, Operation.HOST_DRAIN, Operation.VM_MOVE}


def moves_vms(event: Event) -> bool:
    """Return whether an event moves its VMs to other hosts; live migration is announced as a freeze."""
    return event.type is EventType.REDEPLOY or event.operation in _MOVES
