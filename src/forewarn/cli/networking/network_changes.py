"""Detects changes that require another check of the network: of the fleet, or of network devices."""

import socket
import threading
import time
from contextlib import suppress
from pathlib import Path

from forewarn.control.client import ControlClient
from forewarn.core.errors import ForewarnError

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
