"""The promises about what ends with a VM or its host, judged at the end by the records of events.

evict, delete, deallocate   cancel what is Scheduled for that VM alone
a host that fails           also fails what is Started on its VMs
"""

from math import inf

from forewarn.simulator.promises.event_memory import EventMemory, RecordedTimeline
from forewarn.simulator.promises.events import RECENT
from forewarn.simulator.promises.memory import CheckerMemory, EndOfVms, wall_second

_AROUND = 1.0
_ENDED = ("Completed", "Failed", "Canceled")


class CancellationPromises:
    """Compares the records of events with the requests that end them."""

    def __init__(self, memory: CheckerMemory) -> None:
        self._memory = memory

    def settle(self, now: float) -> None:
        is_steady = self._memory.clock.is_steady(0.0, now)
        events: dict[str, list[EventMemory]] = {}
        for event in self._memory.events.values():
            for vm in event.resources:
                events.setdefault(vm, []).append(event)
        for end in self._memory.ends_of_vms:
            for vm in end.vms:
                for event in events.get(vm, ()):
                    self._is_over(event, end, vm, is_recorded=is_steady and _is_known(event, now))

    def _is_over(self, event: EventMemory, end: EndOfVms, vm: str, *, is_recorded: bool) -> None:
        """Check one event of a VM by what was shown, and by its record where its times are right."""
        if end.what == "deallocate" and event.type == "Terminate":
            return  # it may have been off before, and can still be deleted
        is_alone = event.resources == (vm,)
        stays = is_alone and event.first_seen_at < end.sent_at and event.scheduled_at > end.ended_at
        if is_recorded and event.timeline:
            announced, started, ended = _times(event, event.timeline)
            is_left = ended > end.ended_at + _AROUND
            was_scheduled = announced < end.sent_at - _AROUND and started > end.ended_at + _AROUND
            was_started = started < end.sent_at - _AROUND and end.what == "host fail"
            stays |= is_left and (was_started or (is_alone and was_scheduled))
        if stays:
            text = f"{event} of {vm} was unfinished before and after the {end.what}"
            self._memory.report(end.ended_at, f"{text} that was acknowledged at {end.ended_at:.3f} s")


def _is_known(event: EventMemory, now: float) -> bool:
    """Return whether the record that was read last tells all that became of an event."""
    record = event.timeline
    return bool(record and record.steps and (record.status in _ENDED or event.timeline_at >= now - RECENT))


def _times(event: EventMemory, timeline: RecordedTimeline) -> tuple[float, float, float]:
    """Return when an event was announced, started and ended, by its record."""
    started = wall_second(event.recorded_start) if event.recorded_start else inf
    ended = next((wall_second(step.at) for step in timeline.steps if step.what in _ENDED), inf)
    return wall_second(timeline.steps[0].at), started, ended
