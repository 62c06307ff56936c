"""The VMs of this machine's network, and changes that require another check of it; for ``network`` and ``doctor``."""

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from forewarn.config.settings import SQLITE, Settings
from forewarn.control.client import ControlClient
from forewarn.core.errors import ForewarnError, Unavailable
from forewarn.core.fleet import Fleet
from forewarn.core.model import Vm


def known_vms(settings: Settings, tell: Callable[[str], None]) -> tuple[Vm, ...]:
    """Return the VMs of the running service; if none runs, those of the journal and the fleet file."""
    try:
        with ControlClient.local(settings.data) as client:
            return tuple(vm for page in client.declared() for vm in page.vms)
    except Unavailable:
        vms = recorded_vms(settings, tell)
    if not vms and not settings.fleet:
        tell(f"no service runs in {settings.data}, and no fleet file is set: no VM is guarded yet")
    return vms


def recorded_vms(settings: Settings, tell: Callable[[str], None]) -> tuple[Vm, ...]:
    """Return the VMs that a start of the service would find: those of its journal, and new ones of the fleet file."""
    return recorded(settings, tell)[0]


def recorded(settings: Settings, tell: Callable[[str], None]) -> tuple[tuple[Vm, ...], tuple[str, ...]]:
    """Return the VMs that a start of the service would find, and the names of the hosts."""
    from forewarn.fleetfile.parser import read_fleet_file

    vms: dict[str, Vm] = {}
    hosts: dict[str, object] = {}
    if settings.fleet:
        wished = read_fleet_file(settings.fleet)
        vms, hosts = dict(wished.vms), dict(wished.hosts)
    try:
        if fleet := _in_journal(settings):
            vms, hosts = vms | fleet.vms, hosts | fleet.hosts
    except (ForewarnError, OSError) as error:
        tell(f"VMs that were added at run time are not known: {error}")
    return tuple(vms.values()), tuple(hosts)


def _in_journal(settings: Settings) -> Fleet | None:
    from forewarn.journal.sqlite import database
    from forewarn.journal.sqlite.recovery import recover

    if settings.journal_name != SQLITE:
        raise Unavailable(f"no service answers, and the journal {settings.journal_name!r} can be read by it alone")
    directory = settings.journal_directory
    place = directory / database.NAME
    if not place.exists():
        return None
    database.recognise(place)
    with database.reading(place) as connection:
        return recover(connection, directory).fleet


_FACTS = {"fleet-changed", "fleet-declared", "vm-removed", "vm-moved", "completed", "reset"}
"""Facts that may change the VMs, their hosts or their taps."""
_NETLINK_ROUTE = 0
_LINK_GROUPS = 0x1 | 0x10 | 0x100
"""Netlink groups: links, IPv4 and IPv6 addresses."""
_RETRY = 2.0


class NetworkChanges:
    """Waits for changes; both watcher threads run until the process ends."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._event = threading.Event()
        self._links = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_ROUTE)
        self._links.bind((0, _LINK_GROUPS))
        for watch in (self._watch_links, self._watch_service):
            threading.Thread(target=watch, daemon=True).start()

    def wait(self, longest: float, settling: float) -> None:
        """Return when something changed and no more follows, or after ``longest`` seconds."""
        self._event.wait(longest)
        while self._event.is_set():
            self._event.clear()
            self._event.wait(settling)

    def _watch_links(self) -> None:
        while True:
            with suppress(OSError):  # messages were lost, which counts as a change
                self._links.recv(65_536)
            self._event.set()

    def _watch_service(self) -> None:
        while True:
            with suppress(ForewarnError, OSError), ControlClient.local(self._directory) as client:
                for kind in client.change_kinds():
                    if kind in _FACTS:
                        self._event.set()
            time.sleep(_RETRY)
