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
    HostCommand,
    HostCommandEnded,
    HostCommandOutcome,
    Impact,
    ImpactDone,
    ImpactFailed,
    ImpactNotBegun,
    ImpactOutcome,
    ImpactUnderway,
    ImpactUnknown,
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
_HOST_COMMAND_LASTS = 4.0
ASKS = "needs-it"
"""The command that asks a host whether it wants an operation."""


class Machine:
    """One machine as its hypervisor has it."""

    def __init__(self, name: str, host: str) -> None:
        self.name = name
        self.host = host
        self.is_running = True
        self.exists = True
        self.boots = 1
        self.busy_until = 0.0
        self.switched_by: tuple[SimulatedProcess, float] | None = None
        """Who starts or stops it, and until when."""
        self.term = 0
        """The highest term of a leader that asked for something."""
        self.done_for: dict[str, str] = {}
        """What was done to it, by event id."""


class Machines:
    """All machines. What is done to them is reported to ``on_operation``; ``wrong`` holds what must never happen."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop
        self.all: dict[str, Machine] = {}
        self.slowness = 1.0
        """By which everything takes longer, so that more events meet."""
        self.wrong: list[str] = []
        self.on_operation: Callable[[str, str, str, str], None] = lambda *_: None
        """Told of the VM, what is done, the event, and the host."""
        self.holds_lease: Callable[[str, int], bool] = lambda *_: True
        """Tells whether a node leads now, in a term."""
        self.on_host_command: Callable[[str, list[str]], None] = lambda *_: None
        """Told of the host on which a command begins, and of the machines that run there."""
        self._host_commands: dict[str, tuple[float, int]] = {}
        """When each command on a host is over, by its id, and its exit status."""
        self._reports: dict[SimulatedProcess, Callable[[Observation], None]] = {}
        self._clock: SimulatedClock | None = None

    def of(self, vm: Vm) -> Machine:
        """Return the machine of a VM, made when it is first spoken of."""
        if vm.name not in self.all:
            self.all[vm.name] = Machine(vm.name, vm.standing_on)
        return self.all[vm.name]

    def check_leader(self, process: SimulatedProcess, term: int) -> None:
        """Note where a driver is called by a node that does not lead any more."""
        if process.node and not self.holds_lease(process.node, term):
            self.wrong.append(f"node {process.node} called its driver in term {term}, without the lease")

    def admit(self, vms: tuple[Vm, ...], term: int) -> bool:
        """Remember the term of a leader; tell whether no later leader was here before."""
        machines = [self.of(vm) for vm in vms]
        if any(term < machine.term for machine in machines):
            return False
        for machine in machines:
            machine.term = term
        return True

    def operate(self, event: str, vm: Vm, type_: EventType, host: str, *, deletes: bool) -> float:
        """Begin an operation that goes on by itself; return when it is over."""
        machine = self.of(vm)
        if event in machine.done_for:
            self.wrong.append(f"machine {vm.name} was operated on twice for one event ({type_})")
        if self._loop.time() < machine.busy_until - 1e-6:
            self.wrong.append(f"machine {vm.name} was operated on while another operation was under way ({type_})")
        machine.done_for[event] = type_
        machine.busy_until = self._loop.time() + _LASTS[type_] * self.slowness
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
        self.on_operation(vm.name, type_, event, host)
        return machine.busy_until

    def switch(self, vm: Vm, process: SimulatedProcess, seconds: float, *, on: bool) -> None:
        """Start or stop a machine; the call lasts so many seconds. One process makes one call at a time."""
        machine = self.of(vm)
        now = self._loop.time()
        if machine.switched_by and machine.switched_by[0] is process and now < machine.switched_by[1]:
            self.wrong.append(
                f"machine {vm.name} was {'started' if on else 'stopped'} while another call was under way"
            )
        machine.switched_by = process, now + seconds
        again = " again" if machine.is_running == on else ""
        if not again:
            machine.is_running = on
            machine.boots += on
        self.on_operation(vm.name, f"{'start' if on else 'stop'}{again}", "", vm.standing_on)

    def run_on_host(self, command: HostCommand, status: int) -> None:
        """Begin a command on a host, which goes on by itself."""
        if command.id in self._host_commands:
            self.wrong.append(f"a command was run twice on host {command.host.name}: {command.command}")
        running = [each.name for each in self.all.values() if each.host == command.host.name and each.is_running]
        if command.command != ASKS:
            self.on_host_command(command.host.name, running)
        self._host_commands[command.id] = self._loop.time() + _HOST_COMMAND_LASTS * self.slowness, status

    def outcome_on_host(self, command: HostCommand) -> tuple[float, int] | None:
        """Return in how many seconds a command ends, and its exit status; None where it was not begun."""
        ends, status = self._host_commands.get(command.id, (None, 0))
        return None if ends is None else (max(ends - self._loop.time(), 0.0), status)

    def refuse(self, vm: Vm, *, on: bool) -> ImpactFailed:
        """Fail to start or stop a machine."""
        self.on_operation(vm.name, "start failed" if on else "stop failed", "", "")
        return ImpactFailed("the simulated machine does not obey")

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
        self._reports = {each: report for each, report in self._reports.items() if each.is_alive and each.node}
        self._reports[process] = report
        self._clock = clock
        self.tell(process, clock)

    def tell(self, process: SimulatedProcess, clock: SimulatedClock) -> None:
        """Tell a driver where the machines are."""
        report = self._reports[process]
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

    def take(self) -> str:
        """Return the fault of the call that is being made; empty where it has none."""
        if not self.next_faults:
            return ""
        fault = self.next_faults.pop(0)
        self.on_fault(f"driver {fault}")
        return fault


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
        is_immediate: bool,
        fences_terms: bool = True,
    ) -> None:
        self.moves_live = moves_live
        self.is_immediate = is_immediate
        self.fences_terms = fences_terms
        self.has_local_records = not fences_terms
        self._machines = machines
        self._behaviour = behaviour
        self._clock = clock
        self._loop = loop
        self._process = process
        self._random = random
        self._store = ProgressStore(directory, clock)
        self._known: set[str] = set()
        """The events for which it was called or asked since its start."""

    def perform(self, impact: Impact) -> ImpactOutcome:
        return self._answer(impact, may_begin=True)

    def outcome_of(self, impact: Impact) -> ImpactOutcome:
        return self._answer(impact, may_begin=False)

    def switch(self, vm: Vm, *, on: bool, term: int = 0) -> ImpactOutcome:
        if self.fences_terms:
            self._machines.check_leader(self._process, term)
            if not self._machines.admit((vm,), term):
                return ImpactUnknown("a later leader was here")
        if self._behaviour.take() in ("fails", "raises"):
            return self._machines.refuse(vm, on=on)
        seconds = 0.0 if self.is_immediate else self._random.choice((0.0, 0.5, 5.0))
        self._delay(seconds)
        self._machines.switch(vm, self._process, seconds, on=on)
        return ImpactDone()

    def run_on_host(self, command: HostCommand) -> HostCommandOutcome:
        fault = self._behaviour.take()
        if fault == "late":
            self._delay(self._random.uniform(1.0, 20.0))
        elif fault == "raises":
            raise RuntimeError("the simulated driver has a fault")
        self._machines.run_on_host(command, int(fault == "fails"))
        return self.outcome_on_host(command)

    def outcome_on_host(self, command: HostCommand) -> HostCommandOutcome:
        found = self._machines.outcome_on_host(command)
        if found is None:
            return ImpactNotBegun()
        seconds, status = found
        if seconds:
            return self._later(self._loop.time() + seconds)
        return HostCommandEnded(status, "simulated")

    def watch(self, report: Callable[[Observation], None]) -> None:
        self._machines.watch(self._process, self._clock, report)

    def resync(self) -> None:
        self._machines.tell(self._process, self._clock)

    def close(self) -> None:
        self._store.close()

    def _answer(self, impact: Impact, *, may_begin: bool) -> ImpactOutcome:
        self._machines.check_leader(self._process, impact.term)
        if self.fences_terms and not self._machines.admit(impact.vms, impact.term):
            return ImpactUnknown("a later leader was here")
        fault = self._behaviour.take()
        if fault == "hangs":
            self._delay(1000.0)
        elif fault == "late":
            self._delay(self._random.uniform(1.0, 40.0))
        elif fault == "raises":
            raise RuntimeError("the simulated driver has a fault")
        if impact.event.type not in _LASTS:
            return refuse_type(impact.event)
        if not may_begin and self._store.read(impact.event.id).begun is None:
            return ImpactNotBegun()
        with self._store.held(impact.event.id) as progress_file:
            if may_begin and progress_file.begun and impact.event.id not in self._known:
                self._machines.wrong.append(f"the driver was called again for a {impact.event.type}, and not asked")
            self._known.add(impact.event.id)
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
            is_new = chosen is None
            if chosen is None:
                candidates = impact.candidates_for(vm) if impact.moves else ()
                host = self._random.choice(candidates).host.name if candidates else ""
                if machine.busy_until > self._loop.time():
                    return self._later(machine.busy_until)
                progress_file.note("operate", vm.name, host=host)
                chosen = progress_file.step("operate", vm.name)
                assert chosen is not None  # noqa: S101 - it was just noted
            if is_new or impact.event.id not in machine.done_for:  # else a crash came after it
                self._machines.operate(
                    impact.event.id, vm, impact.event.type, chosen.seen.get("host", ""), deletes=impact.deletes
                )
            if chosen.seen.get("host"):
                hosts[vm.name] = chosen.seen["host"]
            ends = max(ends, machine.busy_until)
        if ends > self._loop.time():
            return self._later(ends)
        return progress_file.end(ImpactDone(hosts))

    def _delay(self, seconds: float) -> None:
        if not self.is_immediate:  # else it is no call in a thread
            self._loop.delay_result(seconds)

    def _later(self, when: float) -> ImpactUnderway:
        return ImpactUnderway(self._clock.now() + timedelta(seconds=max(when - self._loop.time(), 0.01)))
