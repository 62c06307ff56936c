"""What the checker of promises remembers: clock, disk, service, membership and events.

Everything here comes from the plan and from exchanges. A response tells how things stood at some moment between its
request and its end, so two responses are compared only if one request was sent after the other response had ended.
"""

import re
from bisect import bisect_right, insort
from collections.abc import Iterable, Sequence
from datetime import datetime
from fnmatch import fnmatchcase
from functools import cache
from math import inf

import msgspec

from forewarn.simulator.actions import (
    BefallMachine,
    DamageMemory,
    DelayRequests,
    EditFleetFile,
    RebootGuest,
    RequestDegradation,
    RequestFleetChange,
    RequestHostOperation,
    SkewNode,
)
from forewarn.simulator.environment.clock import EPOCH
from forewarn.simulator.exchanges import ClockChange, ControlExchange, DiskFault, ProcessState
from forewarn.simulator.plan import Plan

RETRY_SECONDS = 35.0
"""The service writes to a disk that failed again after at most so many seconds."""
ACTION_DELAY = 10.0
"""Seconds by which an action of the plan may be performed late."""
CLOCK_TOLERANCE = 70.0
"""Seconds after a change of the clock in which the service may go by the time of its last record."""
_EXACT = 1e-6
_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?")


def words_of(text: str) -> list[str]:
    """Return all that may be a name of a VM, a group or a host."""
    return _NAME.findall(text)


class HighWater:
    """The highest value that responses have shown, by the time when each had ended."""

    __slots__ = ("_marks",)

    def __init__(self) -> None:
        self._marks: list[tuple[float, int]] = []

    def add(self, ended_at: float, value: int) -> None:
        marks = self._marks
        if not marks or (value > marks[-1][1] and ended_at >= marks[-1][0]):
            marks.append((ended_at, value))
        elif ended_at < marks[-1][0] and value > self.before(ended_at):
            insort(marks, (ended_at, value))
            kept = self._marks = [marks[0]]
            kept.extend(mark for number, mark in enumerate(marks) if number and mark[1] > kept[-1][1])

    def before(self, sent_at: float) -> int:
        """Return the highest value of the responses that had ended then; -1 where there is none."""
        place = bisect_right(self._marks, sent_at, key=lambda mark: mark[0])
        return self._marks[place - 1][1] if place else -1

    @property
    def highest(self) -> int:
        return self._marks[-1][1] if self._marks else -1

    @property
    def reached_at(self) -> float:
        """When the first response with the highest value had ended."""
        return self._marks[-1][0] if self._marks else 0.0


class WallClock:
    """The wall clock of the service, in seconds since the beginning."""

    def __init__(self, *, is_known: bool = True) -> None:
        """``is_known``: whether there is one clock; that of another node may differ."""
        self._is_known = is_known
        self._changes: list[ClockChange] = []

    def change(self, change: ClockChange) -> None:
        """Note a change; one that changes nothing, such as the end of a drift that there is not, is none."""
        drift = self._changes[-1].drift if self._changes else 0.0
        if change.drift != drift or abs(change.at + change.error - self.at(change.at)) > _EXACT:
            self._changes.append(change)

    def at(self, when: float) -> float:
        """Return what it shows at a true second."""
        last = next((change for change in reversed(self._changes) if change.at <= when), None)
        return when if last is None else when + last.error + last.drift * (when - last.at)

    def is_steady(self, begin: float, end: float) -> bool:
        """Tell whether the service went by this clock, and it was not touched, from one second to another."""
        return self._is_known and not any(begin - CLOCK_TOLERANCE <= change.at <= end for change in self._changes)


@cache
def read_not_before(text: str) -> float:
    """Return the second since the beginning that a document's NotBefore names."""
    return wall_second(datetime.strptime(f"{text[:-3]}+0000", "%a, %d %b %Y %H:%M:%S %z"))


def wall_second(time: datetime) -> float:
    """Return the second since the beginning that a time names."""
    return (time - EPOCH).total_seconds()


class DiskFaults:
    """When the disk failed. The service then refuses commands for a while before it tries again."""

    def __init__(self) -> None:
        self._failed_at: list[float] = []

    def see(self, fault: DiskFault) -> None:
        self._failed_at.append(fault.at)

    def may_fail(self, sent_at: float, ended_at: float) -> bool:
        """Tell whether a request of that time may have been refused because of the disk."""
        return any(sent_at - RETRY_SECONDS <= at <= ended_at for at in reversed(self._failed_at))


