"""The tables of event types and operations: each is stated once, and a new type takes its row."""

from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from forewarn.core.commands import ChangeFleet, CheckDeadlines, HostOperation, OperateVm, VmOperation
from forewarn.core.decide import enact
from forewarn.core.event_types import (
    ANNOUNCEMENTS,
    DEFAULT_NOTICES,
    EVENT_TYPES,
    LIVE_MIGRATION,
    Announcement,
    EventTypeTraits,
)
from forewarn.core.fleet import Fleet
from forewarn.core.model import (
    NODE,
    EventSource,
    EventStatus,
    EventType,
    GroupKind,
    GroupTerms,
    Operation,
    OperationScope,
    Vm,
)
from forewarn.core.notice import Rules
from forewarn.testing.driver_contract import unknown_type
from forewarn.wire import azure_names
from forewarn.wire.document import render
from forewarn.wire.versions import API_VERSIONS, NEWEST, types_shown
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


def test_a_new_type_takes_no_more_than_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is announced with its notice, takes its turn, starts, and is shown by the api-versions that know it."""
    polish, least = unknown_type("polish"), timedelta(minutes=3)
    announcement = Announcement(polish, EventSource.PLATFORM, "Your VM is polished.", duration=7)
    monkeypatch.setitem(EVENT_TYPES, polish, EventTypeTraits("be polished", least, is_maintenance=True))
    monkeypatch.setitem(ANNOUNCEMENTS, Operation("vm polish"), announcement)
    monkeypatch.setitem(azure_names.TYPES_SHOWN, polish, ("Polish", "2020-07-01"))
    monkeypatch.setitem(azure_names.TYPES, polish, "Polish")
    rules = Rules(notices={**DEFAULT_NOTICES, polish: least})
    fleet = Fleet()
    groups, vms = (GroupTerms("web", GroupKind.AVAILABILITY_SET),), (Vm("web-0", "web"), Vm("web-1", "web"))
    enact(fleet, ChangeFleet(id="0" * 32, by=NODE, groups=groups, vms=vms), NOON, rules)

    for number, vm in enumerate(vms):
        command = OperateVm(id=f"{number}" * 32, by=NODE, operation="polish", vm=vm.name)  # type: ignore[arg-type]
        enact(fleet, command, NOON, rules)
    first, second = fleet.events_of("web")
    enact(fleet, CheckDeadlines(id="9" * 32, by=NODE, events=(first.id, second.id)), NOON + least, rules)

    assert (first.type, first.not_before, first.duration) == (polish, NOON + least, 7)
    assert [event.status for event in fleet.events_of("web")] == [EventStatus.STARTED, EventStatus.STARTED]
    newest = replace(NEWEST, types=types_shown(NEWEST.name))
    assert b'"EventType":"Polish"' in render([first], 1, newest, GroupKind.AVAILABILITY_SET)
    assert b"Polish" not in render([first], 1, API_VERSIONS[-2], GroupKind.AVAILABILITY_SET)
