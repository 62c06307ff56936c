"""The hosts of a fleet as libvirt reaches them: a connection each, opened when needed, and again when it died."""

import threading
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from uuid import uuid4

import libvirt
import msgspec

from forewarn.core.errors import BadInput
from forewarn.core.redaction import shown_uri
from forewarn.drivers.libvirt import event_loop
from forewarn.drivers.libvirt.problems import (
    DomainAbsent,
    LibvirtUnreachable,
    connection_remedy,
    message_of,
    problem_of,
)

REBOOTED = -1
"""Stands among libvirt's numbers of events for the one that has none."""
_ALIVE_EVERY, _MISSED = 5, 3
"""Seconds between two signs of life on a connection to elsewhere, and how many may be missed."""
_DEATHS = {
    libvirt.VIR_DOMAIN_SHUTOFF_CRASHED: libvirt.VIR_DOMAIN_EVENT_STOPPED_CRASHED,
    libvirt.VIR_DOMAIN_SHUTOFF_FAILED: libvirt.VIR_DOMAIN_EVENT_STOPPED_FAILED,
}
"""Why a machine is off that died, and the end that libvirt told when it did."""


class DomainChange(msgspec.Struct, frozen=True):
    """One event of libvirt's."""

    host: str
    domain: str
    event: int
    detail: int = 0
    uuid: str = ""


class LibvirtHosts:
    """Opens and keeps connections. Safe from several threads."""

    def __init__(self, uris: dict[str, str], pattern: str = "") -> None:
        self.uris = dict(uris)
        self._pattern = pattern
        self._also: tuple[str, ...] = ()
        """The hosts of the fleet that have their URI by the pattern."""
        self._locks: dict[str, threading.Lock] = {}
        self._open: dict[str, libvirt.virConnect] = {}
        self._listeners: list[Callable[[DomainChange], None]] = []
        self._lock = threading.Lock()
        self._is_closed = False
        self.reboots: Counter[tuple[str, str]] = Counter()
        """How often each domain was heard to start over without its process ending, by each ear."""
        self._connection_ids: dict[str, str] = {}
        event_loop.run()

    def uri(self, host: str) -> str:
        """Return where libvirt of that host is; raise BadInput when nobody said."""
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
        """Return every host that is configured, ``first`` before the others; one of those that share a URI."""
        found: dict[str, str] = {}
        for host in (*([first] if first and self.knows(first) else []), *self.uris, *self._also):
            found.setdefault(self.uri(host), host)
        return list(found.values())

    def know(self, names: Iterable[str]) -> list[str]:
        """Take the hosts of the fleet; return those that are new, and have their URI by the pattern."""
        also = tuple(name for name in names if self._pattern and name and name not in self.uris)
        new = [name for name in also if name not in self._also]
        self._also = also
        return new

    def called(self, host: str) -> str:
        """Return what a host is called; the only one that there is where it has no name."""
        return host or (next(iter(self.uris)) if len(self.uris) == 1 else "")

    def listen(self, listener: Callable[[DomainChange], None]) -> None:
        """Have ``listener`` called for all that happens on hosts that are connected, in libvirt's thread."""
        self._listeners.append(listener)

    def connection(self, host: str) -> libvirt.virConnect:
        """Return a connection that lives, a new one where need be; raise Unreachable."""
        with self._lock:
            lock = self._locks.setdefault(host, threading.Lock())
        with lock:
            if self._is_closed:
                raise LibvirtUnreachable("the driver is closed")
            known = self._open.get(host)
            if known is not None and _is_alive(known):
                return known
            if known is not None:
                _let_go(known)
            self._open[host] = self._connect(host)
            return self._open[host]

    def domain(self, host: str, name: str, uuid: str = "", *, by_name: bool = True) -> libvirt.virDomain:
        """Return a domain by its UUID, else by its name where that counts too; raise Absent when there is none."""
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
                    f"libvirt on {host} has no domain {name}; see what it has with virsh list --all"
                ) from None
            raise problem from None

    def dead(self, host: str) -> list[DomainChange]:
        """Return the ends of the machines on a host that are off because they died, as far as libvirt remembers."""
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
        """Return what names the present connection, and no other one ever."""
        self.connection(host)
        return self._connection_ids[host]

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            opened, self._open = list(self._open.values()), {}
        for connection in opened:
            _let_go(connection)

    def _connect(self, host: str) -> libvirt.virConnect:
        try:
            connection = libvirt.open(self.uri(host))
        except libvirt.libvirtError as error:
            uri, said = self.uri(host), message_of(error)
            place = f"on {host} ({shown_uri(uri)})" if host != uri else f"at {shown_uri(uri)}"
            raise LibvirtUnreachable(
                f"libvirt {place} cannot be reached: {said}; {connection_remedy(said)}"
            ) from None
        # Only connections to elsewhere know signs of life; drivers that cannot tell events are used without.
        with suppress(libvirt.libvirtError):
            connection.setKeepAlive(_ALIVE_EVERY, _MISSED)
        connection_id = self._connection_ids[host] = uuid4().hex
        with suppress(libvirt.libvirtError):
            connection.domainEventRegisterAny(None, libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE, self._live, host)
            connection.domainEventRegisterAny(
                None, libvirt.VIR_DOMAIN_EVENT_ID_REBOOT, self._reboot, (host, connection_id)
            )
        return connection

    def _live(self, _: object, domain: libvirt.virDomain, event: int, detail: int, host: str) -> None:
        self._tell(DomainChange(host, domain.name(), event, detail, domain.UUIDString()))

    def _reboot(self, _: object, domain: libvirt.virDomain, heard: tuple[str, str]) -> None:
        host, connection_id = heard
        self.reboots[connection_id, domain.name()] += 1
        self._tell(DomainChange(host, domain.name(), REBOOTED, uuid=domain.UUIDString()))

    def _tell(self, change: DomainChange) -> None:
        for listener in self._listeners:
            listener(change)


def _is_alive(connection: libvirt.virConnect) -> bool:
    try:
        return bool(connection.isAlive())
    except libvirt.libvirtError:
        return False


def _let_go(connection: libvirt.virConnect) -> None:
    with suppress(libvirt.libvirtError):
        connection.close()
