"""The promises about how groups are shown at the end.

incarnation   rises by one with each visible change of an event of the group, and with nothing else
terms         are those that were acknowledged last
"""

import re

import msgspec

from forewarn.simulator.actions.fleet_requests import EditFleetFile, RequestFleetApply
from forewarn.simulator.exchanges import ControlExchange
from forewarn.simulator.promises.event_memory import RecordedTimeline
from forewarn.simulator.promises.memory import CheckerMemory
from forewarn.simulator.promises.terms import DEFAULTS, UNKNOWN, TermPromises

_GROUP = re.compile(r"/v1/groups/([^/?]+)")
_WITHOUT_QUORUM = tuple(key for key in DEFAULTS if key != "quorum")
"""The terms of a group with another rule of approval, which forgets its quorum."""
_FIRST = 1
_ENDS = ("Completed", "Failed", "Canceled")
_VISIBLE = ("Scheduled", "postponed", "advanced", "Started", *_ENDS)


class _ShownGroup(msgspec.Struct):
    incarnation: int
    approval: str = "any"
    eviction: str = "deallocate"
    terminate_notice: str | None = None
    policy: dict[str, object] = {}
    """Without what it has by default."""

    @property
    def terms(self) -> dict[str, object]:
        """The terms in the form in which they are set."""
        notice = None if self.terminate_notice is None else int(self.terminate_notice[2:-1]) * 60
        given = {"approval": self.approval, "eviction": self.eviction, "terminate_notice": notice}
        return {**DEFAULTS, **self.policy, **given}


_read_group = msgspec.json.Decoder(_ShownGroup).decode


class GroupPromises:
    """Compares groups with the records of their events and with the requests that set their terms."""

    def __init__(self, memory: CheckerMemory, terms: TermPromises) -> None:
        self._memory = memory
        self._terms = terms
        self._shown: dict[str, tuple[ControlExchange, _ShownGroup]] = {}
        self._has_edits = any(isinstance(each, EditFleetFile | RequestFleetApply) for each in memory.plan.actions)

    def questions(self) -> list[str]:
        """Return the paths to GET before the end."""
        return [f"/v1/groups/{group.name}" for group in self._memory.plan.groups]

    def see_control(self, exchange: ControlExchange) -> None:
        """Note how a group is shown."""
        is_read = exchange.method == "GET" and exchange.status == 200 and exchange.groups is None
        if is_read and (named := _GROUP.fullmatch(exchange.path)):
            self._shown[named[1]] = exchange, _read_group(exchange.response)

    def settle(self, now: float) -> None:
        for name, (exchange, shown) in self._shown.items():
            self._rises_with_each_change(name, exchange, shown)
            for key in DEFAULTS if shown.approval == "quorum" else _WITHOUT_QUORUM:
                known, value = self._terms.term(name, key, exchange.sent_at, exchange.ended_at), shown.terms[key]
                if known is not UNKNOWN and known != value:
                    text = f"{name} is shown with {key} {value!r}, and {known!r} was set"
                    self._memory.report(exchange.ended_at, text)

    def _rises_with_each_change(self, name: str, exchange: ControlExchange, shown: _ShownGroup) -> None:
        """Check a group that no VM can have joined, which could raise its incarnation."""
        records = self._ended_records(name)
        is_last = exchange.sent_at > self._memory.plan.ends_at
        if not is_last or self._has_edits or not self._memory.members.is_closed(name) or records is None:
            return
        expected = _FIRST + sum(map(_visible_changes, records))
        if shown.incarnation != expected:
            text = f"{name} has incarnation {shown.incarnation}, and {expected - _FIRST} visible changes"
            self._memory.report(exchange.ended_at, text)

    def _ended_records(self, group: str) -> list[RecordedTimeline] | None:
        """Return the records of all events of a group; None where one has not ended."""
        records: list[RecordedTimeline] = []
        for event in self._memory.events.values():
            if event.group in ("", group):
                if event.timeline is None or event.timeline.status not in _ENDS:
                    return None
                records.append(event.timeline)
        return records


def _visible_changes(record: RecordedTimeline) -> int:
    """Count what changed a document; an event that started at once is announced and started by one change."""
    at_once = any(step.what == "Started" and step.detail.startswith("at once") for step in record.steps)
    return sum(step.what in _VISIBLE for step in record.steps) - at_once
