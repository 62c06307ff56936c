"""How long waves are expected to take, from what was recorded of earlier events.

approval      how long a group takes to approve; one that never did waits for the whole notice
impact        how long the operation takes with the present driver, once an event has started
turns         events of one group in the same wave start one after another, unless they share their domains
quiet hours   and maintenance windows delay the start
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from math import sqrt
from operator import add

import msgspec

from forewarn.core import quiet_hours
from forewarn.core.event_types import ANNOUNCEMENTS, LIVE_MIGRATION
from forewarn.core.fleet import Fleet
from forewarn.core.notice import Rules
from forewarn.core.rollouts import windows
from forewarn.core.rollouts.limits import event_operation
from forewarn.core.rollouts.model import RecordedLength, RolloutOperation, RolloutPrediction, RolloutTerms

HOST_COMMAND = "host command"
"""Under which the durations of commands on hosts are recorded."""
_NAMED = 5
_LEAST_WAIT = 0.5
"""Seconds; waits are shown in whole seconds."""
_UNKNOWN_IMPACT = (15.0, 60.0, 300.0)
"""Seconds that an operation is taken to last while nothing is recorded."""
_LEAST_SLACK = 60.0
"""Seconds by which a rollout may always end after its prediction; hosts without VMs are expected to take none."""


class Spread(msgspec.Struct, frozen=True):
    """What is to be expected of a duration, in seconds: a short, a middling and a long one."""

    low: float
    middle: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> "Spread":
        """Return the spread of recorded durations: of ten, the second, the middle one and the ninth."""
        ordered = sorted(values)
        last = len(ordered) - 1
        low, middle, high = (ordered[round(last * share)] for share in (0.1, 0.5, 0.9))
        return cls(low, middle, high)


class Experience(msgspec.Struct, frozen=True):
    """What was recorded of earlier events."""

    approvals: dict[str, Spread] = {}
    """From announcement to approval, by group; groups that never approved are not here."""
    impacts: dict[str, Spread] = {}
    """From start to end, by operation; of the present driver alone, another one takes its own time."""
    unapproved: frozenset[str] = frozenset()
    """Groups whose events were announced, and never approved."""

    def length_of(self, operation: RolloutOperation) -> RecordedLength:
        """Return how long one host takes, by the longer ones of the recorded durations."""
        events = self.impacts.get(event_operation(operation))
        if operation is not RolloutOperation.COMMAND:
            return RecordedLength(events.high) if events else RecordedLength()
        command = self.impacts.get(HOST_COMMAND)
        return RecordedLength(events.high + command.high, command.high) if events and command else RecordedLength()


class SlowGroup(msgspec.Struct, frozen=True):
    """A group that others wait for."""

    group: str
    seconds: float
    """For how long in all waves wait for it, alone or with groups that take as long."""
    reason: str
    """Why the wave waits that waits for it longest."""


class WavePrediction(msgspec.Struct, frozen=True):
    """When a wave is expected to begin and end."""

    starts_at: datetime
    ends_at: datetime


class RolloutForecast(msgspec.Struct, frozen=True):
    """What is expected of a rollout."""

    waves: tuple[WavePrediction, ...]
    total: RolloutPrediction
    slowest: tuple[SlowGroup, ...]


class Forecaster:
    """Predicts the waves of one rollout."""

    def __init__(
        self, fleet: Fleet, terms: RolloutTerms, rules: Rules, experience: Experience, *, live: bool
    ) -> None:
        operation = event_operation(terms.operation)
        moves = terms.operation.drains or terms.operation is RolloutOperation.REDEPLOY
        announcement = LIVE_MIGRATION if live and moves else ANNOUNCEMENTS[operation]
        self._fleet = fleet
        self._terms = terms
        self._rules = rules
        self._experience = experience
        self._notice = rules.minimum(announcement.type).total_seconds()
        stated = terms.expected / rules.hurry or max(announcement.duration, 0) / rules.hurry
        assumed = Spread(*(each / rules.hurry for each in _UNKNOWN_IMPACT))
        assumed = Spread(stated, stated, stated * 2) if stated else assumed
        self._impact = experience.impacts.get(operation, assumed)
        self._commands = (0.0, 0.0, 0.0)
        if terms.operation is RolloutOperation.COMMAND:
            taken = experience.impacts.get(HOST_COMMAND, assumed)
            self._commands = (taken.low, taken.middle, taken.high)
        self._has_windows = bool(terms.windows or rules.maintenance_windows)
        self._waits: dict[str, tuple[tuple[float, ...], str]] = {}
        self._waited_for: dict[str, float] = {}
        self._longest: dict[str, tuple[float, str]] = {}
        """The longest wait of one wave for a group, and the reason."""

    def predict(self, waves: Iterable[tuple[str, ...]], canaries: int, now: datetime) -> RolloutForecast:
        """Lay the waves one after another."""
        predicted: list[WavePrediction] = []
        begins = now
        below = above = 0.0
        begun = 0
        for hosts in waves:
            low, middle, high = self._lengths(hosts, begins)
            settles = self._settle(is_canary=begun < canaries)
            begun += len(hosts)
            below += (middle - low) ** 2
            above += (high - middle) ** 2
            ends = begins + timedelta(seconds=middle + settles)
            predicted.append(WavePrediction(begins, ends))
            begins = ends
        late = max(sqrt(above), _LEAST_SLACK / self._rules.hurry)
        total = RolloutPrediction(
            now, len(predicted), begins, begins - timedelta(seconds=sqrt(below)), begins + timedelta(seconds=late)
        )
        slowest = sorted(self._waited_for.items(), key=lambda each: (-each[1], each[0]))[:_NAMED]
        return RolloutForecast(
            tuple(predicted), total, tuple(SlowGroup(group, wait, self._longest[group][1]) for group, wait in slowest)
        )

    def _settle(self, *, is_canary: bool) -> float:
        terms = self._terms
        seconds = (terms.canary_settle or terms.settle) if is_canary else terms.settle
        return seconds / self._rules.hurry

    def _lengths(self, hosts: tuple[str, ...], begins: datetime) -> tuple[float, ...]:
        """Return how long a wave takes without settling: with short, middling and long durations."""
        ends: dict[str, list[float]] = {}
        domains: dict[str, tuple[int, int]] = {}
        reasons: dict[str, str] = {}
        impacts = (self._impact.low, self._impact.middle, self._impact.high)
        for host in hosts:
            for group, domain in self._events_on(host):
                starts, reason, is_held = self._starts(group, begins)
                before = ends.get(group)
                if before is None:
                    ends[group] = [*map(add, starts, impacts)]
                    reasons[group] = reason
                elif domains[group] != domain:
                    ends[group] = [*map(add, map(max, starts, before), impacts)]
                    reasons[group] = reason if is_held else "its update domains take turns"
                domains[group] = domain
        if ends:
            self._note_slowest(ends, reasons)
        lengths = (max((each[number] for each in ends.values()), default=0.0) for number in range(3))
        return tuple(map(add, lengths, self._commands))

    def _note_slowest(self, ends: dict[str, list[float]], reasons: dict[str, str]) -> None:
        """Note for how long the wave waits for the last of its groups; of several, how long they wait to start."""
        last = max(each[1] for each in ends.values())
        slowest = [group for group, each in ends.items() if each[1] == last]
        before = max((each[1] for each in ends.values() if each[1] < last), default=0.0)
        waits = last - (max(before, self._impact.middle) if len(slowest) > 1 else before)
        if waits < _LEAST_WAIT:
            return
        for group in slowest:
            self._waited_for[group] = self._waited_for.get(group, 0.0) + waits
            self._longest[group] = max(self._longest.get(group, (0.0, "")), (waits, reasons[group]))

    def _events_on(self, host: str) -> dict[tuple[str, tuple[int, int]], None]:
        vms = (self._fleet.vms[name] for name in self._fleet.vms_on(host))
        return {(vm.group, (vm.update_domain, vm.fault_domain)): None for vm in vms if not vm.deallocated}

    def _starts(self, group: str, begins: datetime) -> tuple[tuple[float, ...], str, bool]:
        """Return how long after the wave's beginning events of a group start, and what they wait for.

        The last value tells whether that is a window or the end of quiet hours.
        """
        if group not in self._waits:
            self._waits[group] = self._wait_of(group)
        waits, reason = self._waits[group]
        hours = self._fleet.groups[group].terms.policy.quiet_hours
        if not (hours or self._has_windows):
            return waits, reason, False
        times = [self._delayed(begins + timedelta(seconds=wait), hours) for wait in waits]
        held = times[1][1]
        return tuple((start - begins).total_seconds() for start, _ in times), held or reason, bool(held)

    def _wait_of(self, group: str) -> tuple[tuple[float, ...], str]:
        approval = self._experience.approvals.get(group)
        if approval and approval.middle < self._notice:
            spread = (approval.low, approval.middle, approval.high)
            return tuple(
                min(self._notice, each) for each in spread
            ), f"it takes {round(approval.middle)} s to approve"
        return (self._notice,) * 3, "none of its events was approved so far; they wait for the whole notice"

    def _delayed(self, start: datetime, hours: tuple[str, ...]) -> tuple[datetime, str]:
        """Return when windows and quiet hours let an event start, and which of them it waits for."""
        reason = ""
        if self._has_windows:
            lasts = timedelta(seconds=self._impact.middle)
            opens = windows.next_start(self._terms.windows, self._rules.maintenance_windows, start, lasts)
            if opens and opens > start:
                start, reason = opens, "it waits for a maintenance window"
        if quiet := quiet_hours.quiet_until(hours, start):
            return quiet, "it waits for the end of its quiet hours"
        return start, reason
