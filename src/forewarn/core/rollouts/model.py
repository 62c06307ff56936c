"""The records of rollouts: what an operator asked for, how far it is, and how each host stands.

    waiting --wave--> asking --yes--> planning --> announced --> command --> settling --> done
                        |               |            |             |
                        +--no--> skipped  +-----------+-------------+--> failed

A step that an operation does not need is left out: a reboot goes from waiting to announced. A waiting host has no
record. ``retry`` and ``pause --withdraw`` put hosts back to waiting.
"""

from datetime import datetime
from enum import StrEnum

import msgspec


class RolloutOperation(StrEnum):
    """What a rollout does to each host."""

    FREEZE = "freeze"
    REBOOT = "reboot"
    REDEPLOY = "redeploy"
    DRAIN = "drain"
    """The host stays cordoned."""
    COMMAND = "command"
    """The host is drained, the driver runs a command on it, and it is uncordoned."""

    @property
    def drains(self) -> bool:
        """Whether VMs are moved to planned hosts first."""
        return self in (RolloutOperation.DRAIN, RolloutOperation.COMMAND)


class RolloutOrder(StrEnum):
    """Which hosts come first; ties go by name."""

    NAME = "name"
    FEWEST_VMS = "fewest-vms"
    FAULT_DOMAIN = "fault-domain"
    LABEL = "label"
    """By the value of ``order_label``."""


class FailurePolicy(StrEnum):
    """What more failed hosts than are tolerated lead to."""

    PAUSE = "pause"
    SKIP = "skip"
    """Go on with the other hosts, however many fail."""
    STOP = "stop"


class WindowClose(StrEnum):
    """What becomes of Scheduled events when a maintenance window closes."""

    POSTPONE = "postpone"
    WITHDRAW = "withdraw"


class ConflictPolicy(StrEnum):
    """What a rollout does that shares a host with another one."""

    REFUSE = "refuse"
    QUEUE = "queue"


class RolloutState(StrEnum):
    """Where a rollout stands. Finished ones leave the fleet."""

    QUEUED = "queued"
    """It waits until another rollout with some of its hosts has ended."""
    RUNNING = "running"
    PAUSED = "paused"
    STOPPING = "stopping"
    """It announces nothing more, and ends when its Started events have ended."""
    RESTING = "resting"
    """It recurs, and waits for its next run."""


class RolloutResult(StrEnum):
    """How a rollout ended."""

    COMPLETED = "completed"
    CANCELED = "canceled"
    STOPPED = "stopped"
    """Too many hosts failed."""


class HostStep(StrEnum):
    """Where a host stands in its rollout; one that has no record waits."""

    WAITING = "waiting"
    ASKING = "asking"
    """The driver asks the host whether it wants the operation."""
    PLANNING = "planning"
    """It is decided where its VMs go."""
    ANNOUNCED = "announced"
    COMMAND = "command"
    """The driver runs a command on the host."""
    SETTLING = "settling"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"


HOST_ENDS = frozenset({HostStep.DONE, HostStep.FAILED, HostStep.SKIPPED})
"""The steps with which a host's part in a rollout ends."""


