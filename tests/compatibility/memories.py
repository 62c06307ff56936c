"""Files of the agent's memory in which every fact of the agent occurs."""

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from forewarn.agent.decision.facts import (
    AgentFact,
    ApprovalFailed,
    ApprovalGiven,
    CallBegun,
    CallEnded,
    CallShared,
    CallWithdrawn,
    CoordinatorConsulted,
    DocumentShown,
    EventForgotten,
    HandlerSkipped,
    HoldPlaced,
    HoldReleased,
)
from forewarn.agent.handler import Direction, HandlerDone, HandlerFailed
from forewarn.agent.runtime.memory_file import MemoryFile
from forewarn.wire import document

NAMES = ("memory-young", "memory", "memory-torn", "memory-damaged")
"""The files: before and after a restart of the agent, one whose last line was cut off, one damaged within."""

_AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
_FIRST = "f020ba2e-3bc0-4c40-a10b-86575a9eabd5"
_SECOND = "602d9444-d2cd-49c7-8624-8643e7171297"
_THIRD = "a1e5d1c2-0000-4000-8000-000000000003"
_FOURTH = "a1e5d1c2-0000-4000-8000-000000000004"
_FIFTH = "a1e5d1c2-0000-4000-8000-000000000005"


def write(directory: Path) -> dict[str, Any]:
    """Write the files; return what they hold."""
    directory.mkdir()
    path = directory / "memory"
    earlier, later = _facts()
    for facts in (earlier, later):
        if path.exists():
            shutil.copyfile(path, directory / "memory-young")
        file = MemoryFile(path)
        file.open()  # the second time the file begins with what is known so far
        for fact in facts:
            file.append([fact])
        file.close()
    whole = path.read_bytes()
    (directory / "memory-torn").write_bytes(whole[:-20])
    lines = whole.splitlines(keepends=True)
    lines[3] = lines[3].replace(b"2026", b"2025", 1)
    (directory / "memory-damaged").write_bytes(b"".join(lines))
    with TemporaryDirectory() as place:  # to open a file begins it anew
        copies = shutil.copytree(directory, Path(place) / "agent")
        return {name: read(copies / name) for name in NAMES}


def read(path: Path) -> dict[str, Any]:
    """Open a file as the agent does; return what it holds."""
    file = MemoryFile(path)
    file.open()
    file.close()
    return {
        "memory": msgspec.to_builtins(file.memory),
        "is_torn": bool(file.torn),
        "is_damaged": bool(file.damage),
    }


def _facts() -> tuple[tuple[AgentFact, ...], tuple[AgentFact, ...]]:
    """Return what happened before and after a restart of the agent."""
    hour = _AT + timedelta(hours=1)
    first = _document(
        7, _event(_FIRST, "Reboot"), _event(_SECOND, "Freeze", "web-0", "web-1"), _event(_THIRD, "Wombat")
    )
    second = _document(8, _event(_SECOND, "Freeze", "web-0", "web-1", status="Started"), _event(_FOURTH, "Redeploy"))
    third = _document(9, _event(_FOURTH, "Redeploy"), _event(_FIFTH, "Terminate"))
    do, undo = Direction.DO, Direction.UNDO
    earlier: tuple[AgentFact, ...] = (
        DocumentShown(first, _AT, "3f6c"),
        CallBegun(_FIRST, "drain", do, 1, _AT),
        CallEnded(_FIRST, "drain", do, HandlerDone({"was": "réady"}, "drained"), _AT + timedelta(seconds=3)),
        CallBegun(_FIRST, "cordon", do, 1, _AT),
        CallEnded(_FIRST, "cordon", do, HandlerFailed("no answer", final=False), _AT + timedelta(seconds=9)),
        CallBegun(_FIRST, "cordon", do, 2, _AT + timedelta(seconds=10)),
        CallWithdrawn(_FIRST, "cordon", do),
        HandlerSkipped(_FIRST, "cordon", "it does not fit before NotBefore", _AT + timedelta(seconds=11)),
        CallShared(_SECOND, "drain", _FIRST, _AT + timedelta(seconds=12)),
        HoldPlaced(_FIRST, "database", hour),
        HoldPlaced(_SECOND, "database", hour),
        HoldReleased(_FIRST, "database"),
        CoordinatorConsulted(_FIRST, False, _AT + timedelta(seconds=13), "another VM is away"),
        CoordinatorConsulted(_FIRST, True, _AT + timedelta(seconds=23)),
        ApprovalFailed(_FIRST, 1, _AT + timedelta(seconds=24), "connection refused"),
        ApprovalFailed(_SECOND, 1, _AT + timedelta(seconds=25), "404: no such event", refused=True),
        ApprovalGiven(_FIRST, _AT + timedelta(seconds=26)),
    )
    later: tuple[AgentFact, ...] = (
        DocumentShown(second, hour, "77aa"),
        CallBegun(_FIRST, "drain", undo, 1, hour),
        CallEnded(_FIRST, "drain", undo, HandlerDone(), hour + timedelta(seconds=2)),
        EventForgotten(_FIRST, ("drain",), ("cordon",)),
        EventForgotten(_THIRD),
        CallBegun(_FOURTH, "drain", do, 1, hour + timedelta(seconds=3)),
        DocumentShown(third, hour + timedelta(seconds=4)),
        CallEnded(_SECOND, "drain", undo, HandlerFailed("gone", final=True), hour + timedelta(seconds=5)),
        HoldPlaced(_FIFTH, "backup", hour + timedelta(minutes=5)),
        CallBegun(_FIFTH, "drain", do, 1, hour + timedelta(seconds=6)),
    )
    return earlier, later


def _document(incarnation: int, *events: dict[str, Any]) -> document.Document:
    return document.parse(
        msgspec.json.encode({"DocumentIncarnation": incarnation, "Events": [*events, {"EventId": 5}]})
    )


def _event(id: str, type: str, *resources: str, status: str = "Scheduled") -> dict[str, Any]:
    return {
        "EventId": id.upper(),
        "EventStatus": status,
        "EventType": type,
        "ResourceType": "VirtualMachine",
        "Resources": resources or ("web-0",),
        "NotBefore": "" if status == "Started" else "Sun, 01 Mar 2026 12:15:00 GMT",
        "Description": "Host server is undergoing maintenance.",
        "EventSource": "Platform",
        "DurationInSeconds": 9,
    }
