"""The tables of event types and operations: each is stated once, and a new type takes its row."""

from datetime import timedelta
from pathlib import Path

import pytest

from forewarn.core.commands import HostOperation, VmOperation
from forewarn.core.event_types import (
    ANNOUNCEMENTS,
    EVENT_TYPES,
    LIVE_MIGRATION,
    Announcement,
)
from forewarn.core.model import (
    EventType,
    Operation,
    OperationScope,
)
from forewarn.core.notice import Rules
from forewarn.wire import azure_names
from forewarn.wire.versions import NEWEST

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
