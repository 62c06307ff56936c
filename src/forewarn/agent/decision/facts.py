"""The agent's facts: the records of which its memory file consists."""

from datetime import datetime

import msgspec

from forewarn.agent.handler import Direction, HandlerDone, HandlerFailed
from forewarn.wire.document import Document


class DocumentShown(msgspec.Struct, frozen=True, tag="shown"):
    """The endpoint returned a changed document."""

    document: Document
    at: datetime
    boot: str = ""
    """The boot id of the VM; empty where the system has none."""


class CallBegun(msgspec.Struct, frozen=True, tag="begun"):
    """A handler is about to be called."""

    event: str
    handler: str
    direction: Direction
    attempt: int
    at: datetime


class CallEnded(msgspec.Struct, frozen=True, tag="ended", omit_defaults=True):
    """A handler has returned, or the result of the call is known in another way."""

    event: str
    handler: str
    direction: Direction
    result: HandlerDone | HandlerFailed
    at: datetime
    is_given_up: bool = False
    """Whether the call did not return by its deadline, so that its effect is unknown."""


class CallWithdrawn(msgspec.Struct, frozen=True, tag="withdrawn"):
    """A call recorded as begun or given up had no effect, or its effect no longer holds."""

    event: str
    handler: str
    direction: Direction


class UndoDue(msgspec.Struct, frozen=True, tag="undo-due"):
    """The undo of a shared handler waits only for that of another event: no event may rely on ``do`` any more."""

    event: str
    handler: str


class HandlerSkipped(msgspec.Struct, frozen=True, tag="left-out"):
    """A handler will not be run for an event."""

    event: str
    handler: str
    reason: str
    at: datetime


class CallShared(msgspec.Struct, frozen=True, tag="joined"):
    """The effect of a shared handler for one event also holds for another event."""

    event: str
    handler: str
    of: str
    at: datetime


class HoldPlaced(msgspec.Struct, frozen=True, tag="held"):
    """A program holds the approval of an event until it is ready, at most until that time."""

    event: str
    holder: str
    until: datetime


class HoldReleased(msgspec.Struct, frozen=True, tag="released"):
    """A program is ready."""

    event: str
    holder: str


class CoordinatorConsulted(msgspec.Struct, frozen=True, tag="consulted"):
    """The coordinator was asked whether the event may be approved."""

    event: str
    agreed: bool
    at: datetime
    detail: str = ""


class ApprovalGiven(msgspec.Struct, frozen=True, tag="approved"):
    """The endpoint accepted the agent's approval."""

    event: str
    at: datetime


class ApprovalFailed(msgspec.Struct, frozen=True, tag="not-approved"):
    """The endpoint refused the agent's approval, or was unreachable."""

    event: str
    attempt: int
    at: datetime
    reason: str
    refused: bool = False
    """Whether the endpoint answered with a refusal."""


class EventForgotten(msgspec.Struct, frozen=True, tag="forgotten"):
    """An event is gone, and all possible undo calls have ended."""

    event: str
    undone: tuple[str, ...] = ()
    """The handlers with a successful undo."""
    not_undone: tuple[str, ...] = ()
    """The handlers with a failed undo."""


AgentFact = (
    DocumentShown
    | CallBegun
    | CallEnded
    | CallWithdrawn
    | UndoDue
    | HandlerSkipped
    | CallShared
    | HoldPlaced
    | HoldReleased
    | CoordinatorConsulted
    | ApprovalGiven
    | ApprovalFailed
    | EventForgotten
)
