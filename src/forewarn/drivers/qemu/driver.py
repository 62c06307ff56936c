"""A driver for plain QEMU processes: stop and cont, power button and reset, migration between two of them, quit."""

import glob
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

from forewarn.clocks import Clock
from forewarn.core.model import EventType, Sighting, Vm
from forewarn.core.notice import MACHINE_FAILURE
from forewarn.drivers.ledger import Ending
from forewarn.drivers.qemu import checking, deeds, moves, switching
from forewarn.drivers.qemu.deeds import Deed
from forewarn.drivers.qemu.machines import Machine
from forewarn.drivers.qemu.monitors import Dead, Monitors, Trouble
from forewarn.drivers.qemu.settings import QemuSettings, read
from forewarn.drivers.qemu.sights import Sights
from forewarn.drivers.slots import Slots
from forewarn.drivers.switching import Switches
from forewarn.drivers.working import Job, Workshop, told
from forewarn.node.driver import Done, Failed, Impact, Outcome

log = logging.getLogger(__name__)

_LAST_WORDS = 20.0
"""Seconds that work under way may take to come to a point where it can be left."""
LOOK_FOR_MACHINES_EVERY = 1.0
UNANNOUNCED_FREEZE = 5.0


class QemuDriver:
    """Does impacts to QEMU processes over their monitors."""

    moves_to_host = True

    def __init__(self, settings: QemuSettings, clock: Clock, directory: Path | None) -> None:
        self.moves_live = bool(settings.receive)
        self._settings = settings
        self._clock = clock
        self._workshop = Workshop("qemu", directory, clock, self._do)
        self._sights = Sights(settings, clock)
        self._monitors = Monitors(self._sights.hear)
        self._slots = Slots(settings.migrations)
        self._switches = Switches("qemu-switch", clock, self._switch)

    @classmethod
    def from_settings(
        cls,
        settings: dict[str, object],
        clock: Clock,
        hurry: float,
        directory: Path | None = None,
    ) -> Self:
        return cls(read(settings), clock, directory)

    def perform(self, impact: Impact) -> Outcome:
        return self._workshop.perform(impact)

    def outcome_of(self, impact: Impact) -> Outcome:
        return self._workshop.outcome_of(impact)

    def watch(self, report: Callable[[Sighting], None]) -> None:
        self._sights.report = report
        threading.Thread(target=self._look_for_machines, name="qemu-watch", daemon=True).start()

    def switch(self, vm: Vm, *, on: bool) -> Outcome:
        return self._switches.switch(vm, on=on)

    def check(self, vms: tuple[Vm, ...]) -> tuple[str, ...]:
        return tuple(checking.troubles(self._settings, vms))

    def close(self) -> None:
        self._workshop.close(_LAST_WORDS)
        self._monitors.close()

    def _do(self, job: Job) -> Ending:
        """Do it to all VMs at once."""
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
            except Trouble as trouble:
                failures[name] = str(trouble)
        if failures:
            return Failed(told(failures, len(parts)), hosts)
        return Done(hosts, told(details, len(parts)))

    def _do_to(self, job: Job, vm: Vm) -> tuple[str, str]:
        """Do it to one VM; return the host it moved to, if it did, and what there is to say."""
        impact = job.impact
        deed = Deed(job, self._settings, self._monitors, self._clock, vm)
        if deeds.is_left_off(deed):
            host = moves.choose_host(deed, impact.berths_of(vm)) if impact.moves else ""
            return host, "it did not run and stays off"
        match impact.event.type:
            case EventType.PREEMPT | EventType.TERMINATE:
                return "", deeds.end(deed, deletes=impact.deletes)
            case EventType.REBOOT:
                return "", deeds.reboot(deed)
            case EventType.FREEZE if not impact.moves:
                announced = float(impact.event.duration)
                return "", deeds.freeze(deed, announced if announced >= 0 else UNANNOUNCED_FREEZE)
            case _ if impact.is_failure or not self.moves_live:
                may_stay = impact.event.operation == MACHINE_FAILURE
                return moves.rebuild(deed, impact.berths_of(vm), may_stay=may_stay), "started anew"
            case _:
                with self._slots.taken(job.closing, deed.tell):
                    return moves.move(deed, impact.berths_of(vm), self._sights), "moved while it ran"

    def _switch(self, vm: Vm, *, on: bool) -> str:
        machine = Machine(self._settings, self._monitors, vm.name, vm.standing_on)
        return switching.start(machine, self._settings) if on else switching.stop(machine, self._settings)

    def _look_for_machines(self) -> None:
        """Listen to every machine there is, and find new ones, until the driver is closed."""
        puzzling: set[Path] = set()
        while not self._workshop.closing.is_set():
            found = {Path(name) for name in glob.glob(self._settings.everywhere)}  # noqa: PTH207 an absolute pattern
            try:
                silent = self._monitors.open_all(found)
            except Trouble:
                return  # it was closed meanwhile
            for path, trouble in silent.items():
                if path not in puzzling:
                    fields = {"monitor": str(path), "reason": str(trouble)}
                    log.warning("a machine cannot be watched", extra={"fields": fields})
            puzzling = set(silent)
            dead = {path for path, trouble in silent.items() if isinstance(trouble, Dead)}
            self._sights.look(found - dead, dead)
            self._workshop.closing.wait(LOOK_FOR_MACHINES_EVERY)
