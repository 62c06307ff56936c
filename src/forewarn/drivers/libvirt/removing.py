"""Takes machines away: stopped and kept, or gone for good.

Both can be told by looking: a machine that is off, or that libvirt does not know, needs nothing more. One that was
started again meanwhile has another id, and is left alone. One that another client migrated after a crash of the
service is found on its new host: it is deleted there, and fails an eviction.
"""

from contextlib import suppress

import libvirt

from forewarn.drivers.libvirt import volumes
from forewarn.drivers.libvirt.guests import Guest
from forewarn.drivers.libvirt.places import Elsewhere, Look
from forewarn.drivers.libvirt.problems import Absent, Trouble
from forewarn.drivers.libvirt.work import Work
from forewarn.node.driver import Done

_ENDED_HERE = {
    libvirt.VIR_DOMAIN_SHUTOFF_SHUTDOWN,
    libvirt.VIR_DOMAIN_SHUTOFF_DESTROYED,
    libvirt.VIR_DOMAIN_SHUTOFF_CRASHED,
    libvirt.VIR_DOMAIN_SHUTOFF_SAVED,
    libvirt.VIR_DOMAIN_SHUTOFF_FAILED,
}
"""Why a machine is off that no migration took away; libvirt forgets the reason when its daemon is restarted."""
_UUID = "uuid"
"""The UUID of a machine that is being deleted, among the names of its disks."""


def remove(work: Work) -> Done:
    """Stop the machines, and where the impact deletes them have libvirt forget them."""
    for guest in work.guests:
        if work.impact.deletes:
            _delete(work, guest)
        else:
            _stop(work, guest)
    return Done(work.moved, "; ".join(work.remarks))


def _stop(work: Work, guest: Guest) -> None:
    look = guest.look()
    stopping = work.page.step("stopping", guest.name)
    if stopping is None:
        work.page.note("stopping", guest.name, id=str(look.id), uuid=guest.uuid)
    elif str(look.id) != stopping.seen["id"]:
        guest.stay(guest.host, stopping.seen.get("uuid", ""))
        _require_stopped(work, guest, look)
        return
    if look.id == -1:
        work.remarks.append(f"{guest.name} did not run" if look.is_there else f"{guest.name} was gone already")
        return
    if work.settings.evict == "save" and guest.is_persistent:
        _save(work, guest)
        return
    guest.destroy()


def _require_stopped(work: Work, guest: Guest, look: Look) -> None:
    """Raise where a machine that its host does not run any more was not stopped, but migrated by another client."""
    if look.is_active:
        return
    found = guest.survey()
    for copy in found.active:
        work.moved[guest.name] = copy.host
        raise Elsewhere(f"{guest.name} was moved to {copy.host} while it was to be stopped, and is active there")
    if look.reason not in _ENDED_HERE:
        found.require_answers()


def _save(work: Work, guest: Guest) -> None:
    """Have a machine's memory saved; what cannot be saved is not destroyed either, but goes on."""
    work.await_job(guest)
    if guest.look().id == -1:
        return  # libvirt brought to its end what it was asked for before a crash
    try:
        work.do_long(guest, guest.save, "saved")
    except Trouble as error:
        raise Trouble(f"{error}; {guest.name} {'runs on' if guest.look().runs else 'is paused'}") from None


def _forget(guest: Guest) -> None:
    """Have a host forget a machine."""
    if guest.look().is_active:
        guest.destroy()
    # A machine that libvirt never kept is gone as soon as it is off.
    with suppress(Absent):
        guest.undefine()


def _delete(work: Work, guest: Guest) -> None:
    look = guest.look()
    deleting = work.page.step("deleting", guest.name)
    if deleting is None:
        if not look.is_there:
            work.remarks.append(f"{guest.name} was gone already")
            return
        disks = guest.disks() if work.settings.delete_disks else {}
        work.page.note("deleting", guest.name, **disks, **{_UUID: guest.uuid})
    else:
        guest.stay(guest.host, deleting.seen.get(_UUID, ""))
    # Also where a migration by hand left it defined; by its name alone it is not looked for elsewhere.
    others = [copy.host for copy in guest.survey().copies if copy.host != guest.host] if guest.uuid else []
    _forget(guest)
    for host in others:
        _forget(guest.on(host))
    deleting = work.page.step("deleting", guest.name)
    for name, path in deleting.seen.items() if deleting else ():
        if name == _UUID:
            continue
        try:
            volumes.delete(work.hosts, guest.host, path)
        except Trouble as error:
            work.remarks.append(f"a disk stayed: {error}")
