"""All guests of a simulation, by VM: starts them, kills them, and damages what they remember."""

from collections.abc import Callable
from pathlib import Path
from random import Random

from forewarn.simulator.actors.agent_guest import AgentGuest
from forewarn.simulator.actors.guest_programs import PROGRAMS, Surroundings
from forewarn.simulator.actors.simulated_guest import Freshness, SimulatedGuest
from forewarn.simulator.environment.clock import SimulatedClock
from forewarn.simulator.environment.loop import SimulatedLoop, SimulatedProcess
from forewarn.simulator.environment.network import Network
from forewarn.simulator.exchanges import Exchange
from forewarn.simulator.plan import Plan, PlannedVm

_AGENTS = ("agent", "agent-wrong-clock")
KINDS = (*_AGENTS, *PROGRAMS)
"""What may run in a VM."""


class Guests:
    """The guests of the plan's VMs. A guest runs while its machine does; at first no guest runs."""

    def __init__(
        self,
        plan: Plan,
        loop: SimulatedLoop,
        network: Network,
        clock: SimulatedClock,
        directory: Path,
        random: Random,
        see: Callable[[Exchange], None],
        nodes: Freshness | None = None,
    ) -> None:
        """``nodes`` tells how far they are behind, where there are several; guests then ask one or another."""
        self._nodes = nodes
        self._loop = loop
        self._random = random
        self._around = Surroundings(plan.hurry)
        self._directory = directory
        self._see = see
        self._all: dict[str, SimulatedGuest] = {}
        self._stopped: dict[str, None] = {}
        """VMs with a machine that does not run."""
        for vm in plan.vms:
            self.add(vm)

    @property
    def wrong(self) -> list[str]:
        """What must never happen in a guest: the agent ended, or repeated a call."""
        return [what for guest in self._all.values() for what in guest.wrong]

    def of(self, vm: str) -> SimulatedGuest:
        """Return the guest of a VM."""
        return self._all[vm]

    def add(self, vm: PlannedVm) -> None:
        """Let a VM have a guest, which ``start`` starts."""
        # A source of its own: what one guest draws must not change what others do.
        random = Random(self._random.getrandbits(64))  # noqa: S311 - it is to be repeatable
        make = AgentGuest if vm.guest in _AGENTS else SimulatedGuest
        guest = self._all[vm.name] = make(vm, self._loop, self._directory / "guests" / vm.name, random, self._see)
        guest.nodes = self._nodes
        if isinstance(guest, AgentGuest):
            guest.configure(self._around.hurry)

    def start(self, vm: str) -> None:
        """Boot a guest; nothing happens where it runs already, or its machine does not."""
        guest = self._all.get(vm)
        if guest is None or guest.process.is_alive or vm in self._stopped:
            return
        guest.boots += 1
        self._run(guest)

    def kill(self, vm: str) -> None:
        """End everything in a guest at once."""
        if guest := self._all.get(vm):
            self._loop.kill(guest.process)

    def reboot(self, vm: str) -> None:
        """End everything in a guest and boot it."""
        self.kill(vm)
        self.start(vm)

    def set_running(self, vm: str, is_running: bool) -> None:  # noqa: FBT001 - it is what the name says
        """Follow the machine: where it stops, the guest ends; where it starts, the guest boots."""
        if is_running:
            self._stopped.pop(vm, None)
            self.start(vm)
        else:
            self._stopped[vm] = None
            self.kill(vm)

    def damage_memory(self, vm: str, how: str) -> None:
        """End the agent, damage its memory file (``torn`` or ``flipped``), and start the agent without a reboot."""
        guest = self._all.get(vm)
        if not isinstance(guest, AgentGuest) or not guest.process.is_alive:
            return
        self._loop.kill(guest.process)
        guest.damage_memory(how)
        self._run(guest)

    def quieten(self) -> None:
        """Let no guest misbehave any more; agents, slow and silent guests stay what they are."""
        for guest in self._all.values():
            guest.is_quiet = True

    def close(self) -> None:
        """End all guests."""
        for vm in self._all:
            self.kill(vm)

    def _run(self, guest: SimulatedGuest) -> None:
        guest.process = SimulatedProcess(f"{guest.vm.name}-{guest.boots}", guest.vm.address)
        if isinstance(guest, AgentGuest):
            self._loop.spawn(guest.process, guest.run())
        else:
            self._loop.spawn(guest.process, PROGRAMS[guest.vm.guest](guest, self._around))
