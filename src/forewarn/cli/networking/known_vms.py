"""Finds the VMs of this machine's network, from the running service, the journal or the fleet file."""

from collections.abc import Callable

from forewarn.config.settings import SQLITE, Settings
from forewarn.core.errors import ForewarnError, Unavailable
from forewarn.core.fleet import Fleet
from forewarn.core.model import Vm


def known_vms(settings: Settings, tell: Callable[[str], None]) -> tuple[Vm, ...]:
    """Return the VMs of the running service; if none runs, those of the journal and the fleet file."""
    from forewarn.control.client import ControlClient

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
