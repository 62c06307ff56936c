"""The libvirt driver: QEMU on this machine, on other hosts over SSH or TLS, or embedded in the process.

Work that a crash interrupted is continued when the node asks for its outcome: a paused machine is resumed, a stopped
one is started, and libvirt is queried for what is not recorded.
"""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Self

from forewarn.clocks import Clock
from forewarn.config.tables import read_table
from forewarn.core.errors import ForewarnError
from forewarn.core.model import EventType, Host, Observation, ObservationKind, Vm
from forewarn.core.placement import Capacity
from forewarn.drivers.executor import ImpactJob, MigrationSlots, WorkExecutor, WorkInterrupted
from forewarn.drivers.host_program import HostCommands
from forewarn.drivers.libvirt import capacity, checks, switching
from forewarn.drivers.libvirt.capacity import Reservations
from forewarn.drivers.libvirt.freezing import freeze
from forewarn.drivers.libvirt.hosts import DomainChange, LibvirtHosts, observation_of
from forewarn.drivers.libvirt.move_detector import MoveDetector
from forewarn.drivers.libvirt.moving import redeploy
from forewarn.drivers.libvirt.problems import LibvirtProblem, LibvirtUnreachable
from forewarn.drivers.libvirt.rebooting import reboot
from forewarn.drivers.libvirt.removing import remove
from forewarn.drivers.libvirt.settings import LibvirtSettings
from forewarn.drivers.libvirt.work import LibvirtWork
from forewarn.drivers.progress_store import ImpactEnding
from forewarn.drivers.switch_executor import SwitchExecutor
from forewarn.node.driver import Impact, ImpactFailed, ImpactOutcome, refuse_type
from forewarn.wire.azure_names import show_id

log = logging.getLogger(__name__)

_RECONNECT = 10.0
_CLOSE_TIMEOUT = 5.0
"""Seconds that work under way may take to come to a point where it can be left."""
_IMPACTS = {
    EventType.FREEZE: freeze,
    EventType.REBOOT: reboot,
    EventType.REDEPLOY: redeploy,
    EventType.PREEMPT: remove,
    EventType.TERMINATE: remove,
}
"""What each type of event does to machines."""
_MAY_BE_A_MOVE = {ObservationKind.CRASHED, ObservationKind.GONE}
"""A migration causes the same events on the source host."""
_OWN_EFFECTS_LAST = 1.0
"""Seconds after the driver's own work in which events of a machine are attributed to it."""


