"""Detects machines that other clients moved: queries their location after libvirt events, and reports moves.

Moves without an event are found too: each host is listed on connection. A crash or a removal is reported only if the
machine is not on another host; a migration causes the same events on the source host.
"""

import logging
import queue
import threading
from collections.abc import Callable
from contextlib import suppress

import libvirt
import msgspec

from forewarn.clocks import Clock
from forewarn.core.model import Observation, ObservationKind
from forewarn.drivers.libvirt import location
from forewarn.drivers.libvirt.hosts import DomainChange, LibvirtHosts
from forewarn.drivers.libvirt.problems import LibvirtProblem, problem_of

log = logging.getLogger(__name__)

_SETTLES_WITHIN = 0.3
"""Seconds in which related libvirt events arrive."""
_POLL_INTERVAL = 1.0
"""Seconds between two checks whether the driver's own work on a machine is over."""
_PLACING = {
    libvirt.VIR_DOMAIN_EVENT_DEFINED,
    libvirt.VIR_DOMAIN_EVENT_UNDEFINED,
    libvirt.VIR_DOMAIN_EVENT_STARTED,
    libvirt.VIR_DOMAIN_EVENT_SUSPENDED,
    libvirt.VIR_DOMAIN_EVENT_RESUMED,
    libvirt.VIR_DOMAIN_EVENT_STOPPED,
}


class _LocationQuery(msgspec.Struct, frozen=True):
    uuid: str
    name: str
    lost: Observation | None = None
    """Observation to report if the machine is on no other host."""
    lost_on: str = ""


class MoveDetector:
    """Queries in its own thread: libvirt's event thread must not wait for libvirt."""

    def __init__(self, hosts: LibvirtHosts, clock: Clock, closing: threading.Event) -> None:
        self._hosts = hosts
        self._clock = clock
        self._closing = closing
        self._report: Callable[[Observation], None] = lambda _: None
        self._is_ours: Callable[[str, str], bool] = lambda *_: False
        self._questions: queue.SimpleQueue[_LocationQuery] = queue.SimpleQueue()
        self._listed: dict[str, dict[str, tuple[str, bool]]] = {}
        """Name of each machine of each host, and whether it was active, when last listed."""
        self._warned: set[tuple[str, ...]] = set()

    def start(self, report: Callable[[Observation], None], is_ours: Callable[[str, str], bool]) -> None:
        """Start reporting; a machine that ``is_ours``, by name or UUID, is being worked on by this driver."""
        self._report, self._is_ours = report, is_ours
        threading.Thread(target=self._run, name="libvirt-follow", daemon=True).start()

    def handle_event(self, change: DomainChange) -> None:
        """Process a libvirt event; thread-safe."""
        if change.event in _PLACING and change.uuid:
            with suppress(KeyError):
                self._listed[change.host][change.uuid] = (change.domain, True)
            self.ask(change.domain, change.uuid)

    def ask(self, name: str, uuid: str, lost: Observation | None = None, lost_on: str = "") -> None:
        """Enqueue a query for the location of a machine."""
        self._questions.put(_LocationQuery(uuid, name, lost, lost_on))

    def list_host(self, host: str) -> None:
        """List the machines of a newly connected host; raise LibvirtProblem."""
        try:
            domains = self._hosts.connection(host).listAllDomains()
            listed = {each.UUIDString(): (each.name(), bool(each.isActive())) for each in domains}
        except libvirt.libvirtError as error:
            raise problem_of(host, error, "its machines") from None
        self._listed[host] = listed
        others = [machines for each, machines in self._listed.items() if each != host]
        has_all = self._listed.keys() >= set(self._hosts.names())
        for uuid, (name, is_active) in listed.items():
            if any(uuid in machines for machines in others) or not (is_active or has_all):
                self.ask(name, uuid)
            else:
                self._report_location(name, uuid, host, "found there")

    def _run(self) -> None:
        waiting: dict[_LocationQuery, None] = {}
        while not self._closing.is_set():
            with suppress(queue.Empty):
                waiting[self._questions.get(timeout=_POLL_INTERVAL)] = None
                self._closing.wait(_SETTLES_WITHIN)
                while True:
                    waiting[self._questions.get_nowait()] = None
            # Skip machines that this driver works on; they are queried when that is over.
            ready = [each for each in waiting if not self._is_ours(each.name, each.uuid)]
            for question in ready:
                del waiting[question]
                if not self._closing.is_set():
                    self._answer(question)

    def _answer(self, question: _LocationQuery) -> None:
        place = None
        try:
            found = location.survey_hosts(self._hosts, question.name, question.uuid)
            self._warn(found)
            place = found.place("")
        except LibvirtProblem as error:
            fields = {"vm": question.name, "reason": str(error)}
            log.info("location of a machine is unknown", extra={"fields": fields})
        is_elsewhere = place and place.host != question.lost_on and place.state.is_active
        if place:
            self._report_location(
                question.name, place.uuid, place.host, "runs there" if place.state.runs else "is there"
            )
        if question.lost and not is_elsewhere:
            self._report(question.lost)

    def _report_location(self, name: str, uuid: str, host: str, how: str) -> None:
        namesakes = {each for machines in self._listed.values() for each, (so, _) in machines.items() if so == name}
        # If two machines have that name, only the UUID identifies the VM.
        vm = name if namesakes <= {uuid} else ""
        if not self._is_ours(name, uuid):
            detail = f"{how}, reported by libvirt on {host}"
            self._report(Observation(vm, ObservationKind.MOVED, self._clock.now(), detail, host=host, vm_id=uuid))

    def _warn(self, found: location.LocationSurvey) -> None:
        """Log once that a machine is defined on two hosts without a migration."""
        hosts = tuple(sorted(copy.host for copy in found.copies))
        key = (found.name, *hosts)
        if len(hosts) > 1 and key not in self._warned and not any(copy.state.is_migrating for copy in found.copies):
            self._warned.add(key)
            running = " and ".join(copy.host for copy in found.copies if copy.state.runs)
            fields = {"vm": found.name, "hosts": " and ".join(hosts), "runs_on": running or "none"}
            log.warning("a machine is defined on two hosts", extra={"fields": fields})
