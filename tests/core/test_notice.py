"""The table of operations, and the least notice of each type."""

from datetime import timedelta

import msgspec
import pytest

from forewarn.core.commands import HostOperation, VmOperation
from forewarn.core.errors import Refused
from forewarn.core.model import EventType, Operation, OperationScope
from forewarn.core.notice import (
    ANNOUNCEMENTS,
    LIVE_MIGRATION,
    Announcement,
    Rules,
    check_line,
    whole_second,
)
from tests.core.harness import NOON

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


def test_a_hurry_divides_every_duration() -> None:
    """No duration is forgotten, and no limit is touched."""
    rules = Rules(user_operation_limit=7)
    hurried = rules.hurried(60)
    durations = {key for key, value in msgspec.structs.asdict(rules).items() if isinstance(value, timedelta)}

    assert {key: getattr(hurried, key) for key in durations} == {key: getattr(rules, key) / 60 for key in durations}
    assert hurried.minimum(EventType.TERMINATE, 300) == timedelta(seconds=5)
    assert hurried.user_operation_limit == 7


def test_a_time_is_rounded_up_to_what_is_shown() -> None:
    """A whole second stays; a fraction becomes the next one."""
    assert whole_second(NOON) == NOON
    assert whole_second(NOON + timedelta(microseconds=1)) == NOON + timedelta(seconds=1)


@pytest.mark.parametrize("text", ["two\nlines", "a\tb", "\x7f", "x" * 501])
def test_a_line_is_one_line(text: str) -> None:
    """Control characters and long texts are refused."""
    with pytest.raises(Refused, match="a description is one line"):
        check_line("a description", text)


def test_every_operation_announces_something() -> None:
    """What a command or a driver can ask for has its row, and no row is of anything else."""
    asked = {Operation.of(OperationScope.VM, each) for each in VmOperation}
    asked |= {Operation.of(OperationScope.HOST, each) for each in HostOperation}

    assert set(ANNOUNCEMENTS) == set(Operation)
    assert asked < set(Operation)
