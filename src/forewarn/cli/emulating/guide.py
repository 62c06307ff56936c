"""Commands to try the emulator, printed at its start."""

from forewarn.core.model import EventStatus
from forewarn.emulator.emulation import Emulation
from forewarn.wire.azure_names import show_id

DOCUMENT = "/metadata/scheduledevents?api-version=2020-07-01"


def to_try(emulation: Emulation, vm: str) -> tuple[str, ...]:
    """Return two complete commands in short lines: fetch the document, approve an event."""
    url = f"'{emulation.url(vm)}{DOCUMENT}'"
    group = emulation.setup.fleet.vms[vm].group
    scheduled = (event for event in emulation.node.fleet.events_of(group) if event.status is EventStatus.SCHEDULED)
    event = next(scheduled, None)
    id_ = show_id(event.id) if event else "EVENT-ID"
    body = f'{{"StartRequests":[{{"EventId":"{id_}"}}]}}'
    return "curl -s -H Metadata:true \\", f"  {url}", "curl -si -H Metadata:true \\", f"  -d '{body}' \\", f"  {url}"
