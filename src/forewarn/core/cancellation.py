"""VMs that leave their place: their group, domains or host, or the fleet. Their unfinished events are left too."""

from collections.abc import Collection, Iterator
from datetime import datetime

from forewarn.core import lifecycle
from forewarn.core.facts import Canceled
from forewarn.core.fleet import Fleet
from forewarn.core.model import EventStatus


def cancel_abandoned(fleet: Fleet, leaving: Collection[str], now: datetime, because: str) -> Iterator[Canceled]:
    """Cancel the Scheduled events that nobody is left in; the others stay for those who are."""
    seen: set[str] = set()
    for name in leaving:
        for event in fleet.events_on(name):
            if event.id in seen or event.status is EventStatus.STARTED:
                continue
            seen.add(event.id)
            if all(other in leaving or fleet.vms[other].deallocated for other in event.vms):
                yield lifecycle.cancel(event, now, because)
