"""Convert libvirt events to observations. Pure functions."""

from datetime import datetime

import libvirt

from forewarn.core.model import Observation, ObservationKind
from forewarn.drivers.libvirt.hosts import REBOOTED, DomainChange

_STOPPED = {
    libvirt.VIR_DOMAIN_EVENT_STOPPED_SHUTDOWN: (ObservationKind.STOPPED, "it shut down"),
    libvirt.VIR_DOMAIN_EVENT_STOPPED_DESTROYED: (ObservationKind.STOPPED, "it was destroyed"),
    libvirt.VIR_DOMAIN_EVENT_STOPPED_CRASHED: (ObservationKind.CRASHED, "the guest crashed"),
    libvirt.VIR_DOMAIN_EVENT_STOPPED_SAVED: (ObservationKind.STOPPED, "it was saved"),
    libvirt.VIR_DOMAIN_EVENT_STOPPED_FAILED: (ObservationKind.CRASHED, "its process on the host died"),
}
_STARTED = {
    libvirt.VIR_DOMAIN_EVENT_STARTED_BOOTED: "it was started",
    libvirt.VIR_DOMAIN_EVENT_STARTED_RESTORED: "it was restored",
}


def observation_of(change: DomainChange, at: datetime, *, is_found: bool = False) -> Observation | None:
    """Return the observation; None for events without meaning here, such as a pause or a migration."""
    match change.event:
        case _ if change.event == REBOOTED:
            what, how = ObservationKind.REBOOTED, "it rebooted"
        case libvirt.VIR_DOMAIN_EVENT_CRASHED:
            what, how = ObservationKind.CRASHED, "the guest crashed"
        case libvirt.VIR_DOMAIN_EVENT_STOPPED if change.detail in _STOPPED:
            what, how = _STOPPED[change.detail]
        case libvirt.VIR_DOMAIN_EVENT_STARTED if change.detail in _STARTED:
            what, how = ObservationKind.STARTED, _STARTED[change.detail]
        case libvirt.VIR_DOMAIN_EVENT_UNDEFINED if change.detail == libvirt.VIR_DOMAIN_EVENT_UNDEFINED_REMOVED:
            what, how = ObservationKind.GONE, "it was undefined"
        case _:
            return None
    detail = f"{how}, reported by libvirt on {change.host}"
    return Observation(change.domain, what, at, detail, vm_id=change.uuid, is_found=is_found)
