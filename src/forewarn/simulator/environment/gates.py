"""What the gates of rollouts ask, simulated: it is well, not well, or does not answer."""

from collections.abc import Callable

from forewarn.core.rollouts.model import HealthGate
from forewarn.node.rollout_checks import GateUnusable, RolloutChecker


class SimulatedGates(RolloutChecker):
    """Runs every gate at once, with the same result."""

    def __init__(self) -> None:
        super().__init__()
        self.state = ""
        """``failing`` or ``unreachable``; empty while all is well."""
        self.on_fault: Callable[[str], None] = lambda _: None
        """Told of every gate that does not let a wave begin."""

    def _run(self, gate: HealthGate, prometheus: str) -> tuple[bool, str]:
        if self.state:
            self.on_fault(f"gate {self.state}")
        if self.state == "unreachable":
            raise GateUnusable("the simulated gate does not answer")
        return not self.state, f"simulated, {self.state or 'well'}"
