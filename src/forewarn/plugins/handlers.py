"""What a handler is written with; its class is an entry point of the group ``forewarn.handlers``."""

from forewarn.agent.handler import (
    Direction,
    Handler,
    HandlerDone,
    HandlerFailed,
    HandlerNotBegun,
    HandlerOutcome,
    HandlerResult,
    HandlerType,
    HandlerUnknown,
    Stopping,
    Task,
)
from forewarn.config.tables import read_table
from forewarn.core.errors import BadInput
from forewarn.core.model import EventSource, EventStatus, EventType
from forewarn.files import private_directory, sync_directory, write_atomically
from forewarn.wire.document import ScheduledEvent

__all__ = [
    "BadInput",
    "Direction",
    "EventSource",
    "EventStatus",
    "EventType",
    "Handler",
    "HandlerDone",
    "HandlerFailed",
    "HandlerNotBegun",
    "HandlerOutcome",
    "HandlerResult",
    "HandlerType",
    "HandlerUnknown",
    "ScheduledEvent",
    "Stopping",
    "Task",
    "private_directory",
    "read_table",
    "sync_directory",
    "write_atomically",
]