class LibvirtDriver(HostCommands):
    """Carries out impacts through libvirt."""

    has_local_records = True

    def __init__(
        self, settings: LibvirtSettings, clock: Clock, directory: Path | None, *, reconnect_every: float = 1.0
    ) -> None:
        """``reconnect_every``: seconds between two connection attempts while work waits for a host."""
        self.moves_live = self.moves_to_host = settings.redeploy == "migrate"
        self._settings = settings
        self._clock = clock
        self._reconnect_every = reconnect_every
        self._executor = WorkExecutor("libvirt", directory, clock, self._do)
        self._hosts = LibvirtHosts(settings.hosts, settings.uri)
        self._slots = MigrationSlots(settings.migrations)
        self._reservations = Reservations()
        self._switch_executor = SwitchExecutor("libvirt-switch", clock, self._switch)
        self._move_detector = MoveDetector(self._hosts, clock, self._executor.closing)
        self._ours: dict[str, float] = {}
        """Until when events of a machine are caused by the driver itself, by name and UUID."""
        self._latest: dict[str, int] = {}
        """The last event of each machine."""
        self._report: Callable[[Observation], None] | None = None
        self._watched: set[str] = set()
        self.use_host_program(settings.host_program, clock, directory)

    @classmethod
    def from_settings(
        cls, settings: dict[str, object], clock: Clock, hurry: float, directory: Path | None = None
    ) -> Self:
        return cls(read_table("driver 'libvirt'", settings, LibvirtSettings), clock, directory)

    def perform(self, impact: Impact) -> ImpactOutcome:
        if impact.event.type not in _IMPACTS:
            return refuse_type(impact.event)
        return self._executor.perform(impact)

    def outcome_of(self, impact: Impact) -> ImpactOutcome:
        return self._executor.outcome_of(impact)

    def watch(self, report: Callable[[Observation], None]) -> None:
        self._report = report
        self._move_detector.start(report, self._is_ours)
        self._hosts.listen(self._observe)
        self._hosts.listen(self._detect_move)
        for host in self._hosts.names():
            self._begin_watch(host)

    def resync(self) -> None:
        self._latest.clear()
        for host in self._hosts.names() if self._report else ():
            threading.Thread(target=self._list_again, args=(host,), name=f"libvirt-list-{host}", daemon=True).start()

    def know_hosts(self, names: tuple[str, ...]) -> None:
        for host in self._hosts.know(names):
            if self._report:
                self._begin_watch(host)

    def _begin_watch(self, host: str) -> None:
        if host not in self._watched:
            self._watched.add(host)
            threading.Thread(target=self._watch_host, args=(host,), name=f"libvirt-{host}", daemon=True).start()

    def _detect_move(self, change: DomainChange) -> None:
        if self._may_move:
            self._move_detector.handle_event(change)

    def switch(self, vm: Vm, *, on: bool) -> ImpactOutcome:
        return self._switch_executor.switch(vm, on=on)

    def capacity(self, vms: tuple[Vm, ...], hosts: tuple[Host, ...]) -> Capacity:
        return capacity.read_capacity(self._hosts, self._settings, vms, hosts, self._reservations.current()[1])

    def check(self, vms: tuple[Vm, ...]) -> tuple[str, ...]:
        return tuple(checks.find_problems(self._hosts, vms, self._settings))

    def close(self) -> None:
        self._report = None
        # Work that has paused machines resumes them first.
        self._executor.close(_CLOSE_TIMEOUT)
        self._hosts.close()

    def _do(self, job: ImpactJob) -> ImpactEnding:
        if job.is_resumed:
            self._await_hosts(job)
        machines = [(vm.name, vm.instance.vm_id.lower()) for vm in job.impact.vms]
        names = [each for machine in machines for each in machine if each]
        self._ours |= dict.fromkeys(names, float("inf"))
        work = LibvirtWork(
            job,
            self._hosts,
            self._settings,
            self._clock,
            self._slots,
            self._reservations,
            reconnect_every=self._reconnect_every,
        )
        try:
            return _carry_out(work)
        except ForewarnError as error:
            if job.closing.is_set():
                raise WorkInterrupted from None
            return ImpactFailed(str(error), work.moved)
        finally:
            self._ours |= dict.fromkeys(names, time.monotonic() + _OWN_EFFECTS_LAST)
            for machine in machines if self._may_move else ():
                self._move_detector.ask(*machine)  # another client may have moved it meanwhile

    def _switch(self, vm: Vm, *, on: bool, term: int) -> str:
        machine = vm.name, vm.instance.vm_id.lower()
        names = [each for each in machine if each]
        self._ours |= dict.fromkeys(names, float("inf"))
        try:
            return switching.start(self._hosts, vm) if on else switching.stop(self._hosts, vm, self._settings.grace)
        finally:
            self._ours |= dict.fromkeys(names, time.monotonic() + _OWN_EFFECTS_LAST)
            if self._may_move:
                self._move_detector.ask(*machine)  # it may be on another host than the recorded one

    def _await_hosts(self, job: ImpactJob) -> None:
        """Wait for hosts that do not answer yet: only they know the state after a crash."""
        waits_for = ""
        while True:
            try:
                for vm in job.impact.vms:
                    self._hosts.connection(vm.standing_on)
            except LibvirtUnreachable as error:
                if waits_for != str(error):
                    waits_for = str(error)
                    fields = {"event": show_id(job.impact.event.id), "reason": waits_for}
                    log.warning("event waits for a host", extra={"fields": fields})
                job.tell(f"waiting for a host: {error}")
                if job.closing.wait(_RECONNECT):
                    raise WorkInterrupted from None
            else:
                return

    def _watch_host(self, host: str) -> None:
        """Keep a connection open to receive events; report machines that died while there was none."""
        was_silent, connection_id = False, ""
        while not self._executor.closing.is_set():
            try:
                if connection_id != (connection_id := self._hosts.connection_id(host)):
                    self._list(host)
                if was_silent:
                    log.info("libvirt answers again", extra={"fields": {"host": host}})
                was_silent = False
            except LibvirtProblem as error:
                if not was_silent and not self._executor.closing.is_set():
                    fields = {"host": host, "reason": str(error)}
                    log.warning("cannot observe the machines of a host", extra={"fields": fields})
                was_silent = True
            self._executor.closing.wait(_RECONNECT)

    def _list_again(self, host: str) -> None:
        with suppress(LibvirtProblem):  # it is listed when it is connected again
            self._list(host)

    def _list(self, host: str) -> None:
        if self._may_move:
            self._move_detector.list_host(host)
        self._report_dead(host)

    def _report_dead(self, host: str) -> None:
        for death in self._hosts.dead(host):
            if self._latest.get(death.domain) != death.event:
                self._observe(death, is_found=True)

    def _observe(self, change: DomainChange, *, is_found: bool = False) -> None:
        report = self._report
        self._latest[change.domain] = change.event
        if report is None or self._is_ours(change.domain, change.uuid):
            return
        seen = observation_of(change, self._clock.now(), is_found=is_found)
        if seen and seen.what in _MAY_BE_A_MOVE and self._may_move:
            self._move_detector.ask(change.domain, change.uuid, seen, change.host)
        elif seen:
            report(seen)

    @property
    def _may_move(self) -> bool:
        """Whether there is another host that a machine could be on."""
        return len(self._hosts.names()) > 1

    def _is_ours(self, name: str, uuid: str) -> bool:
        """Return whether events of a machine are caused by the driver itself."""
        return max(self._ours.get(name, 0.0), self._ours.get(uuid, 0.0)) > time.monotonic()


def _carry_out(work: LibvirtWork) -> ImpactEnding:
    carry_out = redeploy if work.impact.moves else _IMPACTS[work.impact.event.type]
    if carry_out is not freeze:  # that resumes what it has paused, also if a machine is not found
        work.find_guests()
    return carry_out(work)
