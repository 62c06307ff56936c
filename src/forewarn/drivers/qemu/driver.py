"""The QEMU driver: freezes, reboots, moves and ends machines over QMP."""

import glob
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Self

from forewarn.clocks import Clock
from forewarn.core.model import EventType, Observation, Operation, Vm
from forewarn.drivers.executor import ImpactJob, MigrationSlots, WorkExecutor, join_details
from forewarn.drivers.host_program import HostCommands
from forewarn.drivers.progress_store import ImpactEnding
from forewarn.drivers.qemu import actions, checks, moves, switching
from forewarn.drivers.qemu.actions import MachineAction
from forewarn.drivers.qemu.machines import QemuMachine
from forewarn.drivers.qemu.monitors import MonitorDead, MonitorProblem, Monitors
from forewarn.drivers.qemu.observations import MonitorObserver
from forewarn.drivers.qemu.settings import QemuSettings, read
from forewarn.drivers.switch_executor import SwitchExecutor
from forewarn.drivers.term_store import TermStore
from forewarn.node.driver import Impact, ImpactDone, ImpactFailed, ImpactOutcome, refuse_type

log = logging.getLogger(__name__)

_CLOSE_TIMEOUT = 20.0
"""Seconds that work may take to reach a point where it can be interrupted."""
SCAN_EVERY = 1.0
UNANNOUNCED_FREEZE = 5.0


class QemuDriver(HostCommands):
    """Carries out impacts on QEMU processes over their monitors."""

    moves_to_host = True
    has_local_records = True

    def __init__(self, settings: QemuSettings, clock: Clock, directory: Path | None) -> None:
        self.moves_live = bool(settings.receive)
        self.fences_terms = bool(settings.records)
        self._settings = settings
        self._clock = clock
        directory = Path(settings.records) if settings.records else directory
        self._terms = TermStore(Path(settings.records)) if settings.records else None
        self._executor = WorkExecutor("qemu", directory, clock, self._do, terms=self._terms)
        self._observer = MonitorObserver(settings, clock)
        self._monitors = Monitors(self._observer.handle_message)
        self._slots = MigrationSlots(settings.migrations)
        self._switch_executor = SwitchExecutor("qemu-switch", clock, self._switch)
        self.use_host_program(settings.host_program, clock, directory)
        self._impacts: dict[EventType, Callable[[MachineAction, Impact], tuple[str, str]]] = {
            EventType.FREEZE: self._freeze,
            EventType.REBOOT: self._reboot,
            EventType.REDEPLOY: self._redeploy,
            EventType.PREEMPT: self._end,
            EventType.TERMINATE: self._end,
        }
        """What each type of event does to a machine; it returns the new host, if the machine moved, and a detail."""

    @classmethod
    def from_settings(
        cls, settings: dict[str, object], clock: Clock, hurry: float, directory: Path | None = None
    ) -> Self:
        return cls(read(settings), clock, directory)

    def perform(self, impact: Impact) -> ImpactOutcome:
        if impact.event.type not in self._impacts:
            return refuse_type(impact.event)
        return self._executor.perform(impact)

    def outcome_of(self, impact: Impact) -> ImpactOutcome:
        return self._executor.outcome_of(impact)

    def watch(self, report: Callable[[Observation], None]) -> None:
        self._observer.report = report
        threading.Thread(target=self._scan, name="qemu-watch", daemon=True).start()

    def resync(self) -> None:
        self._observer.begin_again()

    def switch(self, vm: Vm, *, on: bool, term: int = 0) -> ImpactOutcome:
        return self._switch_executor.switch(vm, on=on, term=term)

    def check(self, vms: tuple[Vm, ...]) -> tuple[str, ...]:
        return tuple(checks.find_problems(self._settings, vms))

    def close(self) -> None:
        self._executor.close(_CLOSE_TIMEOUT)
        self._monitors.close()

    def _do(self, job: ImpactJob) -> ImpactEnding:
        """Carry out the impact on all VMs concurrently."""
        vms = job.impact.vms
        with ThreadPoolExecutor(len(vms), thread_name_prefix="qemu-vm") as threads:
            parts = {vm.name: threads.submit(self._do_to, job, vm) for vm in vms}
        hosts: dict[str, str] = {}
        details: dict[str, str] = {}
        failures: dict[str, str] = {}
        for name, part in parts.items():
            try:
                host, details[name] = part.result()
                if host:
                    hosts[name] = host
            except MonitorProblem as error:
                failures[name] = str(error)
        if failures:
            return ImpactFailed(join_details(failures, len(parts)), hosts)
        return ImpactDone(hosts, join_details(details, len(parts)))

    def _do_to(self, job: ImpactJob, vm: Vm) -> tuple[str, str]:
        """Carry out the impact on one VM; return its new host, if it moved, and a detail."""
        impact = job.impact
        action = MachineAction(job, self._settings, self._monitors, self._clock, vm)
        if actions.is_left_off(action):
            host = moves.choose_host(action, impact.candidates_for(vm)) if impact.moves else ""
            return host, "it did not run and stays off"
        return self._impacts[impact.event.type](action, impact)

    def _end(self, action: MachineAction, impact: Impact) -> tuple[str, str]:
        return "", actions.end(action, deletes=impact.deletes)

    def _reboot(self, action: MachineAction, impact: Impact) -> tuple[str, str]:
        return "", actions.reboot(action)

    def _freeze(self, action: MachineAction, impact: Impact) -> tuple[str, str]:
        if impact.moves:
            return self._redeploy(action, impact)
        announced = float(impact.event.duration)
        return "", actions.freeze(action, announced if announced >= 0 else UNANNOUNCED_FREEZE)

    def _redeploy(self, action: MachineAction, impact: Impact) -> tuple[str, str]:
        candidates = impact.candidates_for(action.vm)
        if impact.is_failure or not self.moves_live:
            return moves.rebuild(action, candidates, may_stay=impact.event.operation is Operation.VM_FAIL)
        with self._slots.taken(action.closing, action.tell):
            return moves.move(action, candidates, self._observer), "moved while it ran"

    def _switch(self, vm: Vm, *, on: bool, term: int) -> str:
        machine = QemuMachine(self._settings, self._monitors, vm.name, vm.standing_on)
        with self._terms.switching(vm.name, term) if self._terms else nullcontext():
            return switching.start(machine, self._settings) if on else switching.stop(machine, self._settings)

    def _scan(self) -> None:
        """Connect to every machine, and find new ones, until the driver is closed."""
        known_problems: set[Path] = set()
        while not self._executor.closing.is_set():
            found = {Path(name) for name in glob.glob(self._settings.everywhere)}  # noqa: PTH207 an absolute pattern
            try:
                silent = self._monitors.open_all(found)
            except MonitorProblem:
                return  # the driver was closed meanwhile
            for path, problem in silent.items():
                if path not in known_problems:
                    fields = {"monitor": str(path), "reason": str(problem)}
                    log.warning("cannot observe a machine", extra={"fields": fields})
            known_problems = set(silent)
            dead = {path for path, problem in silent.items() if isinstance(problem, MonitorDead)}
            self._observer.update_sockets(found - dead, dead)
            self._executor.closing.wait(SCAN_EVERY)
