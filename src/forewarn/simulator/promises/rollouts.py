"""The promises about rollouts, by what the history tells of them; judged at the end, when all requests are known.

A host waits, begins with a wave, and ends; these never hold:

    more hosts in waves at once than allowed, or a host that was not selected, or one in two rollouts
    a host that begins again without having been put back, or is done twice
    a wave or an announcement while the rollout is paused or stops, or after more failures than it tolerates
    a wave without its gate; an event that starts outside the windows, or after its host was withdrawn
    a command on a host where VMs still run
    a rollout that neither ends nor says why it waits, once no fault happens any more
"""

import re
from datetime import datetime
from fnmatch import fnmatchcase
from math import inf

import msgspec

from forewarn.simulator.actions.fleet_requests import EditFleetFile, RequestFleetChange
from forewarn.simulator.actions.planned_action import PlannedAction
from forewarn.simulator.actions.rollout_requests import RequestRollout
from forewarn.simulator.exchanges import ControlExchange, HostCommandRun
from forewarn.simulator.promises.memory import CheckerMemory

_STEERED = re.compile(r"/v1/rollouts/([^/?]+)(?:/(\w+))?")
_HOST = re.compile(r"rollout \S+: host (\S+) (.*)")
_WAVE = re.compile(r"rollout \S+: wave (\d+) begins: (.*)")
_CHECKED = re.compile(r"rollout \S+: wave (\d+) may begin")
_LEFT = ("waits for a wave again", "failed", "is skipped", "is done")
_ENDED = ("completed", "canceled", "stopped")


class _AskedTerms(msgspec.Struct):
    """What was asked of a rollout, as far as promises depend on it."""

    hosts: tuple[str, ...] = ()
    all_hosts: bool = False
    parallel: int = 1
    gate: dict[str, object] | None = None
    windows: tuple[str, ...] = ()
    every: int = 0
    on_failure: str = "pause"
    max_failures: int = 0


class _AskedRollout(msgspec.Struct):
    name: str
    terms: _AskedTerms


class _ListedRollout(msgspec.Struct):
    name: str
    state: str
    reason: str = ""
    blocked: str = ""
    waiting: int = 0
    active: int = 0


class _ListedRollouts(msgspec.Struct):
    items: tuple[_ListedRollout, ...]


class _Line(msgspec.Struct):
    revision: int
    at: datetime
    fact: str
    event: str = ""
    detail: dict[str, object] = {}

    @property
    def rollout(self) -> str:
        return str(self.detail.get("rollout", ""))

    @property
    def said(self) -> str:
        return str(self.detail.get("said", ""))


class _HistoryPage(msgspec.Struct):
    items: tuple[_Line, ...]
    next: str | None = None


class _RolloutRun:
    """A rollout as the history tells of it."""

    def __init__(self, name: str, terms: list[_AskedTerms], edits: set[str]) -> None:
        self.name = name
        self.terms = terms
        self.edits = edits
        """The keys that may have been changed since."""
        self.state = "running"
        self.active: set[str] = set()
        self.begun: set[str] = set()
        self.done: set[str] = set()
        self.failed = 0
        """Failures since it was last resumed."""
        self.checked = 0
        self.events: dict[str, str] = {}
        """The host of each event that has not started."""

    def of(self, key: str) -> list[object]:
        """Return the values that a key of its terms may have."""
        return [getattr(terms, key) for terms in self.terms]

    def selects(self, host: str) -> bool:
        return any(
            terms.all_hosts or any(fnmatchcase(host, pattern) for pattern in terms.hosts) for terms in self.terms
        )


