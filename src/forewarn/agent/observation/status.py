"""What the agent tells of itself: to ``forewarn agent status``, to listeners, and to whoever watches its health."""

from datetime import datetime
from enum import StrEnum

import msgspec

from forewarn.agent.handler import Direction
from forewarn.wire.event_json import EventJson


class StepState(StrEnum):
    """How far a handler has come with an event."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    LEFT_OUT = "left-out"
    """It does not fit before NotBefore, or an earlier failure gave the rest up."""
    UNDONE = "undone"


class ApprovalState(StrEnum):
    """How it stands with the agent's approval of an event."""

    NOT_OURS = "not-ours"
    """The event does not concern this VM, or another one approves it."""
    WAITING = "waiting"
    """Handlers are not ready yet, or the VM whose turn it is has more time."""
    HELD = "held"
    """A program on this VM, or a failed handler, holds it."""
    SENT = "sent"
    NEVER = "never"


class StepView(msgspec.Struct, frozen=True, kw_only=True):
    """One handler's part in an event."""

    handler: str
    direction: Direction
    state: StepState
    detail: str = ""
    """What it said, or why it failed or was left out."""
    began_at: datetime | None = None
    ended_at: datetime | None = None
    attempt: int = 0
    """Which call it was; 0 before the first."""


class HoldView(msgspec.Struct, frozen=True, kw_only=True):
    """A program that has not said yet that it is ready."""

    holder: str
    until: datetime


class EventStatusView(msgspec.Struct, frozen=True, kw_only=True):
    """One event, and what the agent does about it."""

    event: EventJson
    concerns_me: bool
    is_gone: bool = False
    """Whether it is over, and only what was done for it is still to be put back."""
    rule: str = ""
    """The rule that fits; empty where none does."""
    steps: tuple[StepView, ...] = ()
    """In the order in which they are run."""
    approval: ApprovalState = ApprovalState.NOT_OURS
    approval_detail: str = ""
    """One sentence for people: who holds it and until when, or whose approval it is."""
    waits_for: tuple[str, ...] = ()
    """For whom the approval waits: handlers, holders, VMs, ``coordinator``, ``endpoint`` or ``NotBefore``."""
    waits_until: datetime | None = None
    """Until when at most, as far as that is known."""
    holds: tuple[HoldView, ...] = ()


class AgentStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The agent at one moment."""

    version: str
    vm: str
    """The name by which events call the VM; empty until it is known."""
    vm_is_guess: bool = False
    """The name was taken from the host name: neither the endpoint nor the setting ``name`` tells it."""
    endpoint: str
    """The address that is asked; empty until it is found."""
    api_version: str = ""
    trouble: str = ""
    """What keeps the endpoint from being heard, also that it has not answered yet; empty when all is well."""
    memory_trouble: str = ""
    """What keeps the agent's memory from being written; empty when all is well."""
    clock_trouble: str = ""
    """How the clocks differ, and which of them counts; empty when they agree."""
    clock_offset: float = 0.0
    """Seconds that are added to this VM's clock, because the endpoint's is ahead by so much; 0 while they agree."""
    dry_run: bool = False
    started_at: datetime
    incarnation: int | None = None
    """That of the document seen last; None before the first."""
    events: tuple[EventStatusView, ...] = ()
    unreadable: int = 0
    """Events of the document that cannot be read; the log names them."""
    ignored: int = 0
    """Events of the document that are not followed, because there are too many."""
    listeners: int = 0

    @property
    def unhealthy_reasons(self) -> tuple[str, ...]:
        """Say what is not well, a sentence each."""
        return tuple(filter(None, (self.trouble, self.memory_trouble)))
