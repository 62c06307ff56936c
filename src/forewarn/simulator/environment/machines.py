"""Simulated hosts and machines, and a driver of them that crashes with its service.

``Machines`` is the truth about the machines: it outlives the service, goes on while the service is down, and counts
what is done to each. ``MachinesDriver`` is what a careful author writes: each step is on record before it is done, in
the same progress files as the drivers of real hypervisors.
"""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from random import Random

from forewarn.core.model import EventType, Observation, ObservationKind, Vm
from forewarn.drivers.progress_store import ProgressFile, ProgressStore
from forewarn.node.driver import (
    Impact,
    ImpactDone,
    ImpactFailed,
    ImpactNotBegun,
    ImpactOutcome,
    ImpactUnderway,
    refuse_type,
)
from forewarn.simulator.environment.clock import SimulatedClock
from forewarn.simulator.environment.loop import SimulatedLoop, SimulatedProcess

_LASTS = {
    EventType.FREEZE: 3.0,
    EventType.REBOOT: 8.0,
    EventType.REDEPLOY: 12.0,
    EventType.PREEMPT: 2.0,
    EventType.TERMINATE: 2.0,
}
"""Seconds that the hypervisor takes."""


class Machine:
    """One machine as its hypervisor has it."""

    def __init__(self, name: str, host: str) -> None:
        self.name = name
        self.host = host
        self.is_running = True
        self.exists = True
        self.boots = 1
        self.busy_until = 0.0
        self.done_for: dict[str, str] = {}
        """What was done to it, by event id."""


