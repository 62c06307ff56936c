"""Whether libvirt answers on the hosts of machines, and knows the machines."""

from collections.abc import Iterable, Iterator
from itertools import islice

from forewarn.core.errors import ForewarnError
from forewarn.core.model import Vm
from forewarn.drivers.libvirt.guests import Guest
from forewarn.drivers.libvirt.hosts import Hosts

_LOOKED_AT = 1_000
"""Machines that are looked at in one go; of a fleet that is larger, the first ones."""
_EMBEDDED = ":///embed"
"""Such a libvirt lives within the service, and nobody else can ask it."""


def troubles(hosts: Hosts, vms: Iterable[Vm]) -> Iterator[str]:
    """Yield what keeps us from hosts, once each, and from machines that should run."""
    reached: dict[str, bool] = {}
    for vm in islice((vm for vm in vms if not vm.deallocated), _LOOKED_AT):
        host = vm.standing_on
        try:
            if host not in reached:
                reached[host] = False
                reached[host] = _EMBEDDED not in hosts.uri(host) and bool(hosts.connection(host))
            if reached[host] and not Guest(hosts, vm).look().runs:
                yield (
                    f"{vm.name} does not run on {host or 'its host'}; start it,"
                    f" or 'forewarn vm deallocate {vm.name}' if it is not to run"
                )
        except ForewarnError as error:
            yield str(error)
