"""Context of one impact: its machines, progress file, waits and retries."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from datetime import timedelta
from typing import TypeVar

from forewarn.clocks import Clock
from forewarn.drivers.executor import ImpactJob, MigrationSlots, WorkInterrupted
from forewarn.drivers.libvirt import location
from forewarn.drivers.libvirt.capacity import Reservations
from forewarn.drivers.libvirt.guests import LibvirtGuest
from forewarn.drivers.libvirt.hosts import LibvirtHosts
from forewarn.drivers.libvirt.problems import LibvirtUnreachable
from forewarn.drivers.libvirt.settings import LibvirtSettings

WorkReturn = TypeVar("WorkReturn")

FOUND_STEP = "found"
"""Step: the machine was found on another host than the recorded one."""
POLL_EVERY = 0.1
TELL_EVERY = 0.5
RECONNECT_TIMEOUT = 60.0
"""Seconds to wait for an unreachable host while a machine is in an intermediate state."""


class LibvirtWork:
    """One impact being carried out."""

    def __init__(
        self,
        job: ImpactJob,
        hosts: LibvirtHosts,
        settings: LibvirtSettings,
        clock: Clock,
        slots: MigrationSlots,
        reservations: Reservations,
        *,
        reconnect_every: float,
    ) -> None:
        self.slots = slots
        self.reservations = reservations
        self.impact = job.impact
        self.progress_file = job.progress_file
        self.closed = job.closing
        self.tell = job.tell
        self.hosts = hosts
        self.settings = settings
        self.clock = clock
        self.guests = [LibvirtGuest(hosts, vm) for vm in job.impact.vms]
        self.moved: dict[str, str] = {}
        self.remarks: list[str] = []
        self._reconnect_every = reconnect_every
        self._silent: dict[str, str] | None = None

    def find_guests(self) -> None:
        """Locate the machines before anything is done to one; raise if a location is ambiguous.

        A machine that an earlier process worked on is used where that process found it. Host maintenance does not
        apply to machines that are on another host.
        """
        known = {guest: self.progress_file.step(FOUND_STEP, guest.name) for guest in self.guests}
        for guest, found in known.items():
            if found:
                guest.stay(found.seen["host"], found.seen["uuid"])
        for guest, found in known.items():
            if not found and not any(step.vm == guest.name for step in self.progress_file.steps):
                self._find(guest)
            recorded = self.hosts.called(guest.vm.standing_on)
            if guest.host == recorded:
                continue
            self.moved[guest.name] = guest.host
            if self.impact.event.operation.is_of_host:
                self.remarks.append(f"{guest.name} is on {guest.host} and was not changed")
                self.guests.remove(guest)

    def _find(self, guest: LibvirtGuest) -> None:
        recorded = guest.host
        if self.hosts.knows(recorded):
            # Another client is migrating it: wait until its new host is known.
            self.wait_until(lambda: not guest.is_migrating(), self.deadline(self.settings.longest))
        guest.find()
        if guest.host != recorded:
            self.progress_file.note(FOUND_STEP, guest.name, host=guest.host, uuid=guest.uuid)

    def silent_hosts(self) -> dict[str, str]:
        """Return the hosts that do not answer, with the reason; queried once per event."""
        if self._silent is None:
            self._silent = location.silent_hosts(self.hosts)
        return self._silent

    def wait_until(self, is_so: Callable[[], bool], until: float) -> bool:
        """Poll a condition until it holds or ``until`` has passed; return it. Raise WorkInterrupted on close."""
        while not is_so():
            if time.monotonic() >= until:
                return False
            if self.closed.wait(POLL_EVERY):
                raise WorkInterrupted
        return True

    def do_long(
        self,
        guest: LibvirtGuest,
        call: Callable[[], None],
        what: str,
        after: timedelta | None = None,
        then: Callable[[], None] = lambda: None,
    ) -> None:
        """Run a call that may take minutes; report how much memory is ``what``, such as ``moved``.

        After ``after`` call ``then`` once; abort the job after the timeout. Raise WorkInterrupted if the driver is
        closed meanwhile.
        """
        until = self.deadline(self.settings.longest)
        then_at = self.deadline(after) if after is not None else None
        over: Future[None] = Future()

        def run() -> None:
            try:
                over.set_result(call())  # type: ignore[func-returns-value]
            except BaseException as error:  # noqa: BLE001 it is raised again where the call is awaited
                over.set_exception(error)

        # A daemon thread: libvirt decides whether to continue after the end of this process.
        threading.Thread(target=run, name="libvirt-call", daemon=True).start()
        report_at = time.monotonic() + TELL_EVERY
        while not over.done():
            if self.closed.wait(0.02):
                raise WorkInterrupted
            if time.monotonic() >= report_at:
                self.tell(f"{guest.percent_done()} % of its memory is {what}", guest.name)
                report_at = time.monotonic() + TELL_EVERY
                if then_at is not None and time.monotonic() >= then_at:
                    then_at = None
                    then()
                if time.monotonic() >= until:
                    guest.abort_job()  # repeatedly, because libvirt may not have begun yet
        over.result()

    def await_job(self, guest: LibvirtGuest) -> None:
        """Wait while libvirt is busy with a machine because of an earlier process."""
        self.wait_until(lambda: not guest.has_job(), self.deadline(self.settings.longest))

    def retry(self, call: Callable[[], None]) -> None:
        """Retry a call while the host is unreachable, for a limited time."""
        until = time.monotonic() + RECONNECT_TIMEOUT
        while True:
            try:
                return call()
            except LibvirtUnreachable:
                if time.monotonic() >= until or self.closed.wait(self._reconnect_every):
                    raise

    def run_resumable(self, do: Callable[[], WorkReturn]) -> WorkReturn:
        """Run resumable work; once it has recorded a step, wait for a host that became unreachable.

        Otherwise a stopped machine would stay off.
        """
        until, remarks = self.deadline(self.settings.longest), self.remarks.copy()
        while True:
            try:
                return do()
            except LibvirtUnreachable as error:
                if not self.progress_file.steps:
                    raise
                if time.monotonic() >= until:
                    names = ", ".join(guest.name for guest in self.guests)
                    raise LibvirtUnreachable(f"{error}; the work was left incomplete; check {names}") from None
                self.tell(f"waiting for a host: {error}")
                self.remarks[:] = remarks
                if self.closed.wait(self._reconnect_every):
                    raise WorkInterrupted from None

    def deadline(self, within: timedelta) -> float:
        return time.monotonic() + within.total_seconds()
