"""What passes between the service and the world around it: all that the promises are checked by."""

import msgspec


class VmExchange(msgspec.Struct, frozen=True):
    """A request of a VM to the metadata service, and the response, if one came."""

    vm: str
    method: str
    target: str
    """Path and query."""
    body: bytes
    sent_at: float
    """Seconds of true time since the beginning."""
    ended_at: float
    status: int
    """0 where no response came."""
    response: bytes
    headers: dict[str, str]
    guest: str = ""
    """The kind of guest that asked."""
    waits: bool = False
    """Whether it asked to wait for a change."""
    tag: str = ""
    """The ETag that it sent; empty where it sent none."""
    as_of: float | None = None
    """The second up to which every node held everything when it was sent; None where there is one service."""
    behind: float = 0.0
    """Seconds by which a node may have been behind when it ended."""


class ControlExchange(msgspec.Struct, frozen=True):
    """A request to the control API, and the response, if one came."""

    who: str
    method: str
    path: str
    body: bytes
    key: str
    """Idempotency key; empty where none was sent."""
    sent_at: float
    ended_at: float
    status: int
    """0 where no response came."""
    response: bytes
    groups: tuple[str, ...] | None = None
    """The groups of the owner who asked; None for an operator."""
    token: str = ""
    """The id of the token that was sent; ``ID before KEY`` where it was sent with the secret that it had before the
    rotation with this key; empty where no token was sent."""
    as_of: float | None = None
    """As with VMs."""

    @property
    def is_trial(self) -> bool:
        """Whether it is a dry run, which changes nothing."""
        return self.path.endswith(("?dry_run=true", "/declaration/plan"))


class MachineOperation(msgspec.Struct, frozen=True):
    """Something done to a machine by the driver."""

    vm: str
    what: str
    """An event type, ``start`` or ``stop``."""
    event: str
    """The id of the event; empty where it is none's."""
    at: float
    host: str = ""
    """Where it goes, or is started."""


class HostCommandRun(msgspec.Struct, frozen=True):
    """A command begins on a host."""

    host: str
    running: tuple[str, ...]
    """The machines that run there."""
    at: float


class MachineState(msgspec.Struct, frozen=True):
    """How a machine stands at the end."""

    vm: str
    host: str
    is_running: bool
    exists: bool
    at: float


class ProcessState(msgspec.Struct, frozen=True):
    """A change of the service's process: starting, serving, failed to start, stopped or killed."""

    state: str
    at: float
    reason: str = ""
    node: str = ""
    """Which node; empty where there is one service."""


class ClockChange(msgspec.Struct, frozen=True):
    """The wall clock of the service was set or began to drift."""

    at: float
    error: float
    """Seconds that it is ahead of the true time now."""
    drift: float


class AgentStep(msgspec.Struct, frozen=True):
    """Something that an agent did: ``prepared`` and ``undone`` (a handler returned), ``approved`` (it sent it)."""

    vm: str
    what: str
    event: str
    at: float


class ReceivedNotification(msgspec.Struct, frozen=True):
    """A notification that its receiver took."""

    subscription: str
    id: str
    type: str
    event: str
    """The id of the event; empty where it is about none."""
    group: str
    revision: int
    at: float


class DiskFault(msgspec.Struct, frozen=True):
    """The disk of the service did not do what it was asked for."""

    what: str
    at: float


Exchange = (
    DiskFault
    | ReceivedNotification
    | VmExchange
    | ControlExchange
    | MachineOperation
    | HostCommandRun
    | MachineState
    | ProcessState
    | ClockChange
    | AgentStep
)
