"""libvirt connections to hosts and their events: opened on demand, and reopened after a failure.

Without its event loop libvirt receives no events and does not detect the end of a connection.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime
from uuid import uuid4

import libvirt
import msgspec

from forewarn.core.errors import BadInput
from forewarn.core.model import Observation, ObservationKind
from forewarn.core.redaction import shown_uri
from forewarn.drivers.libvirt.problems import (
    DomainAbsent,
    LibvirtUnreachable,
    connection_remedy,
    message_of,
    problem_of,
)

_lock = threading.Lock()
_is_running = False


def run_event_loop() -> None:
    """Run libvirt's event loop for the rest of the process; it must run before the first connection is opened."""
    global _is_running  # noqa: PLW0603 - libvirt has one loop for each process
    with _lock:
        if not _is_running:
            _is_running = True
            libvirt.virEventRegisterDefaultImpl()
            # libvirt prints every error beside raising it; suppress that.
            libvirt.registerErrorHandler(_ignore_error, None)
            threading.Thread(target=_run_loop, name="libvirt", daemon=True).start()


def _run_loop() -> None:
    while True:
        libvirt.virEventRunDefaultImpl()


def _ignore_error(context: object, error: object) -> None:
    pass


REBOOTED = -1
"""Number for the reboot event, which is not a lifecycle event of libvirt."""
_ALIVE_EVERY, _MISSED = 5, 3
"""Keepalive interval in seconds on remote connections, and how many may be missed."""
_DEATHS = {
    libvirt.VIR_DOMAIN_SHUTOFF_CRASHED: libvirt.VIR_DOMAIN_EVENT_STOPPED_CRASHED,
    libvirt.VIR_DOMAIN_SHUTOFF_FAILED: libvirt.VIR_DOMAIN_EVENT_STOPPED_FAILED,
}
"""Shutoff reasons of machines that died, and the matching detail of the stop event."""


class DomainChange(msgspec.Struct, frozen=True):
    """One libvirt event."""

    host: str
    domain: str
    event: int
    detail: int = 0
    uuid: str = ""


class LibvirtHosts:
    """Opens and keeps connections. Thread-safe."""

    def __init__(self, uris: dict[str, str], pattern: str = "") -> None:
        self.uris = dict(uris)
        self._pattern = pattern
        self._also: tuple[str, ...] = ()
        """Hosts of the fleet with a URI from the pattern."""
        self._locks: dict[str, threading.Lock] = {}
        self._open: dict[str, libvirt.virConnect] = {}
        self._listeners: list[Callable[[DomainChange], None]] = []
        self._lock = threading.Lock()
        self._is_closed = False
        self.reboots: Counter[tuple[str, str]] = Counter()
        """Number of reboot events by connection and domain."""
        self._connection_ids: dict[str, str] = {}
        run_event_loop()

    def uri(self, host: str) -> str:
        """Return the libvirt URI of a host; raise BadInput if none is configured."""
        if host in self.uris:
            return self.uris[host]
        if host and self._pattern:
            return self._pattern.replace("{host}", host)
        if not host and len(self.uris) == 1:
            return next(iter(self.uris.values()))
        raise BadInput(f"host {host!r} has no URI; name it in 'hosts' of driver 'libvirt', or set 'uri' for all")

    def knows(self, host: str) -> bool:
        return host in self.uris or bool(host and self._pattern)

    def names(self, first: str = "") -> list[str]:
        """Return every configured host, ``first`` before the others; one of those that share a URI."""
        found: dict[str, str] = {}
        for host in (*([first] if first and self.knows(first) else []), *self.uris, *self._also):
            found.setdefault(self.uri(host), host)
        return list(found.values())

    def know(self, names: Iterable[str]) -> list[str]:
        """Set the hosts of the fleet; return the new ones that have a URI from the pattern."""
        also = tuple(name for name in names if self._pattern and name and name not in self.uris)
        new = [name for name in also if name not in self._also]
        self._also = also
        return new

    def called(self, host: str) -> str:
        """Return the name of a host; the only configured one if the name is empty."""
        return host or (next(iter(self.uris)) if len(self.uris) == 1 else "")

    def listen(self, listener: Callable[[DomainChange], None]) -> None:
        """Call ``listener`` for each event on connected hosts, in libvirt's thread."""
        self._listeners.append(listener)

    def connection(self, host: str) -> libvirt.virConnect:
        """Return a live connection, a new one if needed; raise LibvirtUnreachable."""
        with self._lock:
            lock = self._locks.setdefault(host, threading.Lock())
        with lock:
            if self._is_closed:
                raise LibvirtUnreachable("the driver is closed")
            known = self._open.get(host)
            if known is not None and _is_alive(known):
                return known
            if known is not None:
                _close(known)
            self._open[host] = self._connect(host)
            return self._open[host]

    def domain(self, host: str, name: str, uuid: str = "", *, by_name: bool = True) -> libvirt.virDomain:
        """Return a domain by UUID, else by name if allowed; raise DomainAbsent if there is none."""
        connection = self.connection(host)
        if uuid and by_name:
            with suppress(libvirt.libvirtError):
                return connection.lookupByUUIDString(uuid)
        try:
            return connection.lookupByName(name) if by_name else connection.lookupByUUIDString(uuid)
        except libvirt.libvirtError as error:
            problem = problem_of(host, error)
            if isinstance(problem, DomainAbsent):
                raise DomainAbsent(
                    f"libvirt on {host} has no domain {name}; list its domains with 'virsh list --all'"
                ) from None
            raise problem from None

    def dead(self, host: str) -> list[DomainChange]:
        """Return stop events for machines of a host that are off because they died, as far as libvirt knows."""
        try:
            off = self.connection(host).listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_SHUTOFF)
            why = {(domain.name(), domain.UUIDString()): int(domain.state()[1]) for domain in off}
        except libvirt.libvirtError as error:
            raise problem_of(host, error) from None
        return [
            DomainChange(host, name, libvirt.VIR_DOMAIN_EVENT_STOPPED, _DEATHS[reason], uuid)
            for (name, uuid), reason in why.items()
            if reason in _DEATHS
        ]

    def connection_id(self, host: str) -> str:
        """Return a unique id of the current connection."""
        self.connection(host)
        return self._connection_ids[host]

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            opened, self._open = list(self._open.values()), {}
        for connection in opened:
            _close(connection)

    def _connect(self, host: str) -> libvirt.virConnect:
        try:
            connection = libvirt.open(self.uri(host))
        except libvirt.libvirtError as error:
            uri, said = self.uri(host), message_of(error)
            place = f"on {host} ({shown_uri(uri)})" if host != uri else f"at {shown_uri(uri)}"
            raise LibvirtUnreachable(
                f"libvirt {place} cannot be reached: {said}; {connection_remedy(said)}"
            ) from None
        # Only remote connections support keepalive; hypervisor drivers without events are used without them.
        with suppress(libvirt.libvirtError):
            connection.setKeepAlive(_ALIVE_EVERY, _MISSED)
        connection_id = self._connection_ids[host] = uuid4().hex
        with suppress(libvirt.libvirtError):
            connection.domainEventRegisterAny(
                None, libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE, self._handle_lifecycle, host
            )
            connection.domainEventRegisterAny(
                None, libvirt.VIR_DOMAIN_EVENT_ID_REBOOT, self._handle_reboot, (host, connection_id)
            )
        return connection

    def _handle_lifecycle(self, _: object, domain: libvirt.virDomain, event: int, detail: int, host: str) -> None:
        self._notify(DomainChange(host, domain.name(), event, detail, domain.UUIDString()))

    def _handle_reboot(self, _: object, domain: libvirt.virDomain, source: tuple[str, str]) -> None:
        host, connection_id = source
        self.reboots[connection_id, domain.name()] += 1
        self._notify(DomainChange(host, domain.name(), REBOOTED, uuid=domain.UUIDString()))

    def _notify(self, change: DomainChange) -> None:
        for listener in self._listeners:
            listener(change)


