"""The handler interface: the plugin that prepares one application for an event and restores it afterwards.

    the event is announced          the event is gone
          │                               │
         do ──▶ HandlerDone(kept) ···▶ undo(kept)
          └───▶ HandlerFailed: retried as configured

The agent stores the beginning of a call before the call, and its result before it acts on the result. After a call
with unknown effect (the agent crashed, the call did not return by its deadline, or a damaged memory does not show
whether it was made) a handler that ``repeats`` is called again; any other is first asked for the ``outcome_of`` the
call.
"""

from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Protocol

import msgspec

from forewarn.wire.document import ScheduledEvent


class Direction(StrEnum):
    """Whether a call prepares for the event (do) or restores afterwards (undo)."""

    DO = "do"
    UNDO = "undo"


class Stopping(Protocol):
    """Signals that a call is to stop; a ``threading.Event`` satisfies it."""

    def is_set(self) -> bool: ...

    def wait(self, timeout: float | None = None) -> bool: ...


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a handler."""

    event: ScheduledEvent
    vm: str
    """The name of the agent's own VM in the Resources of events."""
    direction: Direction
    deadline: datetime
    """When the call must have returned, by this VM's own clock. For ``do`` it is never later than the event's
    NotBefore, though the two may differ by the offset of the endpoint's clock."""
    stopping: Stopping
    """Set when the call is to stop: its deadline has passed, its event is gone or was moved, or the agent stops.
    A handler that waits must stop waiting then. A result returned within a second still counts."""
    kept: dict[str, str] = {}
    """For ``undo``: ``HandlerDone.kept`` of ``do``; empty if ``do`` was interrupted."""
    attempt: int = 1


class HandlerDone(msgspec.Struct, frozen=True, tag="done"):
    """The call succeeded."""

    kept: dict[str, str] = {}
    """Data for ``undo``; it survives a reboot."""
    detail: str = ""
    """One line for log and status."""


class HandlerFailed(msgspec.Struct, frozen=True, tag="failed"):
    """The call failed."""

    reason: str
    """One sentence that names the cause."""
    final: bool = False
    """Whether the call must not be retried."""


class HandlerNotBegun(msgspec.Struct, frozen=True, tag="not-begun"):
    """The call had no effect, so that it can be made again."""


class HandlerUnknown(msgspec.Struct, frozen=True, tag="unknowable"):
    """The effect of the call is unknown; it counts as failed and is not repeated."""

    reason: str = ""


HandlerResult = HandlerDone | HandlerFailed
HandlerOutcome = HandlerDone | HandlerFailed | HandlerNotBegun | HandlerUnknown


class Handler(Protocol):
    """Prepares an application and restores it. The agent calls it in threads, one call at a time.

    A class may also set ``prepares = False``: it only notifies, and by default its failure does not hold the
    approval. Without the attribute, or with True, a failure holds it.
    """

    repeats: bool
    """Whether ``do`` and ``undo`` may be called again after a call with unknown effect."""
    shared: bool
    """Whether the effect of ``do`` holds for all events at once, such as a drained server: ``do`` is then called for
    the first of several events, and ``undo`` after the last."""

    def do(self, task: Task) -> HandlerResult:
        """Prepare for the event; return before the deadline. An exception counts as ``HandlerFailed``."""

    def undo(self, task: Task) -> HandlerResult:
        """Restore what ``do`` changed, and nothing else; also after a ``do`` that failed or was interrupted.

        Return ``HandlerDone`` also if there is nothing to undo.
        """

    def outcome_of(self, task: Task) -> HandlerOutcome:
        """Return the outcome of a call with unknown effect; change nothing. Called only if ``repeats`` is False."""

    def close(self) -> None:
        """Release all resources."""


class HandlerType(Protocol):
    """The object that an entry point of the group ``forewarn.handlers`` names: a class of handlers."""

    def from_settings(self, settings: dict[str, object], directory: Path) -> Handler:
        """Make a handler from its table [handlers.NAME]; raise BadInput with the wrong setting and the remedy.

        This must not touch files or open connections: a configuration can be checked on any machine. The handler may
        create ``directory`` later, and store there what must survive a restart.
        """
