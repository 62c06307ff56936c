"""Events that show every type, and a maker of others."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from forewarn.core.model import Event, EventSource, EventStatus, EventType, Operation

GOLDEN = Path(__file__).parent / "golden"


def golden(name: str) -> bytes:
    return (GOLDEN / f"{name}.json").read_bytes()


def event(**given: Any) -> Event:
    """Make an event of which only what is given matters."""
    usual: dict[str, Any] = {
        "id": "f020ba2e-3bc0-4c40-a10b-86575a9eabd5",
        "type": EventType.FREEZE,
        "source": EventSource.PLATFORM,
        "group": "web",
        "resources": ("web-0",),
        "status": EventStatus.SCHEDULED,
        "not_before": datetime(2026, 3, 5, 7, 8, 9, tzinfo=UTC),
        "announced_at": datetime(2026, 3, 5, 6, 53, 9, tzinfo=UTC),
        "operation": Operation.VM_FREEZE,
    }
    return Event(**usual | given)


EVERY_TYPE = (
    event(
        resources=("web-0", "web-1"),
        description="Virtual machine is being paused because of a memory-preserving Live Migration operation.",
        duration=5,
    ),
    event(
        id="ca9c0dc4-e841-476d-94d5-9fc2ff983bcd",
        type=EventType.REBOOT,
        source=EventSource.USER,
        status=EventStatus.STARTED,
        resources=("db-0",),
        description="Virtual machine is going to be restarted as requested by authorized user.",
    ),
    event(
        id="0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9",
        type=EventType.REDEPLOY,
        resources=("web-2",),
        not_before=datetime(2027, 1, 1, tzinfo=UTC),
        description='Rack "Süd\\7" fällt aus: 停電',
    ),
    event(
        id="a123bc45-1234-5678-ab90-abcdef123456",
        type=EventType.PREEMPT,
        resources=("spot-0",),
        not_before=datetime(2028, 2, 29, 23, 59, 59, tzinfo=UTC),
    ),
    event(
        id="c37355db-2c23-4195-90ca-1a712a85650c",
        type=EventType.TERMINATE,
        source=EventSource.USER,
        resources=("set_3",),
        not_before=datetime(2026, 4, 12, 12, 30, tzinfo=UTC),
    ),
)