class ServiceLife:
    """When the service served, and when it changed."""

    def __init__(self) -> None:
        self.has_served = False
        self.served_at: list[float] = []
        """When it began to serve."""
        self.starts: list[tuple[float, float]] = []
        """From when to when each start lasted."""
        self._starting_at = 0.0
        self.state = ""
        self._changes: list[float] = []

    def change(self, state: ProcessState) -> None:
        self.state = state.state
        self.has_served = self.has_served or state.state == "serving"
        self._changes.append(state.at)
        if state.state == "starting":
            self._starting_at = state.at
        if state.state == "serving":
            self.served_at.append(state.at)
            self.starts.append((self._starting_at, state.at))

    def is_unchanged(self, begin: float, end: float) -> bool:
        """Tell whether one process served without a change from one second to another."""
        return not any(begin <= at <= end for at in self._changes)


class AcknowledgedValues:
    """Values that requests set, each standing until another request may have changed it."""

    def __init__(self) -> None:
        self._changes: dict[object, list[tuple[ControlExchange, object, bool]]] = {}

    def set(self, name: object, value: object, exchange: ControlExchange, *, is_acknowledged: bool) -> None:
        """Note a request that set a value, or may have."""
        self._changes.setdefault(name, []).append((exchange, value, is_acknowledged))

    def known(self, name: object, begin: float, end: float) -> object:
        """Return the value from one second to another; None where it is not known."""
        value: object = None
        certain_from = 0.0
        for exchange, each, is_certain in self._changes.get(name, ()):
            if exchange.sent_at <= end:
                overlaps = exchange.sent_at < certain_from
                value = each if is_certain and exchange.ended_at <= begin and not overlaps else None
                certain_from = max(certain_from, exchange.ended_at)
        return value

    def known_since(self, name: object, until: float) -> float:
        """Return when the last request that set the value until then had ended."""
        changes = (exchange for exchange, *_ in self._changes.get(name, ()))
        return max((exchange.ended_at for exchange in changes if exchange.sent_at <= until), default=0.0)

    def first_sent(self, name: object, value: object) -> float | None:
        """Return when the first request was sent that may have set this value, or any where it is None."""
        sent = (each.sent_at for each, given, _ in self._changes.get(name, ()) if value is None or given == value)
        return min(sent, default=None)

    def was_asked(self, name: object, begin: float, end: float) -> bool:
        """Tell whether a request was sent between two seconds."""
        return any(begin < each.sent_at <= end for each, *_ in self._changes.get(name, ()))

    def may_have_been(self, name: object, value: object) -> bool:
        return any(given == value for _, given, _ in self._changes.get(name, ()))


class _Suspicion(msgspec.Struct, frozen=True):
    """Something against a value that was known, unless a request that changed it was under way then."""

    values: AcknowledgedValues
    name: object
    begin: float
    end: float
    known: object
    text: str


