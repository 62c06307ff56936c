"""The driver for machines that libvirt keeps: QEMU on this machine, on others over SSH or TLS, or within the process.

What a crash cut off is brought to its end once the node asks for its outcome: a paused machine goes on, a stopped one
starts, and libvirt is asked for what is not written down.
"""

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

from forewarn.clocks import Clock
from forewarn.config.tables import read_table
from forewarn.core.errors import ForewarnError
from forewarn.core.model import EventType, Sighting, Vm
from forewarn.drivers.ledger import Ending
from forewarn.drivers.libvirt import checking
from forewarn.drivers.libvirt.freezing import freeze
from forewarn.drivers.libvirt.hosts import Happening, Hosts
from forewarn.drivers.libvirt.moving import redeploy
from forewarn.drivers.libvirt.problems import Trouble, Unreachable
from forewarn.drivers.libvirt.rebooting import reboot
from forewarn.drivers.libvirt.removing import remove
from forewarn.drivers.libvirt.settings import LibvirtSettings
from forewarn.drivers.libvirt.sights import sighting
from forewarn.drivers.libvirt.work import Work
from forewarn.drivers.working import Interrupted, Job, Workshop
from forewarn.node.driver import Failed, Impact, Outcome

log = logging.getLogger(__name__)

_RECONNECT = 10.0
_LAST_WORDS = 5.0
"""Seconds that work under way may take to come to a point where it can be left."""
_ECHO = 1.0
"""Seconds after our own work within which what is seen of a machine is taken for its echo."""


class LibvirtDriver:
    """Does impacts through libvirt."""

    def __init__(self, settings: LibvirtSettings, clock: Clock, directory: Path | None) -> None:
        self.moves_live = settings.redeploy == "migrate"
        self._settings = settings
        self._clock = clock
        self._workshop = Workshop("libvirt", directory, clock, self._do)
        self._hosts = Hosts(settings.hosts, settings.uri)
        self._ours: dict[str, float] = {}
        """Until when what happens to a machine is our own doing."""
        self._latest: dict[str, int] = {}
        """What was heard last of each machine."""
        self._report: Callable[[Sighting], None] | None = None

    @classmethod
    def from_settings(
        cls,
        settings: dict[str, object],
        clock: Clock,
        hurry: float,
        directory: Path | None = None,
    ) -> Self:
        return cls(read_table("driver 'libvirt'", settings, LibvirtSettings), clock, directory)

    def perform(self, impact: Impact) -> Outcome:
        return self._workshop.perform(impact)

    def outcome_of(self, impact: Impact) -> Outcome:
        return self._workshop.outcome_of(impact)

    def watch(self, report: Callable[[Sighting], None]) -> None:
        self._report = report
        self._hosts.listen(self._see)
        for host in self._settings.hosts:
            threading.Thread(target=self._keep_watch, args=(host,), name=f"libvirt-{host}", daemon=True).start()

    def check(self, vms: tuple[Vm, ...]) -> tuple[str, ...]:
        return tuple(checking.troubles(self._hosts, vms, self._settings))

    def close(self) -> None:
        self._report = None
        # Whoever has paused machines lets them go on first.
        self._workshop.close(_LAST_WORDS)
        self._hosts.close()

    def _do(self, job: Job) -> Ending:
        if job.is_resumed:
            self._await_hosts(job)
        names = [vm.name for vm in job.impact.vms]
        self._ours |= dict.fromkeys(names, float("inf"))
        work = Work(job, self._hosts, self._settings, self._clock)
        try:
            return _carry_out(work)
        except ForewarnError as error:
            if job.closing.is_set():
                raise Interrupted from None
            return Failed(str(error), work.moved)
        finally:
            self._ours |= dict.fromkeys(names, time.monotonic() + _ECHO)

    def _await_hosts(self, job: Job) -> None:
        """Wait for hosts that do not answer yet, for nobody else can say what a crash left there."""
        waits_for = ""
        while True:
            try:
                for vm in job.impact.vms:
                    self._hosts.connection(vm.standing_on)
            except Unreachable as error:
                if waits_for != str(error):
                    waits_for = str(error)
                    log.warning("event %s waits to be brought to its end: %s", job.impact.event.id, error)
                job.tell(f"waiting for a host: {error}")
                if job.closing.wait(_RECONNECT):
                    raise Interrupted from None
            else:
                return

    def _keep_watch(self, host: str) -> None:
        """Keep a connection open, for without one nothing is heard; see who died while there was none."""
        was_silent, ear = False, ""
        while not self._workshop.closing.is_set():
            try:
                if ear != (ear := self._hosts.ear(host)):
                    self._see_the_dead(host)
                if was_silent:
                    log.info("libvirt on %s answers again", host)
                was_silent = False
            except Trouble as error:
                if not was_silent and not self._workshop.closing.is_set():
                    log.warning("nothing is seen of the machines on %s: %s", host, error)
                was_silent = True
            self._workshop.closing.wait(_RECONNECT)

    def _see_the_dead(self, host: str) -> None:
        for death in self._hosts.dead(host):
            if self._latest.get(death.domain) != death.event:
                self._see(death)

    def _see(self, happening: Happening) -> None:
        report = self._report
        self._latest[happening.domain] = happening.event
        if report is None or self._ours.get(happening.domain, 0.0) > time.monotonic():
            return
        seen = sighting(happening, self._clock.now())
        if seen:
            report(seen)


def _carry_out(work: Work) -> Ending:
    if work.impact.moves:
        return redeploy(work)
    match work.impact.event.type:
        case EventType.FREEZE:
            return freeze(work)
        case EventType.REBOOT:
            return reboot(work)
        case EventType.REDEPLOY:
            return redeploy(work)
        case EventType.PREEMPT | EventType.TERMINATE:
            return remove(work)
