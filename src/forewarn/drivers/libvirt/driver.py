"""The driver for machines that libvirt keeps: QEMU on this machine, on others over SSH or TLS, or within the process.

    perform ──▶ begun in the ledger ──▶ steps, each written down before it is taken ──▶ ended in the ledger

What a crash cut off is brought to its end once the node asks for its outcome: a paused machine goes on, a stopped one
starts, and libvirt is asked for what is not written down. Nothing is done twice.
"""

import logging
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Self

from forewarn.clocks import Clock
from forewarn.config.tables import read_table
from forewarn.core.errors import ForewarnError
from forewarn.core.model import EventType, Sighting, Vm
from forewarn.drivers.ledger import Ending, Ledger, Page
from forewarn.drivers.libvirt import checking
from forewarn.drivers.libvirt.freezing import freeze
from forewarn.drivers.libvirt.hosts import Happening, Hosts
from forewarn.drivers.libvirt.moving import redeploy
from forewarn.drivers.libvirt.problems import Trouble, Unreachable
from forewarn.drivers.libvirt.rebooting import reboot
from forewarn.drivers.libvirt.removing import remove
from forewarn.drivers.libvirt.settings import LibvirtSettings
from forewarn.drivers.libvirt.sights import sighting
from forewarn.drivers.libvirt.work import Interrupted, Work
from forewarn.drivers.record import Locked
from forewarn.node.driver import Failed, Impact, NotBegun, Outcome, Underway, Unknowable

log = logging.getLogger(__name__)

CHECK_AGAIN = timedelta(seconds=1)
_RECONNECT = 10.0
_LAST_WORDS = 5.0
"""Seconds that work under way may take to come to a point where it can be left."""
_ECHO = 1.0
"""Seconds after our own work within which what is seen of a machine is taken for its echo."""


class LibvirtDriver:
    """Does impacts through libvirt, in the thread that asks."""

    def __init__(self, settings: LibvirtSettings, clock: Clock, directory: Path | None) -> None:
        self.moves_live = settings.redeploy == "migrate"
        self._settings = settings
        self._clock = clock
        self._closed = threading.Event()
        self._ledger = Ledger(directory, clock)
        self._hosts = Hosts(settings.hosts, settings.uri)
        self._at_work = 0
        self._is_idle = threading.Condition()
        self._ours: dict[str, float] = {}
        """Until when what happens to a machine is our own doing."""
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
        try:
            with self._ledger.held(impact.event.id) as page:
                if page.ending:
                    return page.ending
                if page.begun is None:
                    page.begin(impact)
                return self._carry_out(impact, page)
        except (Locked, Interrupted):
            return self._later()
        except OSError as error:
            place = self._ledger.directory
            return Failed(f"what is done must be written down first, and cannot be: {error}; make room in {place}")

    def outcome_of(self, impact: Impact) -> Outcome:
        try:
            page = self._ledger.read(impact.event.id)
        except Locked:
            return self._later()
        except OSError as error:
            return Unknowable(f"the record of the work cannot be read: {error}")
        if page.ending:
            return page.ending
        if page.begun:
            # Nobody holds it, so a crash cut it off. It is still wanted, for the node asks; so it goes on.
            threading.Thread(target=self._finish, args=(impact.event.id,), name="libvirt-finish", daemon=True).start()
            return self._later()
        if self._ledger.may_have_forgotten(impact.attempted_at):
            return Unknowable("it was attempted so long ago that no record of it is kept")
        return NotBegun()

    def watch(self, report: Callable[[Sighting], None]) -> None:
        self._report = report
        self._hosts.listen(self._see)
        for host in self._settings.hosts:
            threading.Thread(target=self._keep_watch, args=(host,), name=f"libvirt-{host}", daemon=True).start()

    def check(self, vms: tuple[Vm, ...]) -> tuple[str, ...]:
        return tuple(checking.troubles(self._hosts, vms))

    def close(self) -> None:
        if not self._closed.is_set():
            self._closed.set()
            self._report = None
            with self._is_idle:
                # Whoever has paused machines lets them go on first.
                self._is_idle.wait_for(lambda: self._at_work == 0, _LAST_WORDS)
            self._hosts.close()
            self._ledger.close()

    def _carry_out(self, impact: Impact, page: Page) -> Ending:
        names = [vm.name for vm in impact.vms]
        self._ours |= dict.fromkeys(names, float("inf"))
        with self._is_idle:
            self._at_work += 1
        work = Work(impact, page, self._hosts, self._settings, self._clock, self._closed)
        try:
            return page.end(self._do(work))
        except ForewarnError as error:
            if self._closed.is_set():
                raise Interrupted from None
            return page.end(Failed(str(error), work.moved))
        finally:
            self._ours |= dict.fromkeys(names, time.monotonic() + _ECHO)
            with self._is_idle:
                self._at_work -= 1
                self._is_idle.notify_all()

    def _do(self, work: Work) -> Ending:
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

    def _finish(self, event: str) -> None:
        """Bring to its end what a crash cut off; a host that does not answer yet is waited for."""
        while not self._closed.is_set():
            try:
                with self._ledger.held(event) as page:
                    if page.begun and not page.ending:
                        for vm in page.begun.vms:
                            self._hosts.connection(vm.standing_on)
                        self._carry_out(page.begun, page)
            except Unreachable as error:
                log.warning("event %s waits to be brought to its end: %s", event, error)
                self._closed.wait(_RECONNECT)
            except (Locked, Interrupted):
                return
            except OSError:
                log.exception("event %s cannot be brought to its end", event)
                return
            else:
                return

    def _keep_watch(self, host: str) -> None:
        """Keep a connection open, for without one nothing is heard."""
        was_silent = False
        while not self._closed.is_set():
            try:
                self._hosts.connection(host)
                if was_silent:
                    log.info("libvirt on %s answers again", host)
                was_silent = False
            except Trouble as error:
                if not was_silent and not self._closed.is_set():
                    log.warning("nothing is seen of the machines on %s: %s", host, error)
                was_silent = True
            self._closed.wait(_RECONNECT)

    def _see(self, happening: Happening) -> None:
        report = self._report
        if report is None or self._ours.get(happening.domain, 0.0) > time.monotonic():
            return
        seen = sighting(happening, self._clock.now())
        if seen:
            report(seen)

    def _later(self) -> Underway:
        return Underway(self._clock.now() + CHECK_AGAIN)