class HealthGate(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What must be well before a wave begins: a program, a URL, or a Prometheus query. Exactly one is given."""

    command: str = ""
    """A program in the service's directory of gates; exit status 0 is well."""
    url: str = ""
    """An address that answers with a status from 200 to 299 while all is well."""
    query: str = ""
    """A Prometheus query with one number as its result; ``threshold`` says which numbers are well."""
    threshold: str = ""
    """A comparison and a number: ``<0.01``."""
    timeout: int = 30
    """Seconds."""


class RolloutTerms(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """What an operator asks for. Durations are whole seconds; 0 is none."""

    operation: RolloutOperation
    hosts: tuple[str, ...] = ()
    """Names and patterns such as ``rack1-*``."""
    selector: str = ""
    """A label selector; with ``hosts``, both must match."""
    all_hosts: bool = False
    command: str = ""
    """What the driver runs on each host, for the operation ``command``."""
    command_timeout: int = 1800
    parallel: int = 1
    """Hosts in one wave."""
    parallel_per: dict[str, int] = {}
    """Hosts in one wave with the same value of a label, or of ``fault-domain``."""
    fleet_share: float = 1.0
    """The largest share of all hosts that may be unavailable at once."""
    group_share: float = 1.0
    """The largest share of a group's running VMs that may be on hosts of waves at once."""
    order: RolloutOrder = RolloutOrder.NAME
    order_label: str = ""
    canary: int = 0
    """So many hosts go first, in waves of their own."""
    canary_hosts: tuple[str, ...] = ()
    """These hosts go first."""
    canary_settle: int = 0
    settle: int = 0
    """How long a host is left alone after its operation, before it counts as done."""
    gate: HealthGate | None = None
    prometheus: str = ""
    """The address of the Prometheus server for queries and alerts."""
    alerts: tuple[str, ...] = ()
    """No wave begins while one of these alerts fires."""
    windows: tuple[str, ...] = ()
    """Maintenance windows, written like quiet hours; none is always."""
    at_close: WindowClose = WindowClose.POSTPONE
    lead: int = 0
    """How long before a window its first hosts are announced; at least the notice."""
    expected: int = 0
    """How long one host is expected to take, once its events may start; 0: as recorded for such operations."""
    host_limit: int = 0
    """After so long a host has failed."""
    opt_out: str = ""
    """Hosts with this label are skipped."""
    asks: str = ""
    """A command that the driver runs on a host; exit status 0 means that it wants the operation."""
    every: int = 0
    """It begins again after so long."""
    on_failure: FailurePolicy = FailurePolicy.PAUSE
    max_failures: int = 0
    """Failed hosts that are tolerated."""
    on_conflict: ConflictPolicy = ConflictPolicy.REFUSE
    description: str = ""
    """What VMs read."""


class RecordedLength(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """How many seconds one host took in earlier rollouts, once its events might start; 0 is unknown."""

    host: float = 0.0
    command: float = 0.0
    """What of this the command on a host took."""


class RolloutPrediction(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """When a rollout is expected to end: most likely, and the range that most such rollouts end in."""

    made_at: datetime
    waves: int
    finish: datetime
    earliest: datetime
    latest: datetime


class Rollout(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """A rollout that has not ended."""

    name: str
    id: str
    """The id of the command that started it."""
    by: str
    """Who started it."""
    terms: RolloutTerms
    hosts: tuple[str, ...]
    """In the order in which they begin; canaries first."""
    canaries: int = 0
    """How many of the first hosts are canaries."""
    started_at: datetime
    state: RolloutState = RolloutState.RUNNING
    reason: str = ""
    """Why it is paused, queued or stopping."""
    blocked: str = ""
    """What keeps the next wave from beginning; empty while nothing does."""
    blocked_until: datetime | None = None
    wave: int = 0
    """The number of the last wave that began."""
    checked: int = 0
    """The last wave whose gate and alerts were found well."""
    check_after: datetime | None = None
    """When alerts that fired are looked at again."""
    check_detail: str = ""
    """What the last gate or query said."""
    active: tuple[str, ...] = ()
    """The hosts of the wave that have not ended."""
    position: int = 0
    """All hosts before this place have begun."""
    done: int = 0
    failed: int = 0
    skipped: int = 0
    forgiven: int = 0
    """How many failures an operator has seen, and resumed after."""
    completed: dict[str, tuple[str, ...]] = {}
    """Of hosts that wait again: the VMs to which the operation was done already."""
    fleet_windows: tuple[str, ...] = ()
    """The maintenance windows of the whole fleet, from the settings."""
    lasts: float = 0.0
    """Seconds that one host is expected to take, once its events may start."""
    command_lasts: float = 0.0
    """Seconds of these that the command on a host is expected to take, where that is recorded."""
    run: int = 1
    begins_at: datetime | None = None
    """When its next run begins, while it rests."""
    ends_as: RolloutResult = RolloutResult.COMPLETED
    prediction: RolloutPrediction | None = None
    is_late: bool = False
    """Whether it was said that it is behind schedule."""

    @property
    def finished(self) -> int:
        """How many hosts have ended."""
        return self.done + self.failed + self.skipped

    @property
    def has_windows(self) -> bool:
        return bool(self.terms.windows or self.fleet_windows)

    @property
    def needs_check(self) -> bool:
        """Whether the next wave waits for its gate and its alerts to be asked for."""
        return bool(self.terms.gate or self.terms.alerts) and self.checked <= self.wave


class HostRun(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """How a host stands in a rollout."""

    rollout: str
    host: str
    step: HostStep
    wave: int
    began_at: datetime
    """When its wave began."""
    at: datetime
    """When it reached its step."""
    events: tuple[str, ...] = ()
    """Its events that have not ended."""
    failure: str = ""
    """Why it comes to the step ``then`` as soon as its events have ended."""
    then: HostStep = HostStep.FAILED
    until: datetime | None = None
    """When it has settled."""
    reason: str = ""
    """Why it failed or was skipped."""
    exit_status: int | None = None
    """That of the command on the host."""
    is_cordoned: bool = False
    """Whether the rollout cordoned it, and so uncordons it."""
    node: str = ""
    """The node that runs the command on it."""
    completed: tuple[str, ...] = ()
    """The VMs whose events are completed."""
    canceled: dict[str, str] = {}
    """The VMs whose events were canceled, and why."""
    term: int = 0
    """The term of ``node``; 0 where one node has the journal for itself."""
    not_before: datetime | None = None
    """The earliest NotBefore of its events that have ended."""

    @property
    def key(self) -> str:
        return run_key(self.rollout, self.host)


def run_key(rollout: str, host: str) -> str:
    """Return what the record of a host in a rollout is found by; no name holds a slash."""
    return f"{rollout}/{host}"
