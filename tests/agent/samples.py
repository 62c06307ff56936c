"""Events and statuses as the agent's tests use them."""

from datetime import UTC, datetime, timedelta

from forewarn.agent.handler import Direction
from forewarn.agent.observation.status import (
    AgentStatus,
    ApprovalState,
    EventStatusView,
    HoldView,
    StepState,
    StepView,
)
from forewarn.core.model import EventSource, EventStatus, EventType
from forewarn.wire.document import ScheduledEvent
from forewarn.wire.event_json import make_event_json

NOW = datetime(2026, 3, 5, 6, 53, 9, tzinfo=UTC)
REBOOT = ScheduledEvent(
    id="f020ba2e-3bc0-4c40-a10b-86575a9eabd5",
    type=EventType.REBOOT,
    status=EventStatus.SCHEDULED,
    resources=("web-0",),
    not_before=NOW + timedelta(minutes=15),
    source=EventSource.PLATFORM,
)
SHOWN_ID = "F020BA2E-3BC0-4C40-A10B-86575A9EABD5"


def view(event: ScheduledEvent = REBOOT, approval: ApprovalState = ApprovalState.WAITING) -> EventStatusView:
    return EventStatusView(
        event=make_event_json(event),
        concerns_me="web-0" in event.resources,
        rule="reboots",
        steps=(StepView(handler="lb", direction=Direction.DO, state=StepState.RUNNING, began_at=NOW, attempt=1),),
        approval=approval,
        holds=(HoldView(holder="database", until=NOW + timedelta(minutes=2)),),
    )


def status(*events: EventStatusView, trouble: str = "", memory_trouble: str = "", listeners: int = 0) -> AgentStatus:
    return AgentStatus(
        version="1.2.3",
        vm="web-0",
        endpoint="http://169.254.169.254",
        api_version="2020-07-01",
        trouble=trouble,
        memory_trouble=memory_trouble,
        started_at=NOW,
        events=events,
        listeners=listeners,
    )
