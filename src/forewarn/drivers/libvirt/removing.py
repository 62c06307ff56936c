"""Removes machines: stops them and keeps their definition, or deletes them.

The state is known from libvirt: a machine that is off, or that libvirt does not know, needs nothing more. A machine
that was started again meanwhile has another id and is not changed. A machine that another client migrated after a
crash of the service is found on its new host: it is deleted there, while an eviction fails.
"""

from contextlib import suppress

import libvirt

from forewarn.drivers.libvirt import volumes
from forewarn.drivers.libvirt.guests import LibvirtGuest
from forewarn.drivers.libvirt.location import ActiveElsewhere, DomainState
from forewarn.drivers.libvirt.problems import DomainAbsent, LibvirtProblem
from forewarn.drivers.libvirt.work import LibvirtWork
from forewarn.node.driver import ImpactDone

_ENDED_HERE = {
    libvirt.VIR_DOMAIN_SHUTOFF_SHUTDOWN,
    libvirt.VIR_DOMAIN_SHUTOFF_DESTROYED,
    libvirt.VIR_DOMAIN_SHUTOFF_CRASHED,
    libvirt.VIR_DOMAIN_SHUTOFF_SAVED,
    libvirt.VIR_DOMAIN_SHUTOFF_FAILED,
}
"""Shutoff reasons that exclude a migration; libvirt forgets the reason when its daemon is restarted."""
_UUID = "uuid"
"""Key of the machine's UUID among the names of its disks."""


def remove(work: LibvirtWork) -> ImpactDone:
    """Stop the machines, and undefine them if the impact deletes them."""
    for guest in work.guests:
        if work.impact.deletes:
            _delete(work, guest)
        else:
            _stop(work, guest)
    return ImpactDone(work.moved, "; ".join(work.remarks))


def _stop(work: LibvirtWork, guest: LibvirtGuest) -> None:
    state = guest.state()
    stopping = work.progress_file.step("stopping", guest.name)
    if stopping is None:
        work.progress_file.note("stopping", guest.name, id=str(state.id), uuid=guest.uuid)
    elif str(state.id) != stopping.seen["id"]:
        guest.stay(guest.host, stopping.seen.get("uuid", ""))
        _require_stopped(work, guest, state)
        return
    if state.id == -1:
        work.remarks.append(f"{guest.name} did not run" if state.is_defined else f"{guest.name} was gone already")
        return
    if work.settings.evict == "save" and guest.is_persistent:
        _save(work, guest)
        return
    guest.destroy()


def _require_stopped(work: LibvirtWork, guest: LibvirtGuest, state: DomainState) -> None:
    """Raise if a machine that its host no longer runs was not stopped, but migrated by another client."""
    if state.is_active:
        return
    found = guest.survey()
    for copy in found.active:
        work.moved[guest.name] = copy.host
        raise ActiveElsewhere(f"{guest.name} was moved to {copy.host} before it was stopped, and is active there")
    if state.reason not in _ENDED_HERE:
        found.require_answers()


def _save(work: LibvirtWork, guest: LibvirtGuest) -> None:
    """Save a machine's memory; if that fails it is not destroyed but keeps running."""
    work.await_job(guest)
    if guest.state().id == -1:
        return  # libvirt has finished a save that began before a crash
    try:
        work.do_long(guest, guest.save, "saved")
    except LibvirtProblem as error:
        raise LibvirtProblem(f"{error}; {guest.name} {'runs on' if guest.state().runs else 'is paused'}") from None


def _forget(guest: LibvirtGuest) -> None:
    """Stop and undefine a machine on one host."""
    if guest.state().is_active:
        guest.destroy()
    # A transient machine disappears when it is off.
    with suppress(DomainAbsent):
        guest.undefine()


def _delete(work: LibvirtWork, guest: LibvirtGuest) -> None:
    state = guest.state()
    deleting = work.progress_file.step("deleting", guest.name)
    if deleting is None:
        if not state.is_defined:
            work.remarks.append(f"{guest.name} was gone already")
            return
        disks = guest.disks() if work.settings.delete_disks else {}
        work.progress_file.note("deleting", guest.name, **disks, **{_UUID: guest.uuid})
    else:
        guest.stay(guest.host, deleting.seen.get(_UUID, ""))
    # Delete it also where a manual migration left it defined; other hosts are searched by UUID only.
    others = [copy.host for copy in guest.survey().copies if copy.host != guest.host] if guest.uuid else []
    _forget(guest)
    for host in others:
        _forget(guest.on(host))
    deleting = work.progress_file.step("deleting", guest.name)
    for name, path in deleting.seen.items() if deleting else ():
        if name == _UUID:
            continue
        try:
            volumes.delete(work.hosts, guest.host, path)
        except LibvirtProblem as error:
            work.remarks.append(f"a disk was not deleted: {error}")
