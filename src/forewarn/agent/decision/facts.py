"""What the agent has seen and done, as its memory keeps it: one record per thing that happened."""

from datetime import datetime

import msgspec

from forewarn.agent.handler import Direction, HandlerDone, HandlerFailed
from forewarn.wire.document import Document


class DocumentShown(msgspec.Struct, frozen=True, tag="shown"):
    """The endpoint showed another document."""

    document: Document
    at: datetime
    boot: str = ""
    """Which boot of the VM it was; empty where the system does not tell."""


class CallBegun(msgspec.Struct, frozen=True, tag="begun"):
    """A handler is about to be called."""

    event: str
    handler: str
    direction: Direction
    attempt: int
    at: datetime


class CallEnded(msgspec.Struct, frozen=True, tag="ended"):
    """A handler has returned, or the agent knows otherwise what came of the call."""

    event: str
    handler: str
    direction: Direction
    result: HandlerDone | HandlerFailed
    at: datetime


class CallWithdrawn(msgspec.Struct, frozen=True, tag="withdrawn"):
    """A call that was thought to have begun had not."""

    event: str
    handler: str
    direction: Direction


class HandlerSkipped(msgspec.Struct, frozen=True, tag="left-out"):
    """A handler will not be run for an event."""

    event: str
    handler: str
    reason: str
    at: datetime


class CallShared(msgspec.Struct, frozen=True, tag="joined"):
    """What a shared handler did for one event holds for another one too."""

    event: str
    handler: str
    of: str
    at: datetime


class HoldPlaced(msgspec.Struct, frozen=True, tag="held"):
    """A listener wants an event not to be approved before it says so, or before that time."""

    event: str
    holder: str
    until: datetime


class HoldReleased(msgspec.Struct, frozen=True, tag="released"):
    """A listener is ready."""

    event: str
    holder: str


class CoordinatorConsulted(msgspec.Struct, frozen=True, tag="consulted"):
    """The coordinator was asked whether an event may begin."""

    event: str
    agreed: bool
    at: datetime
    detail: str = ""


class ApprovalGiven(msgspec.Struct, frozen=True, tag="approved"):
    """The endpoint took the agent's approval."""

    event: str
    at: datetime


class ApprovalFailed(msgspec.Struct, frozen=True, tag="not-approved"):
    """The endpoint did not take the agent's approval, or was not reached."""

    event: str
    attempt: int
    at: datetime
    reason: str
    refused: bool = False
    """Whether the endpoint answered and said no."""


class EventForgotten(msgspec.Struct, frozen=True, tag="forgotten"):
    """An event is gone, and everything is put back that could be."""

    event: str
    undone: tuple[str, ...] = ()
    """The handlers that have put back what they had done."""
    not_undone: tuple[str, ...] = ()
    """The handlers that could not put back what they had done."""


AgentFact = (
    DocumentShown
    | CallBegun
    | CallEnded
    | CallWithdrawn
    | HandlerSkipped
    | CallShared
    | HoldPlaced
    | HoldReleased
    | CoordinatorConsulted
    | ApprovalGiven
    | ApprovalFailed
    | EventForgotten
)
