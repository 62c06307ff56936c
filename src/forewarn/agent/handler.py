"""What the agent asks of a handler, the part that gets an application ready and puts it back.

    the event is told               the event is gone
          │                               │
         do ──▶ Done(kept) ··········▶ undo(kept)
          └───▶ Failed: tried again as the configuration says

That a call begins is durable before it is made, and what came of it before anything follows from it. After a crash
in between, a handler that ``repeats`` is simply called again; any other is first asked for the ``outcome_of`` it.
"""

from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Protocol

import msgspec

from forewarn.wire.document import ScheduledEvent


class Direction(StrEnum):
    """Whether a handler gets ready, or puts back."""

    DO = "do"
    UNDO = "undo"


class Stopping(Protocol):
    """Says that a call is no longer wanted; a ``threading.Event`` is one."""

    def is_set(self) -> bool: ...

    def wait(self, timeout: float | None = None) -> bool: ...


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a handler."""

    event: ScheduledEvent
    vm: str
    """The name by which events call the VM that the agent runs in."""
    direction: Direction
    deadline: datetime
    """When the call must have returned, by this VM's own clock. It is never later than the event's NotBefore when
    getting ready, though the two may differ by the offset of the endpoint's clock."""
    stopping: Stopping
    """Set when the call is no longer wanted, because its time is over, its event is gone or was moved, or the agent
    stops: a handler that waits gives up waiting then. What it says within a second still counts."""
    kept: dict[str, str] = {}
    """For ``undo``: what ``do`` said was to be kept, and empty if ``do`` was cut off."""
    attempt: int = 1


class HandlerDone(msgspec.Struct, frozen=True, tag="done"):
    """The handler did what it is for."""

    kept: dict[str, str] = {}
    """What undo needs to know; it survives the reboot."""
    detail: str = ""
    """One line for people."""


class HandlerFailed(msgspec.Struct, frozen=True, tag="failed"):
    """The handler could not do it."""

    reason: str
    """One sentence that names what was in the way."""
    final: bool = False
    """Whether trying again is pointless."""


class HandlerNotBegun(msgspec.Struct, frozen=True, tag="not-begun"):
    """Nothing was done, so that calling it now repeats nothing."""


class HandlerUnknown(msgspec.Struct, frozen=True, tag="unknowable"):
    """Nobody can tell what was done; it counts as failed, and is not repeated."""

    reason: str = ""


HandlerResult = HandlerDone | HandlerFailed
HandlerOutcome = HandlerDone | HandlerFailed | HandlerNotBegun | HandlerUnknown


class Handler(Protocol):
    """Gets an application ready, and puts it back. Called in threads of the agent, one call at a time.

    A class may also say ``prepares = False``: it only tells others, so that by default its failure does not hold the
    approval. Without that, or with True, it does.
    """

    repeats: bool
    """Whether ``do`` and ``undo`` may be called again when nobody knows how far an earlier call came."""
    shared: bool
    """Whether ``do`` makes a state that holds for all events at once, such as a drained server: it is then done for
    the first of several events, and undone after the last."""

    def do(self, task: Task) -> HandlerResult:
        """Get ready; return before the deadline. An exception counts as ``HandlerFailed`` with its text."""

    def undo(self, task: Task) -> HandlerResult:
        """Put back what ``do`` changed, and nothing else; also after a ``do`` that failed or was cut off.

        Undoing what was never done, or is undone already, is ``HandlerDone``.
        """

    def outcome_of(self, task: Task) -> HandlerOutcome:
        """Tell what came of a call that was cut off; change nothing. Asked only of handlers that do not repeat."""

    def close(self) -> None:
        """Let go of everything held."""


class HandlerType(Protocol):
    """What an entry point of the group ``forewarn.handlers`` names: a class that makes handlers."""

    def from_settings(self, settings: dict[str, object], directory: Path) -> Handler:
        """Make a handler from its table [handlers.NAME]; ``BadInput`` names the wrong setting and the remedy.

        Nothing is touched or connected to yet: a configuration can be checked anywhere. In ``directory``, which the
        handler makes when it needs it, it may keep what must survive a restart.
        """
