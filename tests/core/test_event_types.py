"""The tables of event types and operations: each is stated once, and a new type takes its row."""

from datetime import timedelta
from pathlib import Path

import pytest

from forewarn.core.commands import HostOperation, VmOperation
from forewarn.core.event_types import (
    ANNOUNCEMENTS,
    EVENT_TYPES,
    KNOWN_DURATION,
    LIVE_MIGRATION,
    Announcement,
    moves_vms,
)
from forewarn.core.model import (
    Event,
    EventSource,
    EventStatus,
    EventType,
    Operation,
    OperationScope,
)
from forewarn.core.notice import Rules
from forewarn.wire import azure_names
from forewarn.wire.versions import NEWEST
from tests.core.harness import NOON

GOLDEN = Path(__file__).parents[1] / "wire" / "golden"
BY_USER = "Virtual machine is going to be {} as requested by authorized user."
MAINTENANCE = "Host server is undergoing maintenance."
MIGRATION = "Virtual machine is being paused because of a memory-preserving Live Migration operation."
FAILURE = "Virtual machine has encountered a failure."

TABLE = [
    (ANNOUNCEMENTS[Operation.VM_RESTART], "reboot", "user", 900, -1, BY_USER.format("restarted")),
    (ANNOUNCEMENTS[Operation.VM_REDEPLOY], "redeploy", "user", 600, -1, BY_USER.format("redeployed")),
    (ANNOUNCEMENTS[Operation.VM_FREEZE], "freeze", "platform", 900, 5, MAINTENANCE),
    (ANNOUNCEMENTS[Operation.VM_EVICT], "preempt", "platform", 30, -1, ""),
    (ANNOUNCEMENTS[Operation.VM_DELETE], "terminate", "user", 420, -1, ""),
    (ANNOUNCEMENTS[Operation.HOST_FREEZE], "freeze", "platform", 900, 5, MAINTENANCE),
    (ANNOUNCEMENTS[Operation.HOST_REBOOT], "reboot", "platform", 900, -1, MAINTENANCE),
    (ANNOUNCEMENTS[Operation.HOST_REDEPLOY], "redeploy", "platform", 600, -1, MIGRATION),
    (LIVE_MIGRATION, "freeze", "platform", 900, 5, MIGRATION),
    (
        ANNOUNCEMENTS[Operation.HOST_DEGRADE],
        "redeploy",
        "platform",
        600,
        -1,
        "Host server is undergoing an emergency repair.",
    ),
    (ANNOUNCEMENTS[Operation.HOST_FAIL], "redeploy", "platform", 600, -1, FAILURE),
    (ANNOUNCEMENTS[Operation.VM_FAIL], "redeploy", "platform", 600, -1, FAILURE),
    (ANNOUNCEMENTS[Operation.VM_MOVE], "redeploy", "platform", 600, -1, MIGRATION),
    (ANNOUNCEMENTS[Operation.HOST_DRAIN], "redeploy", "platform", 600, -1, MIGRATION),
]


@pytest.mark.parametrize(("announcement", "type_", "source", "notice", "duration", "description"), TABLE)
def test_each_operation_announces_what_the_table_says(
    announcement: Announcement, type_: str, source: str, notice: int, duration: int, description: str
) -> None:
    """Type, source, notice, duration and description, row by row."""
    assert (announcement.type, announcement.source) == (type_, source)
    assert (announcement.duration, announcement.description) == (duration, description)
    assert Rules().minimum(announcement.type, terminate_notice=420) == timedelta(seconds=notice)


def test_every_operation_announces_something() -> None:
    """What a command or a driver can ask for has its row, and no row is of anything else."""
    asked = {Operation.of(OperationScope.VM, each) for each in VmOperation}
    asked |= {Operation.of(OperationScope.HOST, each) for each in HostOperation}

    assert set(ANNOUNCEMENTS) == set(Operation)
    assert asked < set(Operation)


def test_every_type_has_its_rows_and_its_golden_bytes() -> None:
    """In the rules, among the operations, on the wire, and in the document of the newest api-version."""
    shown = (GOLDEN / f"{NEWEST.name}.json").read_text(encoding="utf-8")

    assert set(EVENT_TYPES) == set(EventType)
    assert {each.type for each in ANNOUNCEMENTS.values()} == set(EventType)
    assert set(azure_names.TYPES_SHOWN) == set(EventType)
    assert [word for word in azure_names.TYPES.values() if f'"{word}"' not in shown] == []


@pytest.mark.parametrize(
    ("type_", "effect", "order", "traits"),
    [
        (EventType.FREEZE, "freezes", 2, {"is_maintenance"}),
        (EventType.REBOOT, "restarts", 2, {"is_maintenance", "boots_vm"}),
        (EventType.REDEPLOY, "is redeployed", 2, {"is_maintenance", "takes_machine", "boots_vm"}),
        (EventType.PREEMPT, "is evicted", 0, {"ends_vm", "takes_machine"}),
        (EventType.TERMINATE, "is deleted", 1, {"ends_vm", "takes_machine"}),
    ],
)
def test_each_type_has_its_traits(type_: EventType, effect: str, order: int, traits: set[str]) -> None:
    """What a VM undergoes, who goes first, and what is true of it."""
    row = EVENT_TYPES[type_]
    flags = ("is_maintenance", "ends_vm", "takes_machine", "boots_vm")

    assert (row.effect, row.start_order, {flag for flag in flags if getattr(row, flag)}) == (effect, order, traits)


def test_only_a_freeze_has_a_known_duration() -> None:
    """How long the others take, the driver finds out."""
    assert {EventType.FREEZE} == KNOWN_DURATION


def test_an_operation_that_is_announced_has_a_summary() -> None:
    """The command's help has it; a host that degrades or fails has a help of its own, which says more."""
    given = {Operation(f"vm {each}") for each in VmOperation} | {Operation(f"host {each}") for each in HostOperation}

    assert {operation for operation in given if not ANNOUNCEMENTS[operation].summary} == {
        Operation.HOST_DEGRADE,
        Operation.HOST_FAIL,
    }


@pytest.mark.parametrize(
    ("type_", "operation", "is_moving"),
    [
        (EventType.REDEPLOY, Operation.VM_REDEPLOY, True),
        (EventType.FREEZE, Operation.HOST_REDEPLOY, True),
        (EventType.FREEZE, Operation.HOST_DRAIN, True),
        (EventType.FREEZE, Operation.VM_MOVE, True),
        (EventType.FREEZE, Operation.VM_FREEZE, False),
    ],
)
def test_what_moves_vms(type_: EventType, operation: Operation, *, is_moving: bool) -> None:
    """A redeploy, and what is done live, which is announced as a freeze."""
    event = Event("e", type_, EventSource.PLATFORM, "web", ("a",), EventStatus.SCHEDULED, NOON, NOON, operation)

    assert moves_vms(event) is is_moving
