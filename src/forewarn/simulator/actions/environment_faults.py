"""What happens around the service: drivers, machines, guests, the network, gates and receivers."""

from forewarn.simulator.actions.planned_action import PlannedAction


class DamageDriverRecord(PlannedAction, frozen=True, kw_only=True):
    """Append half a line to a file of the driver about an unfinished event, when the service ends the next time."""

    sentence = "a progress file of the driver is torn"


class FailDriver(PlannedAction, frozen=True, kw_only=True):
    """What becomes of the next calls of the driver."""

    sentence = "the next {count} driver calls: {fault}"
    chosen = "fault"
    choices = ("fails", "raises", "hangs", "late")
    count: int
    fault: str


class BefallMachine(PlannedAction, frozen=True, kw_only=True):
    """Something happens to a machine that the service did not ask for; ``host`` is where it was moved, or ``-``."""

    sentence = "machine {vm} {what} by itself, host {host}"
    chosen = "what"
    choices = ("crashed", "rebooted", "stopped", "started", "gone", "moved")
    vm: str
    what: str
    host: str


class LoseRequests(PlannedAction, frozen=True, kw_only=True):
    """Lose this share of what is sent, for a while."""

    sentence = "the network loses {chance} of what is sent for {seconds} s"
    chance: float
    seconds: float


class DelayRequests(PlannedAction, frozen=True, kw_only=True):
    """Let what is sent travel longer, for a while."""

    sentence = "the network delays by up to {delay} s for {seconds} s"
    delay: float
    seconds: float


class RebootGuest(PlannedAction, frozen=True, kw_only=True):
    """End the programs of a guest at once and start them again after so many seconds."""

    sentence = "guest {vm} is killed and back after {seconds} s"
    vm: str
    seconds: float


class DamageMemory(PlannedAction, frozen=True, kw_only=True):
    """Torn: half a line more at the end. Flipped: one byte in the middle."""

    sentence = "the memory of the agent in {vm} is {how}, and the agent restarts"
    chosen = "how"
    choices = ("torn", "flipped")
    vm: str
    how: str


class FailGate(PlannedAction, frozen=True, kw_only=True):
    """What the gates of rollouts ask for is not well, or does not answer, for a while."""

    sentence = "the gate of rollouts is {state} for {seconds} s"
    chosen = "state"
    choices = ("failing", "unreachable")
    state: str
    seconds: float


class RefuseNotifications(PlannedAction, frozen=True, kw_only=True):
    """The receivers of notifications are down."""

    sentence = "receivers of notifications are down for {seconds} s"
    seconds: float
