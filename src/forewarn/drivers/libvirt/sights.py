"""What libvirt's events say of a machine that nobody of ours touched. Pure."""

from datetime import datetime

import libvirt

from forewarn.core.model import Seen, Sighting
from forewarn.drivers.libvirt.hosts import REBOOTED, Happening

_STOPPED = {
    libvirt.VIR_DOMAIN_EVENT_STOPPED_SHUTDOWN: (Seen.STOPPED, "it shut down"),
    libvirt.VIR_DOMAIN_EVENT_STOPPED_DESTROYED: (Seen.STOPPED, "somebody destroyed it"),
    libvirt.VIR_DOMAIN_EVENT_STOPPED_CRASHED: (Seen.CRASHED, "the guest crashed"),
    libvirt.VIR_DOMAIN_EVENT_STOPPED_SAVED: (Seen.STOPPED, "somebody saved it"),
    libvirt.VIR_DOMAIN_EVENT_STOPPED_FAILED: (Seen.CRASHED, "its process on the host died"),
}
_STARTED = {
    libvirt.VIR_DOMAIN_EVENT_STARTED_BOOTED: "somebody started it",
    libvirt.VIR_DOMAIN_EVENT_STARTED_RESTORED: "somebody restored it",
}


def sighting(happening: Happening, at: datetime, *, is_found: bool = False) -> Sighting | None:
    """Return what was seen; None where it is of no concern, as a pause is, or a migration."""
    match happening.event:
        case _ if happening.event == REBOOTED:
            what, how = Seen.REBOOTED, "it started over"
        case libvirt.VIR_DOMAIN_EVENT_CRASHED:
            what, how = Seen.CRASHED, "the guest crashed"
        case libvirt.VIR_DOMAIN_EVENT_STOPPED if happening.detail in _STOPPED:
            what, how = _STOPPED[happening.detail]
        case libvirt.VIR_DOMAIN_EVENT_STARTED if happening.detail in _STARTED:
            what, how = Seen.STARTED, _STARTED[happening.detail]
        case libvirt.VIR_DOMAIN_EVENT_UNDEFINED if happening.detail == libvirt.VIR_DOMAIN_EVENT_UNDEFINED_REMOVED:
            what, how = Seen.GONE, "somebody undefined it"
        case _:
            return None
    detail = f"{how}, says libvirt on {happening.host}"
    return Sighting(happening.domain, what, at, detail, vm_id=happening.uuid, is_found=is_found)
