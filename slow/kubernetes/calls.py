"""Calls of the kubernetes handler as the agent makes them."""

import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import msgspec

from forewarn.agent.handler import Direction, HandlerDone, HandlerFailed, HandlerResult, Task
from forewarn.agent.handlers.kubernetes.handler import KubernetesHandler
from forewarn.core.model import EventSource, EventStatus, EventType
from forewarn.wire.document import ScheduledEvent
from slow.kubernetes.cluster import AGENT, NodeUnderTest


def settings_for(of: NodeUnderTest, token: str = AGENT, **more: object) -> dict[str, object]:
    cluster = of.cluster
    access = {
        "server": cluster.url,
        "ca_file": str(cluster.ca_file),
        "token_file": str(cluster.token_file(token)),
    }
    return {"node": of.name, **access, **more}


def handler_for(of: NodeUnderTest, token: str = AGENT, **more: object) -> KubernetesHandler:
    return KubernetesHandler.from_settings(settings_for(of, token, **more), Path("unused"))


def event() -> ScheduledEvent:
    return ScheduledEvent(
        id=str(uuid4()),
        type=EventType.REBOOT,
        status=EventStatus.SCHEDULED,
        resources=("web-0",),
        not_before=datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC),
        description="Host server is undergoing maintenance.",
        source=EventSource.PLATFORM,
    )


def task(direction: Direction, of: ScheduledEvent | None = None, seconds: float = 20, **more: object) -> Task:
    return msgspec.structs.replace(
        Task(
            event=of or event(),
            vm="web-0",
            direction=direction,
            deadline=datetime.now(UTC) + timedelta(seconds=seconds),
            stopping=threading.Event(),
        ),
        **more,
    )


def do(handler: KubernetesHandler, of: ScheduledEvent | None = None, seconds: float = 20) -> HandlerResult:
    return handler.do(task(Direction.DO, of, seconds))


def undo(
    handler: KubernetesHandler, of: ScheduledEvent | None = None, kept: dict[str, str] | None = None
) -> HandlerResult:
    return handler.undo(task(Direction.UNDO, of, kept=kept or {}))


def done(result: HandlerResult) -> HandlerDone:
    assert isinstance(result, HandlerDone), result
    return result


def detail(result: HandlerResult) -> str:
    return done(result).detail


def reason(result: HandlerResult) -> str:
    assert isinstance(result, HandlerFailed), result
    assert "\n" not in result.reason
    return result.reason
