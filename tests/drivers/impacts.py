"""Impacts for the tests of drivers."""

import threading
from datetime import UTC, datetime
from typing import Protocol
from uuid import UUID, uuid5

from forewarn.core.model import Event, EventSource, EventStatus, EventType, Operation, Vm
from forewarn.node.driver import CandidateHost, Impact, ImpactOutcome, ImpactUnderway

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
_NAMES = UUID("9a0c3c4e-0f5c-4c7c-8f3a-1d3d3b2f6a10")


def impact(
    type: EventType = EventType.REBOOT,
    *,
    name: str = "one",
    vms: tuple[str, ...] = ("web-0",),
    duration: int = -1,
    host: str = "h1",
    operation: str = "host freeze",
    candidates: tuple[CandidateHost, ...] = (),
    attempted_at: datetime = NOW,
) -> Impact:
    event = Event(
        id=str(uuid5(_NAMES, name)),
        type=type,
        source=EventSource.PLATFORM,
        group="web",
        resources=vms,
        status=EventStatus.STARTED,
        not_before=NOW,
        announced_at=NOW,
        operation=Operation(operation),
        duration=duration,
        host=host,
    )
    return Impact(event, tuple(Vm(vm, "web", host="h7") for vm in vms), attempted_at, candidates=candidates)


class Performing(Protocol):
    """What has impacts carried out: a driver, or what a driver is made of."""

    def perform(self, impact: Impact) -> ImpactOutcome: ...

    def outcome_of(self, impact: Impact) -> ImpactOutcome: ...


def carried_out(driver: Performing, asked: Impact) -> ImpactOutcome:
    """Have an impact performed and return its end, as the node does."""
    outcome = driver.perform(asked)
    while isinstance(outcome, ImpactUnderway):
        threading.Event().wait(0.01)
        outcome = driver.outcome_of(asked)
    return outcome