class Membership:
    """The groups and domains that each VM may have had: those of the plan, of its changes, and of what was told."""

    def __init__(self, plan: Plan) -> None:
        self._groups: dict[str, set[str]] = {}
        self._domains: dict[str, set[tuple[int, int]]] = {}
        self.all_groups = {group.name for group in plan.groups} | {vm.group for vm in plan.vms}
        self.unsettled_groups: set[str] = set()
        """Groups that a change of the fleet may have removed."""
        self.maybe_down: set[str] = set()
        """VMs that may have been deallocated."""
        self.maybe_gone: set[str] = set()
        """VMs that may have been removed."""
        self.refiled: set[str] = set()
        """VMs that the fleet file may have put into another group."""
        self.may_be_spot: set[str] = set()
        """VMs that may have become spot VMs."""
        self.maybe_killed: set[str] = set()
        """VMs with guests that may have been killed in the middle of a request."""
        for planned in plan.vms:
            self.learn(planned.name, planned.group, (planned.update_domain, planned.fault_domain))
        for action in plan.actions:
            match action:
                case RequestFleetChange(change=change):
                    self._foresee_patch(change)
                case EditFleetFile(edit=edit, subject=subject, value=value) if edit.endswith("-vm"):
                    self._foresee_edit(edit, subject, value.partition("/")[0])
                case EditFleetFile(edit="set-spot", subject=subject):
                    self.may_be_spot.add(subject)
                case BefallMachine(vm=vm, what="gone"):
                    self.maybe_gone.add(vm)
                    self.maybe_killed.add(vm)
                case BefallMachine(vm=vm) | RebootGuest(vm=vm) | DamageMemory(vm=vm):
                    self.maybe_killed.add(vm)
        degrades = (
            each
            for each in plan.actions
            if isinstance(each, RequestDegradation)
            or (isinstance(each, RequestHostOperation) and each.operation == "degrade")
        )
        self.degrades_from = min((action.at for action in degrades), default=inf)
        """When a host may first have been said to degrade, which brings events forward."""

    def learn(self, vm: str, group: str, domains: tuple[int, int] | None = None) -> None:
        self._groups.setdefault(vm, set()).add(group)
        self.all_groups.add(group)
        if domains is not None:
            self._domains.setdefault(vm, set()).add(domains)

    def may_be_in(self, vm: str, group: str) -> bool:
        return group in self._groups.get(vm, (group,))

    def names_hidden_from(self, groups: Sequence[str]) -> list[str]:
        """Return the groups, and the VMs that were never in one of these groups."""
        hidden = [vm for vm, its in self._groups.items() if vm not in groups and its.isdisjoint(groups)]
        return sorted({*hidden, *self.all_groups.difference(groups, self._groups)})

    def matching(self, bulk: bytes) -> set[str]:
        """Return the VMs that the selector of a bulk operation may mean."""
        patterns = msgspec.json.decode(bulk)["select"]["names"]
        return {vm for vm in self._groups if any(fnmatchcase(vm, pattern) for pattern in patterns)}

    def is_vm(self, name: str) -> bool:
        return name in self._groups

    def group_of(self, vm: str) -> str:
        """Return the group of a VM that can have been in only one; empty otherwise."""
        groups = self._groups.get(vm, ())
        return next(iter(groups)) if len(groups) == 1 else ""

    def vms_of(self, group: str) -> list[str]:
        return [vm for vm, groups in self._groups.items() if group in groups]

    def domains_of(self, vms: Iterable[str]) -> set[tuple[int, int]] | None:
        """Return the update and fault domains of VMs; None where they may have changed."""
        found: set[tuple[int, int]] = set()
        for vm in vms:
            domains = self._domains.get(vm, ())
            if len(domains) != 1:
                return None
            found |= set(domains)
        return found

    def _foresee_patch(self, change: str) -> None:
        try:
            told = msgspec.json.decode(change, type=_FleetChange)
        except msgspec.DecodeError:
            return
        for vm in told.vms:
            self.learn(vm.name, vm.group or vm.name)
            self.learn(vm.name, vm.name)
            self._domains.setdefault(vm.name, set()).add((vm.update_domain, vm.fault_domain))
            self.may_be_spot.add(vm.name)
        self.unsettled_groups.update(told.removed_groups, (group.name for group in told.groups))
        self.maybe_gone.update(told.removed_vms)

    def _foresee_edit(self, edit: str, vm: str, group: str) -> None:
        """Expect that the fleet file adds, moves or removes a VM; a group goes with its last VM."""
        self.unsettled_groups.update(self._groups.get(vm, ()))
        if edit in ("add-vm", "regroup-vm"):
            self.learn(vm, group)
            self.unsettled_groups.add(group)
            self.refiled.add(vm)
            self._domains[vm] = set()
        elif edit == "remove-vm":
            self.maybe_gone.add(vm)


class _ChangedGroup(msgspec.Struct):
    name: str


class _ChangedVm(msgspec.Struct):
    name: str
    group: str = ""
    update_domain: int = 0
    fault_domain: int = 0


class _FleetChange(msgspec.Struct):
    groups: tuple[_ChangedGroup, ...] = ()
    vms: tuple[_ChangedVm, ...] = ()
    removed_groups: tuple[str, ...] = ()
    removed_vms: tuple[str, ...] = ()


class GivenApproval(msgspec.Struct, frozen=True):
    """An approval, or a wish for postponement, that may have been taken."""

    by: str
    sent_at: float
    is_acknowledged: bool
    of_vm: bool
    ended_at: float = 0.0


class EventMemory:
    """All that was shown of one event. Its statuses count 0 (Scheduled), 1 (Started) and 2 (gone)."""

    def __init__(self, id_: str, at: float) -> None:
        self.id = id_
        self.first_seen_at = at
        self.fields: dict[str, object] = {}
        """Type, source, resources, description and duration, as far as shown; they keep for life."""
        self.group = ""
        self.ranks = HighWater()
        """By documents, lists and replies, which show what the service goes by."""
        self.recorded_ranks = HighWater()
        """By its timeline, which is read from the journal and may be ahead."""
        self.end = ""
        self.not_before: float | None = None
        self.not_before_ended_at = 0.0
        """When the response with that NotBefore had ended."""
        self.moved_later_at: float | None = None
        self.least_not_before: float | None = None
        self.scheduled_at = -1.0
        """The latest second from which on a response showed it Scheduled."""
        self.started_at: float | None = None
        """When the first response that showed it Started had ended."""
        self.absent_at = 0.0
        """A second at which a document of its group did not have it yet."""
        self.asked_at: float | None = None
        """When the command that announced it was first sent."""
        self.without_notice: str | None = None
        """Why no notice was owed; empty where it was; None where nothing tells."""
        self.approvals: list[GivenApproval] = []
        self.postponements: list[GivenApproval] = []
        self.operated: dict[str, float] = {}
        """When each machine was operated on for it."""
        self.timeline: RecordedTimeline | None = None
        self.timeline_at = -1.0

    def __str__(self) -> str:
        type_ = self.fields.get("type", "event")
        return f"{type_} {self.id[:8].upper()} of {self.group or 'an unknown group'}"

    def is_over_since(self, at: float) -> bool:
        """Tell whether it was seen to be gone before a second."""
        return self.ranks.highest == 2 and self.ranks.reached_at < at

    @property
    def type(self) -> str:
        return str(self.fields.get("type", ""))

    @property
    def resources(self) -> tuple[str, ...]:
        found = self.fields.get("resources", ())
        return found if isinstance(found, tuple) else ()

    @property
    def is_failure(self) -> bool:
        """Tell whether it is a hardware failure, which takes no turn."""
        operation = self.timeline.operation if self.timeline else ""
        return operation.endswith(" fail") or self.fields.get("description") == FAILURE

    @property
    def takes_turns(self) -> bool:
        """Tell whether it is known to be platform maintenance, which goes one update domain at a time."""
        return self.fields.get("source") == "Platform" and self.type in MAINTENANCE and not self.is_failure

    @property
    def recorded_start(self) -> datetime | None:
        """When it started, by its record."""
        steps = self.timeline.steps if self.timeline else ()
        return next((step.at for step in steps if step.what == "Started"), None)

    def is_hidden_from(self, groups: Sequence[str]) -> bool:
        return bool(self.group) and self.group not in groups

    @property
    def announced_after(self) -> float:
        """The latest true second of which it is known that the event was not announced before it."""
        return max(self.absent_at, self.asked_at or 0.0)


