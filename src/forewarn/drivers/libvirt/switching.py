"""Starts and stops one machine on an operator's request; does nothing if it is in that state already."""

from datetime import timedelta
from typing import Any

import libvirt

from forewarn.core.model import Vm
from forewarn.drivers.libvirt.guests import LibvirtGuest
from forewarn.drivers.libvirt.hosts import LibvirtHosts
from forewarn.drivers.libvirt.problems import LibvirtProblem, LibvirtUnreachable, problem_of
from forewarn.drivers.switch_executor import wait_until

_DEFINITION = libvirt.VIR_MIGRATE_OFFLINE | libvirt.VIR_MIGRATE_PERSIST_DEST | libvirt.VIR_MIGRATE_UNDEFINE_SOURCE
"""Migration flags that move the definition of a machine that is off."""


def start(hosts: LibvirtHosts, vm: Vm) -> str:
    """Start a machine that is off, on the recorded host; return a detail."""
    guest, recorded = _found(hosts, vm), hosts.called(vm.standing_on)
    state = guest.state()
    if state.runs:
        return "it ran already" + ("" if guest.host == recorded else f", on {guest.host}")
    if state.id != -1:
        raise LibvirtProblem(f"{vm.name} is paused on {guest.host}; see virsh domstate {vm.name} --reason")
    said = ""
    if guest.host != recorded:
        said = f"its definition was moved here from {guest.host}"
        guest = _move_definition(hosts, guest, recorded)
    guest.start()
    return said


def stop(hosts: LibvirtHosts, vm: Vm, grace: timedelta) -> str:
    """Shut a machine down, and destroy it when its grace time is over."""
    guest = _found(hosts, vm)
    if guest.state().id == -1:
        return "it did not run"
    if not guest.is_persistent:
        raise LibvirtProblem(
            f"{vm.name} could not be started again: libvirt on {guest.host} does not keep its definition; it runs on"
        )
    try:
        guest.ask_to_go_down()
    except LibvirtUnreachable:
        raise
    except LibvirtProblem as error:
        guest.destroy()
        return f"{error}; it was destroyed"
    if wait_until(lambda: guest.state().id == -1, grace.total_seconds()):
        others = [copy.host for copy in guest.survey().active]
        if others:
            raise LibvirtProblem(f"{vm.name} was moved to {others[0]} before it was stopped, and is active there")
        return ""
    guest.destroy()
    return f"it did not shut down within {grace.total_seconds():g} s and was destroyed"


def _found(hosts: LibvirtHosts, vm: Vm) -> LibvirtGuest:
    guest = LibvirtGuest(hosts, vm)
    if guest.find() is None:
        guest.domain()  # raises with the remedy
    return guest


def _move_definition(hosts: LibvirtHosts, guest: LibvirtGuest, host: str) -> LibvirtGuest:
    """Move the definition of a machine that is off to its recorded host."""
    there, domain = hosts.connection(host), guest.domain()
    parameters: Any = {}  # libvirt's own types are wrong here
    try:
        domain.migrate3(there, parameters, _DEFINITION)
    except libvirt.libvirtError as error:
        raise problem_of(guest.host, error, f"{guest.name}: its definition to {host}") from None
    return guest.on(host)