def _is_alive(connection: libvirt.virConnect) -> bool:
    try:
        return bool(connection.isAlive())
    except libvirt.libvirtError:
        return False


def _close(connection: libvirt.virConnect) -> None:
    with suppress(libvirt.libvirtError):
        connection.close()


_STOPPED = {
    libvirt.VIR_DOMAIN_EVENT_STOPPED_SHUTDOWN: (ObservationKind.STOPPED, "it shut down"),
    libvirt.VIR_DOMAIN_EVENT_STOPPED_DESTROYED: (ObservationKind.STOPPED, "it was destroyed"),
    libvirt.VIR_DOMAIN_EVENT_STOPPED_CRASHED: (ObservationKind.CRASHED, "the guest crashed"),
    libvirt.VIR_DOMAIN_EVENT_STOPPED_SAVED: (ObservationKind.STOPPED, "it was saved"),
    libvirt.VIR_DOMAIN_EVENT_STOPPED_FAILED: (ObservationKind.CRASHED, "its process on the host died"),
}
_STARTED = {
    libvirt.VIR_DOMAIN_EVENT_STARTED_BOOTED: "it was started",
    libvirt.VIR_DOMAIN_EVENT_STARTED_RESTORED: "it was restored",
}


def observation_of(change: DomainChange, at: datetime, *, is_found: bool = False) -> Observation | None:
    """Return the observation; None for events without meaning here, such as a pause or a migration."""
    match change.event:
        case _ if change.event == REBOOTED:
            what, how = ObservationKind.REBOOTED, "it rebooted"
        case libvirt.VIR_DOMAIN_EVENT_CRASHED:
            what, how = ObservationKind.CRASHED, "the guest crashed"
        case libvirt.VIR_DOMAIN_EVENT_STOPPED if change.detail in _STOPPED:
            what, how = _STOPPED[change.detail]
        case libvirt.VIR_DOMAIN_EVENT_STARTED if change.detail in _STARTED:
            what, how = ObservationKind.STARTED, _STARTED[change.detail]
        case libvirt.VIR_DOMAIN_EVENT_UNDEFINED if change.detail == libvirt.VIR_DOMAIN_EVENT_UNDEFINED_REMOVED:
            what, how = ObservationKind.GONE, "it was undefined"
        case _:
            return None
    detail = f"{how}, reported by libvirt on {change.host}"
    return Observation(change.domain, what, at, detail, vm_id=change.uuid, is_found=is_found)