class RolloutPromises:
    """Remembers what was asked of rollouts, and checks the history by it."""

    def __init__(self, memory: CheckerMemory) -> None:
        self._memory = memory
        self._report = memory.report
        self._asked: dict[str, list[_AskedTerms]] = {}
        self._edits: dict[str, set[str]] = {}
        self._acknowledged: dict[str, float] = {}
        self._listed: tuple[_ListedRollout, ...] | None = None
        self._lines: list[_Line] = []
        self._is_read = False
        self._changed_vms = [
            str(each) for each in memory.plan.actions if isinstance(each, EditFleetFile | RequestFleetChange)
        ]
        self._commands: list[tuple[HostCommandRun, list[str]]] = []
        """Commands that began on a host, with the VMs that ran there without an excuse."""
        self._runs: dict[str, _RolloutRun] = {}
        self._entry: list[str] = []
        """The events that the entry has announced for no host yet."""

    @property
    def is_windowed(self) -> bool:
        """Whether a rollout with windows was asked for, or with unknown terms."""
        return any(terms.windows for asked in self._asked.values() for terms in asked)

    def see_control(self, exchange: ControlExchange) -> None:
        path = exchange.path.partition("?")[0].rstrip("/")
        is_done = 200 <= exchange.status < 300
        if path == "/v1/history" and is_done and "order=oldest" in exchange.path:
            self._see_history(exchange)
        if not path.startswith("/v1/rollouts"):
            return
        if exchange.groups is not None and is_done:
            where = f"{exchange.method} {exchange.path}"
            self._report(exchange.ended_at, f"{exchange.who}, an owner, was let at rollouts by {where}")
        if exchange.method == "GET":
            if path == "/v1/rollouts" and is_done:
                self._listed = msgspec.json.decode(exchange.response, type=_ListedRollouts).items
        elif path == "/v1/rollouts":
            asked = msgspec.json.decode(exchange.body, type=_AskedRollout)
            if is_done or exchange.status in (0, 503):
                self._asked.setdefault(asked.name, []).append(asked.terms)
            if is_done:
                self._acknowledged.setdefault(asked.name, exchange.ended_at)
        elif exchange.method == "PATCH" and (named := _STEERED.fullmatch(path)):
            self._edits.setdefault(named[1], set()).update(msgspec.json.decode(exchange.body))
            self._asked.setdefault(named[1], []).append(msgspec.json.decode(exchange.body, type=_AskedTerms))

    def _see_history(self, exchange: ControlExchange) -> None:
        if "cursor=" not in exchange.path:
            self._lines.clear()
        page = msgspec.json.decode(exchange.response, type=_HistoryPage)
        self._lines += page.items
        self._is_read = page.next is None

    # A command runs on a host that was drained: no VM runs there.

    def see_host_command(self, run: HostCommandRun) -> None:
        members = self._memory.members
        excused = self._memory.befallen | members.maybe_down | members.maybe_gone
        there = [vm for vm in run.running if vm not in excused and not any(vm in each for each in self._changed_vms)]
        if there:
            self._commands.append((run, there))

    def _begins_on_an_empty_host(self, run: HostCommandRun, there: list[str]) -> None:
        """Report a command beside a VM, unless an event that Failed may have moved it: its host is unknown then."""
        failed = [self._memory.event(line.event, run.at) for line in self._lines if line.fact == "failed"]
        there = [vm for vm in there if not any(event.operated.get(vm, inf) < run.at for event in failed)]
        if there:
            self._report(run.at, f"a command began on host {run.host}, where {', '.join(there)} runs")

    def seconds_to_settle(self) -> float:
        """Return how long all rollouts may take, one host after another."""
        plan = self._memory.plan
        hosts = sum(isinstance(each, RequestRollout) for each in plan.actions) * (len(plan.hosts) + 2)
        return hosts * ((900.0 + 600.0) / plan.hurry + 20.0 * plan.slowness + 10.0)

    def settle(self, now: float) -> None:
        for run, there in self._commands:
            self._begins_on_an_empty_host(run, there)
        if self._is_read:
            for line in self._lines:
                self._replay(line, now)
            for name, at in self._acknowledged.items():
                if name not in self._runs:
                    self._report(at, f"the start of rollout {name} was acknowledged, and the history lacks it")
        for listed in self._listed or ():
            self._ends_or_says_why(listed, now)

    # Every rollout ends, or is paused or waits with a reason.

    def _ends_or_says_why(self, listed: _ListedRollout, now: float) -> None:
        others = [each for each in self._listed or () if each.name != listed.name and each.state not in _ENDED]
        is_excused = (
            self.is_windowed
            or not self._memory.clock.is_steady(0.0, now)  # NotBefore may be hours away
            or any("quiet_hours" in str(each) for each in (*self._memory.plan.actions, *self._memory.plan.groups))
        )
        text = f"rollout {listed.name} is {listed.state}"
        if listed.state == "paused" and not listed.reason:
            self._report(now, f"{text} without a reason")
        is_stuck = listed.state == "running" and not listed.blocked
        is_waiting = listed.state == "queued" and not others
        if not is_excused and (is_stuck or is_waiting or listed.state == "stopping"):
            self._report(now, f"{text} and does not go on, with {listed.active} hosts active")

    # The history, line by line.

    def _replay(self, line: _Line, now: float) -> None:
        if line.fact == "announced":
            if self._entry and self._entry[0] != str(line.revision):
                self._entry = []
            self._entry = self._entry or [str(line.revision)]
            self._entry.append(line.event)
        elif line.fact == "started":
            self._starts_as_it_may(line, now)
        elif line.fact in ("canceled", "completed", "failed"):
            for run in self._runs.values():
                run.events.pop(line.event, None)
        elif line.fact.startswith("rollout-"):
            self._replay_rollout(line, line.fact.removeprefix("rollout-"), now)

    def _replay_rollout(self, line: _Line, what: str, now: float) -> None:
        name = line.rollout
        if what == "started":
            run = self._runs[name] = _RolloutRun(name, self._asked.get(name, []), self._edits.get(name, set()))
            run.state = "queued" if f"rollout {name} is queued" in line.said else "running"
            return
        run = self._runs[name]
        match what:
            case "wave-started":
                self._begins_as_it_may(run, line, now)
            case "host-changed":
                self._change_host(run, line, now)
            case "checked" if checked := _CHECKED.match(line.said):
                run.checked = int(checked[1])
            case "paused":
                run.state = "paused"
                if not line.said.partition("pauses: ")[2]:
                    self._report(now, f"rollout {name} was paused without a reason")
            case "resumed":
                run.state, run.failed = "running", 0
            case "stopping":
                run.state = "stopping"
            case "ended":
                self._ends_as_it_may(run, line, now)

    def _begins_as_it_may(self, run: _RolloutRun, line: _Line, now: float) -> None:
        found = _WAVE.fullmatch(line.said)
        if found is None:
            self._report(now, f"the beginning of a wave cannot be read: {line.said}")
            return
        wave, hosts = int(found[1]), found[2].split(", ")
        where = f"wave {wave} of rollout {run.name}"
        if run.state != "running":
            self._report(now, f"{where} began while it was {run.state}")
        if run.terms and len(run.active) + len(hosts) > max(terms.parallel for terms in run.terms):
            self._report(now, f"{where} has {', '.join(sorted({*hosts, *run.active}))}, more than allowed at once")
        is_tolerant = any(terms.on_failure == "skip" for terms in run.terms)
        if run.terms and not is_tolerant and run.failed > max(terms.max_failures for terms in run.terms):
            self._report(now, f"{where} began after {run.failed} hosts had failed")
        needs_gate = all(terms.gate for terms in run.terms) and run.terms and "gate" not in run.edits
        if needs_gate and run.checked != wave:
            self._report(now, f"{where} began without its gate")
        for host in hosts:
            if run.terms and not run.selects(host):
                self._report(now, f"{where} has {host}, which was not selected")
            if host in run.begun:
                self._report(now, f"{where} has {host}, which had begun before")
            for other in self._runs.values():
                if other is not run and host in other.active:
                    self._report(now, f"{where} has {host}, which is in a wave of rollout {other.name}")
        run.active.update(hosts)
        run.begun.update(hosts)

    def _change_host(self, run: _RolloutRun, line: _Line, now: float) -> None:
        found = _HOST.fullmatch(line.said)
        if found is None:
            self._report(now, f"a step of a host cannot be read: {line.said}")
            return
        host, step = found[1], found[2]
        if host in run.done:
            self._report(now, f"host {host} of rollout {run.name}, which is done, {step}")
        if step.startswith("is announced"):
            events = self._entry[1:] if self._entry and self._entry[0] == str(line.revision) else []
            self._entry = []
            if events and run.state != "running":
                self._report(now, f"rollout {run.name} announced events on {host} while it was {run.state}")
            run.events.update(dict.fromkeys(events, host))
        if step.startswith(_LEFT):
            run.active.discard(host)
        if step.startswith("waits for a wave again"):
            run.begun.discard(host)
        else:
            run.begun.add(host)
        if step.startswith("failed"):
            run.failed += 1
        if step.startswith("is done"):
            run.done.add(host)

    def _ends_as_it_may(self, run: _RolloutRun, line: _Line, now: float) -> None:
        if run.active:
            self._report(now, f"rollout {run.name} ended with {', '.join(sorted(run.active))} active")
        if run.events:
            self._report(now, f"rollout {run.name} ended with {len(run.events)} events that had not started")
        if run.state == "paused":
            self._report(now, f"rollout {run.name} ended while it was paused")
        run.state = "ended"

    def _starts_as_it_may(self, line: _Line, now: float) -> None:
        for run in self._runs.values():
            host = run.events.pop(line.event, None)
            if host is None:
                continue
            where = f"event {line.event} of rollout {run.name} on {host} started"
            if host not in run.active:
                self._report(now, f"{where} after its host had left the wave")
            if run.state in ("stopping", "ended"):
                self._report(now, f"{where} while the rollout was {run.state}")
            windows = [each for terms in run.terms for each in terms.windows]
            is_sure = all(terms.windows for terms in run.terms) and not run.edits
            if is_sure and windows and not any(_is_open(window, line.at) for window in windows):
                self._report(now, f"{where} at {line.at:%H:%M:%S}, outside its windows {', '.join(windows)}")


def _is_open(window: str, at: datetime) -> bool:
    """Return whether a window of one day, such as 08:00-09:00, is open."""
    begin, end = window.split("-")
    return begin <= f"{at:%H:%M}" < end


def asks_for_drains(action: PlannedAction) -> bool:
    """Return whether an action may begin a rollout that cordons hosts."""
    return isinstance(action, RequestRollout) and ('"drain"' in action.terms or '"command"' in action.terms)