class Machines:
    """All machines. What is done to them is reported to ``on_operation``; ``wrong`` holds what must never happen."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop
        self.all: dict[str, Machine] = {}
        self.wrong: list[str] = []
        self.on_operation: Callable[[str, str, str], None] = lambda *_: None
        self._reports: dict[SimulatedProcess, Callable[[Observation], None]] = {}
        self._clock: SimulatedClock | None = None

    def of(self, vm: Vm) -> Machine:
        """Return the machine of a VM, made when it is first spoken of."""
        if vm.name not in self.all:
            self.all[vm.name] = Machine(vm.name, vm.standing_on)
        return self.all[vm.name]

    def operate(self, event: str, vm: Vm, type_: EventType, host: str, *, deletes: bool) -> float:
        """Begin an operation that goes on by itself; return when it is over."""
        machine = self.of(vm)
        if event in machine.done_for:
            self.wrong.append(f"machine {vm.name} was operated on twice for one event ({type_})")
        if self._loop.time() < machine.busy_until - 1e-6:
            self.wrong.append(f"machine {vm.name} was operated on while another operation was under way ({type_})")
        machine.done_for[event] = type_
        machine.busy_until = self._loop.time() + _LASTS[type_]
        self.on_operation(vm.name, type_, event)
        match type_:
            case EventType.REBOOT:
                machine.boots += 1
                machine.is_running = True
            case EventType.REDEPLOY:
                machine.boots += 1
                machine.is_running = True
                machine.host = host or machine.host
            case EventType.FREEZE:
                machine.host = host or machine.host
            case EventType.PREEMPT | EventType.TERMINATE:
                machine.is_running = False
                machine.exists = machine.exists and not deletes
        return machine.busy_until

    def switch(self, vm: Vm, *, on: bool) -> None:
        machine = self.of(vm)
        if machine.is_running != on:
            machine.is_running = on
            machine.boots += on
            self.on_operation(vm.name, "start" if on else "stop", "")

    def befall(self, name: str, what: ObservationKind, host: str = "") -> None:
        """Let something happen to a machine that the service did not ask for."""
        machine = self.all.get(name)
        if machine is None or not machine.exists:
            return
        match what:
            case ObservationKind.CRASHED | ObservationKind.STOPPED:
                machine.is_running = False
            case ObservationKind.REBOOTED | ObservationKind.STARTED:
                machine.boots += 1
                machine.is_running = True
            case ObservationKind.MOVED:
                machine.host = host
            case ObservationKind.GONE:
                machine.exists = machine.is_running = False
        for process, report in self._reports.items():
            if process.is_alive and self._clock is not None:
                seen = Observation(name, what, self._clock.now(), host=host)
                self._loop.call_soon(report, seen, context=process.context)

    def watch(self, process: SimulatedProcess, clock: SimulatedClock, report: Callable[[Observation], None]) -> None:
        """Report to a driver from now on, and begin with what it may have missed."""
        self._reports = {process: report}
        self._clock = clock
        for machine in self.all.values():
            if not machine.exists:
                continue
            if machine.host:
                report(Observation(machine.name, ObservationKind.MOVED, clock.now(), host=machine.host))


class DriverBehaviour:
    """What goes wrong with the next calls of a driver; shared by the drivers of all starts of the service."""

    def __init__(self) -> None:
        self.next_faults: list[str] = []
        """``fails``, ``raises``, ``hangs`` or ``late``, the first one first."""
        self.on_fault: Callable[[str], None] = lambda _: None
        """Told of every fault that happens."""


class MachinesDriver:
    """A driver of the simulated machines, for one start of the service."""

    moves_to_host = True

    def __init__(
        self,
        machines: Machines,
        behaviour: DriverBehaviour,
        clock: SimulatedClock,
        loop: SimulatedLoop,
        process: SimulatedProcess,
        directory: Path,
        random: Random,
        *,
        moves_live: bool,
    ) -> None:
        self.moves_live = moves_live
        self._machines = machines
        self._behaviour = behaviour
        self._clock = clock
        self._loop = loop
        self._process = process
        self._random = random
        self._store = ProgressStore(directory, clock)

    def perform(self, impact: Impact) -> ImpactOutcome:
        return self._answer(impact, may_begin=True)

    def outcome_of(self, impact: Impact) -> ImpactOutcome:
        return self._answer(impact, may_begin=False)

    def switch(self, vm: Vm, *, on: bool) -> ImpactOutcome:
        match self._fault():
            case "fails" | "raises":
                return ImpactFailed("the simulated machine does not obey")
        self._machines.switch(vm, on=on)
        return ImpactDone()

    def watch(self, report: Callable[[Observation], None]) -> None:
        self._machines.watch(self._process, self._clock, report)

    def close(self) -> None:
        self._store.close()

    def _answer(self, impact: Impact, *, may_begin: bool) -> ImpactOutcome:
        fault = self._fault()
        if fault == "hangs":
            self._loop.delay_result(1000.0)
        elif fault == "late":
            self._loop.delay_result(self._random.uniform(1.0, 40.0))
        elif fault == "raises":
            raise RuntimeError("the simulated driver has a fault")
        if impact.event.type not in _LASTS:
            return refuse_type(impact.event)
        if not may_begin and self._store.read(impact.event.id).begun is None:
            return ImpactNotBegun()
        with self._store.held(impact.event.id) as progress_file:
            if progress_file.ending:
                return progress_file.ending
            if progress_file.begun is None:
                if fault == "fails":
                    return progress_file.end(ImpactFailed("the simulated hypervisor refused"))
                progress_file.begin(impact)
            return self._go_on(progress_file.begun or impact, progress_file)

    def _go_on(self, impact: Impact, progress_file: ProgressFile) -> ImpactOutcome:
        ends = self._loop.time()
        hosts: dict[str, str] = {}
        for vm in impact.vms:
            machine = self._machines.of(vm)
            chosen = progress_file.step("operate", vm.name)
            if chosen is None:
                candidates = impact.candidates_for(vm) if impact.moves else ()
                host = self._random.choice(candidates).host.name if candidates else ""
                if machine.busy_until > self._loop.time():
                    return self._later(machine.busy_until)
                progress_file.note("operate", vm.name, host=host)
                chosen = progress_file.step("operate", vm.name)
                assert chosen is not None  # noqa: S101 - it was just noted
            if impact.event.id not in machine.done_for:  # else a crash came after it
                self._machines.operate(
                    impact.event.id, vm, impact.event.type, chosen.seen.get("host", ""), deletes=impact.deletes
                )
            if chosen.seen.get("host"):
                hosts[vm.name] = chosen.seen["host"]
            ends = max(ends, machine.busy_until)
        if ends > self._loop.time():
            return self._later(ends)
        return progress_file.end(ImpactDone(hosts))

    def _later(self, when: float) -> ImpactUnderway:
        return ImpactUnderway(self._clock.now() + timedelta(seconds=max(when - self._loop.time(), 0.01)))

    def _fault(self) -> str:
        if not self._behaviour.next_faults:
            return ""
        fault = self._behaviour.next_faults.pop(0)
        self._behaviour.on_fault(f"driver {fault}")
        return fault
