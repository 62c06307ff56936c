"""Follows machines that others move: asks where a machine is when libvirt tells that it may be elsewhere; reports it.

Also moves that nobody saw are found: each host is listed when it is connected to. A crash or a removal is reported
only where the machine is not on another host; a migration leaves such traces on the host that the machine left.
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
"""Seconds in which libvirt tells what belongs together."""
_LOOK_EVERY = 1.0
"""Seconds between two looks at whether our own work on a machine is over."""
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
    """What is to be reported where the machine is on no other host."""
    lost_on: str = ""


class MoveDetector:
    """Asks in a thread of its own, for libvirt's thread must not wait for an answer of libvirt's."""

    def __init__(self, hosts: LibvirtHosts, clock: Clock, closing: threading.Event) -> None:
        self._hosts = hosts
        self._clock = clock
        self._closing = closing
        self._report: Callable[[Observation], None] = lambda _: None
        self._is_ours: Callable[[str, str], bool] = lambda *_: False
        self._questions: queue.SimpleQueue[_LocationQuery] = queue.SimpleQueue()
        self._listed: dict[str, dict[str, tuple[str, bool]]] = {}
        """The name of each machine of each host, and whether it was active, as last listed."""
        self._warned: set[tuple[str, ...]] = set()

    def start(self, report: Callable[[Observation], None], is_ours: Callable[[str, str], bool]) -> None:
        """Begin to report; what ``is_ours``, by name or UUID, is under way and explains itself."""
        self._report, self._is_ours = report, is_ours
        threading.Thread(target=self._run, name="libvirt-follow", daemon=True).start()

    def hear(self, change: DomainChange) -> None:
        """Take an event of libvirt's; from any thread."""
        if change.event in _PLACING and change.uuid:
            with suppress(KeyError):
                self._listed[change.host][change.uuid] = (change.domain, True)
            self.ask(change.domain, change.uuid)

    def ask(self, name: str, uuid: str, lost: Observation | None = None, lost_on: str = "") -> None:
        """Have it found out where a machine is."""
        self._questions.put(_LocationQuery(uuid, name, lost, lost_on))

    def list_host(self, host: str) -> None:
        """Look at all machines of a host that has been connected to; raise Trouble."""
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
                self._tell(name, uuid, host, "found there")

    def _run(self) -> None:
        waiting: dict[_LocationQuery, None] = {}
        while not self._closing.is_set():
            with suppress(queue.Empty):
                waiting[self._questions.get(timeout=_LOOK_EVERY)] = None
                self._closing.wait(_SETTLES_WITHIN)
                while True:
                    waiting[self._questions.get_nowait()] = None
            # Our own work on a machine explains itself; where the machine is then is asked when that is over.
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
            log.info("nobody can tell where a machine is", extra={"fields": fields})
        is_elsewhere = place and place.host != question.lost_on and place.state.is_active
        if place:
            self._tell(question.name, place.uuid, place.host, "runs there" if place.state.runs else "is there")
        if question.lost and not is_elsewhere:
            self._report(question.lost)

    def _tell(self, name: str, uuid: str, host: str, how: str) -> None:
        namesakes = {each for machines in self._listed.values() for each, (so, _) in machines.items() if so == name}
        # Where two machines have that name, only the UUID says which VM it is.
        vm = name if namesakes <= {uuid} else ""
        if not self._is_ours(name, uuid):
            detail = f"{how}, says libvirt on {host}"
            self._report(Observation(vm, ObservationKind.MOVED, self._clock.now(), detail, host=host, vm_id=uuid))

    def _warn(self, found: location.LocationSurvey) -> None:
        """Log once that a machine is on two hosts, and no migration is under way."""
        hosts = tuple(sorted(copy.host for copy in found.copies))
        key = (found.name, *hosts)
        if len(hosts) > 1 and key not in self._warned and not any(copy.state.is_migrating for copy in found.copies):
            self._warned.add(key)
            running = " and ".join(copy.host for copy in found.copies if copy.state.runs)
            fields = {"vm": found.name, "hosts": " and ".join(hosts), "runs_on": running or "none"}
            log.warning("a machine is defined on two hosts", extra={"fields": fields})