MAINTENANCE = ("Freeze", "Reboot", "Redeploy")
WINDOW_CLOSED = "the maintenance window of rollout"
"""The words of a postponement by a rollout, which is no one's wish and counts towards no limit."""
FAILURE = "Virtual machine has encountered a failure."


class RecordedStep(msgspec.Struct):
    """One step of a timeline."""

    at: datetime
    what: str
    by: str = ""
    detail: str = ""


class RecordedTimeline(msgspec.Struct):
    """The record of an event, as the control API returns it."""

    id: str
    type: str
    status: str
    resources: tuple[str, ...]
    source: str
    group: str
    operation: str
    description: str
    duration: int
    announced_at: datetime
    steps: tuple[RecordedStep, ...]
    not_before: datetime | None = None


class Report:
    """The broken promises, one readable line each; a promise that stays broken is reported once."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self._told: set[str] = set()

    def __call__(self, at: float, problem: str) -> None:
        if problem not in self._told:
            self._told.add(problem)
            self.problems.append(f"{at:.3f} s: {problem}")


class CheckerMemory:
    """All that the checker remembers."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.report = Report()
        self.clock = WallClock(is_known=not any(isinstance(each, SkewNode) for each in plan.actions))
        self.disk = DiskFaults()
        self.service = ServiceLife()
        self.members = Membership(plan)
        self.power = AcknowledgedValues()
        """By VM, whether it is deallocated."""
        self.joined = AcknowledgedValues()
        """By VM, the group that a change of the fleet put it into."""
        self.limited: list[tuple[float, float]] = []
        """When operations were asked for, and refused because too many are Scheduled."""
        self.befallen = {each.vm for each in plan.actions if isinstance(each, BefallMachine)}
        """VMs whose machines others start, stop or move."""
        self.network_delay = 4 * max(
            (each.delay for each in plan.actions if isinstance(each, DelayRequests)), default=0.0
        )
        """Seconds by which the network may prolong an exchange."""
        self.events: dict[str, EventMemory] = {}
        self.unfinished: dict[str, dict[str, EventMemory]] = {}
        """By group, the events that were shown and not seen to be gone."""
        self.asked: dict[str, list[float]] = {}
        """When responses to GETs of each group's VMs had ended."""
        self._suspicions: list[_Suspicion] = []

    def suspect(self, values: AcknowledgedValues, name: object, begin: float, end: float, text: str) -> None:
        """Note what contradicts a known value; who asked to change the value may not be answered yet."""
        self._suspicions.append(_Suspicion(values, name, begin, end, values.known(name, begin, end), text))

    def judge_suspicions(self) -> None:
        """Report what still contradicts a known value, now that every request is known."""
        for each in self._suspicions:
            if each.values.known(each.name, each.begin, each.end) == each.known:
                self.report(each.end, each.text)

    def unreported(self, event: EventMemory, what: str) -> set[str]:
        """Return the VMs that did something by the record, and may have been killed before they could report it."""
        steps = event.timeline.steps if event.timeline else ()
        named = {vm for step in steps if step.what == what for vm in words_of(step.by)}
        return {vm for vm in named & self.members.maybe_killed if self.members.may_be_in(vm, event.group)}

    def event(self, id_: str, at: float) -> EventMemory:
        id_ = id_.lower()
        if id_ not in self.events:
            self.events[id_] = EventMemory(id_, at)
        return self.events[id_]
