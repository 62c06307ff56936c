"""Facts about rollouts; what they do to VMs is told by the facts of events."""

from datetime import datetime

from forewarn.core.fact import Fact
from forewarn.core.rollouts.model import HostStep, Rollout, RolloutPrediction, RolloutResult, RolloutTerms


class RolloutStarted(Fact, frozen=True, tag="rollout-started"):
    """A rollout began, was queued behind another one, or begins again."""

    rollout: Rollout


class RolloutEdited(Fact, frozen=True, tag="rollout-edited"):
    """An operator, or other settings, changed what a rollout does from its next wave on."""

    rollout: str
    at: datetime
    terms: RolloutTerms
    fleet_windows: tuple[str, ...] = ()
    lasts: float = 0.0
    reason: str = ""
    """Which terms were changed, and by whom; or that the windows of the fleet were."""


class RolloutPaused(Fact, frozen=True, tag="rollout-paused"):
    """A rollout announces nothing more until it is resumed."""

    rollout: str
    at: datetime
    reason: str
    """Who paused it, or why it paused itself."""


class RolloutResumed(Fact, frozen=True, tag="rollout-resumed"):
    """A rollout goes on where it stopped, or its turn in the queue has come."""

    rollout: str
    at: datetime
    reason: str


class RolloutStopping(Fact, frozen=True, tag="rollout-stopping"):
    """A rollout announces nothing more, and ends when its Started events have ended."""

    rollout: str
    at: datetime
    result: RolloutResult
    reason: str


class RolloutBlocked(Fact, frozen=True, tag="rollout-blocked"):
    """The next wave of a rollout cannot begin, for this reason; without a reason, it can again."""

    rollout: str
    at: datetime
    reason: str
    until: datetime | None = None


class RolloutChecked(Fact, frozen=True, tag="rollout-checked"):
    """The gate and the alerts were looked at before a wave."""

    rollout: str
    at: datetime
    wave: int
    passed: bool
    detail: str
    again_at: datetime | None = None
    """When alerts that fire are looked at again."""


class RolloutWaveStarted(Fact, frozen=True, tag="rollout-wave-started"):
    """A wave began, with these hosts."""

    rollout: str
    at: datetime
    wave: int
    hosts: tuple[str, ...]
    step: HostStep
    """The step that they begin with."""


class RolloutHostChanged(Fact, frozen=True, tag="rollout-host-changed"):
    """A host reached another step of its rollout."""

    rollout: str
    host: str
    at: datetime
    step: HostStep
    reason: str = ""
    events: tuple[str, ...] = ()
    """The events that were announced for it."""
    until: datetime | None = None
    """When it has settled."""
    exit_status: int | None = None
    """That of the command on the host."""
    is_cordoned: bool | None = None
    """Whether the rollout has cordoned it now; None where that stays as it was."""
    node: str = ""
    """The node that runs the command on the host."""
    term: int = 0
    """The term of that node; 0 where one node has the journal for itself."""
    driver: str = ""
    """The name of the driver that runs the command; not recorded by earlier releases."""


class RolloutHostFailing(Fact, frozen=True, tag="rollout-host-failing"):
    """A host fails as soon as its Started events have ended; or it is skipped, or waits again."""

    rollout: str
    host: str
    at: datetime
    reason: str
    then: HostStep = HostStep.FAILED


class RolloutLate(Fact, frozen=True, tag="rollout-late"):
    """A rollout is behind the latest end that was predicted for it."""

    rollout: str
    at: datetime
    expected: datetime
    """The latest end that was predicted."""


class RolloutEnded(Fact, frozen=True, tag="rollout-ended"):
    """A rollout has ended; one that recurs rests until its next run."""

    rollout: str
    at: datetime
    result: RolloutResult
    reason: str = ""
    done: int = 0
    failed: int = 0
    skipped: int = 0
    waiting: int = 0
    """Hosts that never began."""
    prediction: RolloutPrediction | None = None
    """What was predicted when it started."""
    next_at: datetime | None = None


RolloutHostFact = RolloutHostChanged | RolloutHostFailing
"""The facts about one host of a rollout."""

RolloutFact = (
    RolloutStarted
    | RolloutEdited
    | RolloutPaused
    | RolloutResumed
    | RolloutStopping
    | RolloutBlocked
    | RolloutChecked
    | RolloutWaveStarted
    | RolloutHostFact
    | RolloutLate
    | RolloutEnded
)
"""The facts about rollouts; what they do to VMs is told by the facts of events."""
