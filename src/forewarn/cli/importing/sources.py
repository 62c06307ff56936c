"""Reads machines from libvirt at one or more URIs."""

import re
import threading
from collections.abc import Sequence
from typing import Self

import libvirt

from forewarn.core.errors import BadInput
from forewarn.drivers.libvirt.hosts import DomainChange, LibvirtHosts
from forewarn.drivers.libvirt.inventory import Inventory, read_inventory

_NAMED = re.compile(r"([A-Za-z0-9_][A-Za-z0-9._-]*)=([a-z].*:.*)", re.DOTALL)
_NEWS = {
    libvirt.VIR_DOMAIN_EVENT_DEFINED,
    libvirt.VIR_DOMAIN_EVENT_UNDEFINED,
    libvirt.VIR_DOMAIN_EVENT_STARTED,
    libvirt.VIR_DOMAIN_EVENT_RESUMED,
    libvirt.VIR_DOMAIN_EVENT_STOPPED,
}


class LibvirtSources:
    """Connections to libvirt, by host name."""

    def __init__(self, given: Sequence[str]) -> None:
        self._names: dict[str, str] = {}
        """By URI: the host's name given by the operator, or empty."""
        for each in given:
            named = _NAMED.fullmatch(each)
            name, uri = (named[1], named[2]) if named else ("", each)
            if ":" not in uri:
                raise BadInput(
                    f"{each!r} is not a valid URI; write it like qemu:///system or h1=qemu+ssh://root@h1/system"
                )
            self._names[uri] = name
        self.news = threading.Event()
        """Set when a machine is defined, undefined, started, stopped or moved."""
        self._hosts = LibvirtHosts({uri: uri for uri in self._names})
        self._hosts.listen(self._hear)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._hosts.close()

    def read(self) -> list[Inventory]:
        """Return the inventory of every URI; raise LibvirtProblem if one does not answer."""
        found = [read_inventory(self._hosts.connection(uri), name, uri) for uri, name in self._names.items()]
        twice = {each.host for each in found if sum(each.host == other.host for other in found) > 1}
        if twice:
            raise BadInput(f"two URIs lead to a host named {min(twice)!r}; name them apart, as in h1=URI h2=URI")
        return found

    def _hear(self, happening: DomainChange) -> None:
        if happening.event in _NEWS:
            self.news.set()
