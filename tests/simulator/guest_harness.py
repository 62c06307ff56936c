"""A service and its guests on simulated time, for the tests of guests."""

import asyncio
from pathlib import Path
from random import Random

import msgspec

from forewarn import randomness
from forewarn.simulator.actors.agent_guest import AgentGuest
from forewarn.simulator.actors.guests import Guests
from forewarn.simulator.environment.clock import SimulatedClock
from forewarn.simulator.environment.journal import SimulatedDisk, SimulatedJournal
from forewarn.simulator.environment.loop import SimulatedLoop, SimulatedProcess
from forewarn.simulator.environment.machines import DriverBehaviour, Machines
from forewarn.simulator.environment.network import Network
from forewarn.simulator.environment.receivers import Receivers
from forewarn.simulator.environment.service import Service, settings_of
from forewarn.simulator.exchanges import AgentStep, Exchange, VmExchange
from forewarn.simulator.plan import Plan, PlannedVm

_HURRY = 10.0
"""A reboot then has a notice of 90 seconds."""
_SPARE: list[object] = []
"""Applications that no harness uses now: to assemble one takes longer than most tests."""


class GuestHarness:
    """A service, and one guest of each kind given, all in one group."""

    def __init__(self, directory: Path, *kinds: str, seed: int = 1) -> None:
        random = Random(seed)
        randomness.use_source(random.randbytes)
        self.loop = SimulatedLoop(random)
        self.network = self.loop.network = Network(self.loop, random)
        clock, machines, disk = SimulatedClock(self.loop), Machines(self.loop), SimulatedDisk()
        vms = tuple(PlannedVm(kind, "web", "h1", 0, 0, f"10.0.0.{n}", guest=kind) for n, kind in enumerate(kinds, 1))
        fleet = directory / "fleet.toml"
        fleet.write_text(
            '[[host]]\nname = "h1"\n[[group]]\nname = "web"\nkind = "availability-set"\n'
            + "".join(
                f'[[vm]]\nname = "{v.name}"\ngroup = "web"\nhost = "h1"\naddress = "{v.address}"\n' for v in vms
            )
        )
        settings = settings_of(directory, hurry=_HURRY, fleet=fleet)
        self.service = Service(
            self.loop,
            self.network,
            clock,
            machines,
            DriverBehaviour(),
            lambda: SimulatedJournal(disk),
            settings,
            Receivers(self.loop),
            random,
        )
        self.service.app = _SPARE.pop() if _SPARE else None
        self.seen: list[Exchange] = []
        plan = Plan(seed, _HURRY, ("h1",), (), vms, {}, (), 0.0)
        self.guests = Guests(plan, self.loop, self.network, clock, directory, random, self.seen.append)
        asyncio.set_event_loop(self.loop)
        self.service.start()
        self.run(2.0)
        assert not self.service.start_failure
        for kind in kinds:
            self.guests.start(kind)
        self.run(12.0)

    def run(self, seconds: float) -> None:
        self.loop.run_until_complete(asyncio.sleep(seconds))

    def restart(self, vm: str) -> None:
        """Ask the control API for a restart of a VM."""
        operator = SimulatedProcess("operator", "10.9.9.9")
        asked = self.service.request("POST", f"/v1/vms/{vm}/operations", b'{"operation":"restart"}', key=vm)
        response = self.loop.run_until_complete(self.loop.spawn(operator, asked))
        assert response is not None
        assert response.status < 300

    def exchanges(self, vm: str, method: str = "") -> list[VmExchange]:
        return [
            each for each in self.seen if isinstance(each, VmExchange) and each.vm == vm and method in each.method
        ]

    def steps(self, vm: str) -> list[str]:
        return [each.what for each in self.seen if isinstance(each, AgentStep) and each.vm == vm]

    def approved(self, vm: str) -> list[str]:
        """Return the ids in approvals of a guest that were accepted."""
        bodies = [msgspec.json.decode(each.body) for each in self.exchanges(vm, "POST") if each.status == 200]
        return [each["EventId"] for body in bodies for each in body["StartRequests"]]

    def agent(self, vm: str) -> AgentGuest:
        guest = self.guests.of(vm)
        assert isinstance(guest, AgentGuest)
        return guest

    def end(self) -> None:
        _SPARE.append(self.service.app)
        asyncio.set_event_loop(None)
        self.loop.dispose()


class GuestHarnesses:
    """Makes worlds, and ends them."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._made: list[GuestHarness] = []

    def __call__(self, *kinds: str, seed: int = 1) -> GuestHarness:
        directory = self._directory / str(len(self._made))
        directory.mkdir()
        self._made.append(GuestHarness(directory, *kinds, seed=seed))
        return self._made[-1]

    def end(self) -> None:
        for world in self._made:
            world.end()
