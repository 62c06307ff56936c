"""Commands for rollouts: of operators, and of the node that leads them."""

from enum import StrEnum

import msgspec

from forewarn.core.commands import Command
from forewarn.core.rollouts.model import RecordedLength, RolloutPrediction, RolloutTerms


class StartRollout(Command, frozen=True, kw_only=True, tag="start-rollout"):
    """Begin a rollout, or queue it behind one that shares a host."""

    name: str
    terms: RolloutTerms
    prediction: RolloutPrediction | None = None
    recorded: RecordedLength = RecordedLength()
    runs_commands: bool = False
    """The driver runs commands on hosts."""


class EditRollout(Command, frozen=True, kw_only=True, tag="edit-rollout"):
    """Change what a rollout does from its next wave on."""

    name: str
    terms: RolloutTerms
    runs_commands: bool = False


class PauseRollout(Command, frozen=True, kw_only=True, tag="pause-rollout"):
    """Announce nothing more; keep what is Scheduled, or withdraw it."""

    name: str
    withdraw: bool = False


class ResumeRollout(Command, frozen=True, kw_only=True, tag="resume-rollout"):
    """Go on where a rollout was paused."""

    name: str


class CancelRollout(Command, frozen=True, kw_only=True, tag="cancel-rollout"):
    """Withdraw what is Scheduled, and end the rollout when its Started events have ended."""

    name: str


class RetryHosts(Command, frozen=True, kw_only=True, tag="retry-hosts"):
    """Let failed hosts of a rollout wait for a wave again: those named, or all."""

    name: str
    hosts: tuple[str, ...] = ()


class SkipHost(Command, frozen=True, kw_only=True, tag="skip-host"):
    """Leave a host out of a rollout, and withdraw what is Scheduled there."""

    name: str
    host: str


class AdvanceRollout(Command, frozen=True, kw_only=True, tag="advance-rollout"):
    """Let a rollout do what is next."""

    rollout: str
    node: str = ""
    """The node that asks, and that will run commands on hosts."""
    term: int = 0
    """The term in which it leads."""
    driver: str = ""
    """The name of its driver."""
    live: bool = False
    """The driver can move its guests live."""
    recorded: RecordedLength | None = None
    """How long one host took with the present driver; given for a run that begins, else None."""
    prediction: RolloutPrediction | None = None
    """When a run that begins is expected to end."""


class DrainRolloutHost(Command, frozen=True, kw_only=True, tag="drain-rollout-host"):
    """Announce the moves that were planned for a host of a rollout; or say why there are none."""

    rollout: str
    host: str
    placements: dict[str, str] = msgspec.field(default_factory=dict)
    left: dict[str, str] = msgspec.field(default_factory=dict)
    cold: tuple[str, ...] = ()
    live: bool = False
    failure: str = ""
    """Why nothing could be planned."""


class HostCommandPurpose(StrEnum):
    """What a command on a host is run for."""

    ASK = "ask"
    RUN = "run"


class ReportHostCommand(Command, frozen=True, kw_only=True, tag="report-host-command"):
    """The driver told how a command on a host of a rollout ended."""

    rollout: str
    host: str
    purpose: HostCommandPurpose
    exit_status: int | None = None
    """None where the command did not end by itself, or its end is unknown."""
    detail: str = ""
    live: bool = False
    """The driver can move its guests live."""


class ReportRolloutCheck(Command, frozen=True, kw_only=True, tag="report-rollout-check"):
    """The gate and the alerts were looked at before a wave of a rollout."""

    rollout: str
    wave: int
    passed: bool
    detail: str
    firing: tuple[str, ...] = ()
    """The alerts that fire: these block the wave, and do not pause the rollout."""
