"""The agent's status records, as ``forewarn agent status``, the local socket and the HTTP server return them."""

from datetime import datetime
from enum import StrEnum

import msgspec

from forewarn.agent.handler import Direction
from forewarn.wire.event_json import EventJson


class StepState(StrEnum):
    """State of a handler for an event."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    LEFT_OUT = "left-out"
    """It does not fit before NotBefore, or a failed handler has on_failure = give-up."""
    UNDONE = "undone"


class ApprovalState(StrEnum):
    """State of the agent's approval of an event."""

    NOT_OURS = "not-ours"
    """The event does not affect this VM, or no rule matches it."""
    WAITING = "waiting"
    """Handlers are not ready yet, or another VM approves first."""
    HELD = "held"
    """A program on this VM, or a failed handler, holds it."""
    SENT = "sent"
    NEVER = "never"


class StepView(msgspec.Struct, frozen=True, kw_only=True):
    """State of one handler for one event."""

    handler: str
    direction: Direction
    state: StepState
    detail: str = ""
    """Its detail, or why it failed or was left out."""
    began_at: datetime | None = None
    ended_at: datetime | None = None
    attempt: int = 0
    """Number of the call; 0 before the first."""


class HoldView(msgspec.Struct, frozen=True, kw_only=True):
    """A hold of a program that is not ready yet."""

    holder: str
    until: datetime


class EventStatusView(msgspec.Struct, frozen=True, kw_only=True):
    """State of one event in the agent."""

    event: EventJson
    concerns_me: bool
    is_gone: bool = False
    """Whether it is over and only undo calls remain."""
    rule: str = ""
    """The rule that matches; empty if none does."""
    steps: tuple[StepView, ...] = ()
    """In the order of the calls."""
    approval: ApprovalState = ApprovalState.NOT_OURS
    approval_detail: str = ""
    """One sentence: what the approval waits for, and until when."""
    waits_for: tuple[str, ...] = ()
    """What the approval waits for: handlers, holders, VMs, ``coordinator``, ``endpoint`` or ``NotBefore``."""
    waits_until: datetime | None = None
    """The latest end of the wait, if known."""
    holds: tuple[HoldView, ...] = ()


class AgentStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The agent at one moment."""

    version: str
    vm: str
    """The VM's name in Resources; empty until it is known."""
    vm_is_guess: bool = False
    """Whether the name is the host name, because neither the endpoint nor the setting ``name`` provides it."""
    endpoint: str
    """URL of the endpoint; empty until it is found."""
    api_version: str = ""
    trouble: str = ""
    """Why the endpoint cannot be read, or that it has not answered yet; empty if there is no problem."""
    memory_trouble: str = ""
    """Why the memory file cannot be written; empty if there is no problem."""
    clock_trouble: str = ""
    """How the clocks differ, and which of them is used; empty if they agree."""
    clock_offset: float = 0.0
    """Seconds by which the endpoint's clock is ahead, added to this VM's clock; 0 while they agree."""
    dry_run: bool = False
    started_at: datetime
    incarnation: int | None = None
    """Incarnation of the latest document; None before the first."""
    events: tuple[EventStatusView, ...] = ()
    unreadable: int = 0
    """Events of the document that cannot be read; the log names them."""
    ignored: int = 0
    """Events of the document that are not followed, because there are too many."""
    listeners: int = 0

    @property
    def unhealthy_reasons(self) -> tuple[str, ...]:
        """One sentence for each problem."""
        return tuple(filter(None, (self.trouble, self.memory_trouble)))
