"""What happens to the service: its process, its disk, its clock."""

from forewarn.simulator.actions.planned_action import PlannedAction
from forewarn.simulator.environment.journal import AppendFault


class KillService(PlannedAction, frozen=True, kw_only=True):
    """Kill the service after so many more callbacks of it."""

    sentence = "the service is killed after {callbacks} callbacks"
    callbacks: int


class KillServiceDuring(PlannedAction, frozen=True, kw_only=True):
    """Kill the service within its next start or stop, after so many callbacks; of several nodes, the first of all."""

    sentence = "the service is killed {callbacks} callbacks into its next {phase}"
    chosen = "phase"
    choices = ("start", "stop")
    callbacks: int
    phase: str


class LosePower(PlannedAction, frozen=True, kw_only=True):
    """Kill the service, and whatever its driver runs beside it."""

    sentence = "the machine of the service loses power"


class RestartService(PlannedAction, frozen=True, kw_only=True):
    """Stop the service in order, and start it again."""

    sentence = "the service is restarted"


class FailAppends(PlannedAction, frozen=True, kw_only=True):
    """What becomes of the next appends: an ``AppendFault``."""

    sentence = "the next {count} appends are {fault}"
    chosen = "fault"
    choices = tuple(map(str, AppendFault))
    count: int
    fault: str


class FillDisk(PlannedAction, frozen=True, kw_only=True):
    """Refuse every append for a while."""

    sentence = "the disk is full for {seconds} s"
    seconds: float


class HideDisk(PlannedAction, frozen=True, kw_only=True):
    """Let nothing be read from the disk for a while."""

    sentence = "the disk is unreadable for {seconds} s"
    seconds: float


class StepClock(PlannedAction, frozen=True, kw_only=True):
    """Set the wall clock of the service ahead, or back where it is negative."""

    sentence = "the clock of the service steps by {seconds} s"
    seconds: float


class DriftClock(PlannedAction, frozen=True, kw_only=True):
    """Let the wall clock of the service run too fast by this rate, or too slow where it is negative."""

    sentence = "the clock of the service drifts by {rate}"
    rate: float
