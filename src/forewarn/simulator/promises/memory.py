"""All that the checker of promises remembers: clock, disk, service, acknowledged values, membership and events.

Everything here comes from the plan and from exchanges. A response tells how things stood at some moment between its
request and its end, so two responses are compared only if one request was sent after the other response had ended.
"""

import re
from datetime import datetime
from functools import cache
from math import inf

import msgspec

from forewarn.simulator.actions.cluster_faults import SkewNode
from forewarn.simulator.actions.environment_faults import BefallMachine, DelayRequests, LoseRequests
from forewarn.simulator.environment.clock import EPOCH
from forewarn.simulator.exchanges import ClockChange, ControlExchange, DiskFault, ProcessState
from forewarn.simulator.plan import Plan
from forewarn.simulator.promises.event_memory import EventMemory
from forewarn.simulator.promises.membership import Membership

RETRY_SECONDS = 35.0
"""The service writes to a disk that failed again after at most so many seconds."""
CLOCK_TOLERANCE = 70.0
"""Seconds after a change of the clock in which the service may go by the time of its last record."""
_EXACT = 1e-6
_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?")


def words_of(text: str) -> list[str]:
    """Return all that may be a name of a VM, a group or a host."""
    return _NAME.findall(text)


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

    def set_back_since(self, when: float) -> float:
        """Return the seconds by which it was furthest behind what it would show had it not been touched since."""
        before = self.at(when) - when
        return max([0.0, *(before + each.at - self.at(each.at) for each in self._changes if each.at > when)])

    @property
    def right_until(self) -> float:
        """The second until which it was never touched, and the service went by it."""
        return self._changes[0].at if self._changes and self._is_known else inf if self._is_known else 0.0

    def is_steady(self, begin: float, end: float) -> bool:
        """Return whether the service went by this clock, and it was not touched, from one second to another."""
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
        """Return whether a request of that time may have been refused because of the disk."""
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
        """Return whether one process served without a change from one second to another."""
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
        """Return whether a request was sent between two seconds."""
        return any(begin < each.sent_at <= end for each, *_ in self._changes.get(name, ()))

    def times_asked(self, name: object, begin: float, end: float) -> int:
        """Count the requests that were sent between two seconds."""
        return sum(begin < each.sent_at <= end for each, *_ in self._changes.get(name, ()))

    def was_under_way(self, name: object, value: object, begin: float, end: float) -> bool:
        """Return whether a request for this value had no answer at some moment between two seconds."""
        asked = (each for each, given, _ in self._changes.get(name, ()) if given == value)
        return any(each.sent_at <= end and begin < each.ended_at for each in asked)

    def may_have_been(self, name: object, value: object) -> bool:
        return any(given == value for _, given, _ in self._changes.get(name, ()))


class EndOfVms(msgspec.Struct, frozen=True):
    """A request that was acknowledged, and ends events of VMs."""

    what: str
    """``evict or delete``, ``deallocate`` or ``host fail``."""
    vms: tuple[str, ...]
    sent_at: float
    """When it was sent for the first time."""
    ended_at: float


class _Suspicion(msgspec.Struct, frozen=True):
    """Something against a value that was known, unless a request that changed it was under way then."""

    values: AcknowledgedValues
    name: object
    begin: float
    end: float
    known: object
    text: str


class Report:
    """The broken promises, one readable line each; a promise that stays broken is reported once."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self._reported: set[str] = set()

    def __call__(self, at: float, problem: str) -> None:
        if problem not in self._reported:
            self._reported.add(problem)
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
        self.ends_of_vms: list[EndOfVms] = []
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

    def may_stall(self, begin: float, end: float) -> bool:
        """Return whether the network lost some of what was sent between two seconds: such a connection stalls."""
        lossy = (each for each in self.plan.actions if isinstance(each, LoseRequests))
        return any(each.at <= end and begin <= each.at + each.seconds for each in lossy)

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
