"""What operators set, and the promises that rest on it: hosts that receive no VMs, and VMs that are switched off.

What was acknowledged stands until another request may have changed it. Then nothing is shown or done against it:

    a cordoned or failed host    is shown as such, and nothing is moved, added or started there
    labels, added groups         are shown
    a deallocated VM             is shown as such, is not operated on, and reads no document
    the host of a VM             is the one on which its machine stands
"""

import re
from collections.abc import Iterator
from math import inf

import msgspec

from forewarn.simulator.actions.environment_faults import BefallMachine, FailDriver
from forewarn.simulator.actions.fleet_requests import EditFleetFile, RequestFleetChange
from forewarn.simulator.actions.vm_requests import RequestMove
from forewarn.simulator.exchanges import ControlExchange, MachineOperation, MachineState, VmExchange
from forewarn.simulator.promises.event_memory import EventMemory
from forewarn.simulator.promises.memory import AcknowledgedValues, CheckerMemory, wall_second
from forewarn.simulator.promises.rollouts import asks_for_drains
from forewarn.simulator.promises.terms import TermPromises

_HOST_OPERATION = re.compile(r"/v1/hosts/([^/?]+)/operations")
_VM_REQUEST = re.compile(r"/v1/vms/([^/?]+)/(operations|move)")
_OF_HOSTS: dict[str, dict[str, object]] = {
    "cordon": {"cordoned": True},
    "drain": {"cordoned": True},
    "uncordon": {"cordoned": False},
    "degrade": {"state": "degraded"},
    "fail": {"state": "failed"},
    "repaired": {"state": "up"},
    "enter-maintenance": {"state": "in-maintenance", "cordoned": True},
}
_EXIT = "exit-maintenance"
"""It changes the state of a host in maintenance only."""
_SWITCHES = {"start": False, "deallocate": True}
_LABELLED = re.compile(r"/v1/vms/([^/?]+)")
_HOST = re.compile(r"/v1/hosts/([^/?]+)")
_SET_HOSTS = ("h8", "h9")
"""Hosts that only operators add and remove."""
_LATER_HOSTS = ("h5", "h6", "h7")
"""Hosts that changes of the fleet add."""
_GROUP = re.compile(r"/v1/groups/([^/?]+)")
_SET_GROUPS = ("g8", "g9")
"""Groups that only operators add and remove."""
_LISTS = ("/v1/hosts", "/v1/vms", "/v1/groups")
_MOVES = ("redeploy", "freeze")
_NO_LABEL = "none"
_AROUND = 10.0


class _Operation(msgspec.Struct):
    operation: str = ""
    host: str = ""


class _ToldHost(msgspec.Struct):
    name: str
    state: str
    cordoned: bool
    labels: dict[str, str] = {}


class _ToldGroup(msgspec.Struct):
    name: str


class _ListedVm(msgspec.Struct):
    name: str
    host: str
    deallocated: bool
    labels: dict[str, str] = {}


class _BulkResult(msgspec.Struct):
    selected: tuple[str, ...] = ()
    refused: dict[str, str] = {}


class _ToldList(msgspec.Struct):
    items: tuple[msgspec.Raw, ...]
    next: str | None = None


class _NewVm(msgspec.Struct):
    name: str
    group: str = ""
    host: str = ""


class _AddedVms(msgspec.Struct):
    vms: tuple[_NewVm, ...] = ()


class HostAndVmPromises:
    """Remembers what was set for hosts and VMs, and checks what is shown and done by it."""

    def __init__(self, memory: CheckerMemory, terms: TermPromises) -> None:
        self._memory = memory
        self._terms = terms
        self._report = memory.report
        self._hosts = AcknowledgedValues()
        self._labels = AcknowledgedValues()
        """The label of each VM."""
        self._groups = AcknowledgedValues()
        """Whether a group exists."""
        self._moves: list[MachineOperation] = []
        self._deallocated: list[tuple[ControlExchange, str]] = []
        self._failed_at: dict[str, float] = {}
        """By VM, when its last start or stop failed."""
        self._repeated: list[tuple[float, MachineOperation]] = []
        """Starts and stops after one that failed, and when that was."""
        self._listed: dict[str, _ListedVm] = {}
        self._last_listed: set[str] = set()
        self._last_hosts: set[str] = set()
        self._last_hosts_at = 0.0
        self._listings: list[tuple[float, _ListedVm]] = []
        self._machines: list[MachineState] = []
        self._added = {vm.name for vm in memory.plan.vms}
        self._keys: set[tuple[str, str]] = set()
        plan = memory.plan
        self._unsettled_hosts = {
            each.subject for each in plan.actions if isinstance(each, EditFleetFile) and each.edit.endswith("-host")
        }
        self._has_drains = any(map(asks_for_drains, plan.actions))
        """Whether rollouts cordon hosts and uncordon them."""
        for each in plan.actions:
            if isinstance(each, RequestFleetChange):
                self._unsettled_hosts.update(host for host in (*plan.hosts, *_LATER_HOSTS) if host in each.change)

    def see_control(self, exchange: ControlExchange) -> None:
        """Note a request that may have set something, or check a response that shows it."""
        path = exchange.path.partition("?")[0].rstrip("/")
        if exchange.is_trial:
            return
        if exchange.method == "GET":
            if exchange.status == 200 and exchange.groups is None and path in _LISTS:
                self._see_list(exchange, path)
            return
        if 400 <= exchange.status < 500:
            return
        # A repetition may have had its effect long ago.
        is_done = 200 <= exchange.status < 300 and (exchange.who, exchange.key) not in self._keys
        if exchange.key:
            self._keys.add((exchange.who, exchange.key))
        if named := _HOST_OPERATION.fullmatch(path):
            self._see_host_operation(exchange, named[1], is_done=is_done)
        elif path == "/v1/hosts/operations":
            result = msgspec.json.decode(exchange.response, type=_BulkResult) if is_done else None
            for host in result.selected if result else (*self._memory.plan.hosts, *_LATER_HOSTS, *_SET_HOSTS):
                if result is None or host not in result.refused:
                    self._see_host_operation(exchange, host, is_done=is_done)
        elif path == "/v1/vms/operations":
            self._see_bulk(exchange, is_done=is_done)
        elif path == "/v1/hosts" or (exchange.method == "DELETE" and _HOST.fullmatch(path)):
            is_added = exchange.method == "POST"
            name = msgspec.json.decode(exchange.body)["name"] if is_added else path.rpartition("/")[2]
            self._hosts.set((name, "exists"), is_added, exchange, is_acknowledged=is_done)
        elif path == "/v1/groups" or (exchange.method == "DELETE" and _GROUP.fullmatch(path)):
            is_added = exchange.method == "POST"
            name = msgspec.json.decode(exchange.body)["name"] if is_added else path.rpartition("/")[2]
            self._groups.set(name, is_added, exchange, is_acknowledged=is_done)
        elif exchange.method == "PATCH" and (named := _LABELLED.fullmatch(path)):
            self._labels.set(named[1], _label_in(exchange), exchange, is_acknowledged=is_done)
        elif exchange.method == "PATCH" and (named := _HOST.fullmatch(path)):
            self._hosts.set((named[1], "label"), _label_in(exchange), exchange, is_acknowledged=is_done)
        elif named := _VM_REQUEST.fullmatch(path):
            asked = _asked(exchange)
            self._see_switch(exchange, named[1], asked.operation, is_done=is_done)
            if is_done and named[2] == "move":
                self._is_open(
                    asked.host, exchange.sent_at, exchange.ended_at, f"{named[1]} was let to move to {asked.host}"
                )
        elif path == "/v1/fleet" and exchange.method == "PATCH":
            for vm in msgspec.json.decode(exchange.body, type=_AddedVms).vms:
                if is_done and vm.name not in self._added:
                    self._is_open(vm.host, exchange.sent_at, exchange.ended_at, f"{vm.name} was added on {vm.host}")
                self._added.add(vm.name)
                self._labels.set(vm.name, None, exchange, is_acknowledged=False)
                if vm.group:
                    self._memory.joined.set(vm.name, vm.group, exchange, is_acknowledged=is_done)

    def _see_host_operation(self, exchange: ControlExchange, host: str, *, is_done: bool) -> None:
        operation = _asked(exchange).operation
        for key, value in _OF_HOSTS.get(operation, {}).items():
            self._hosts.set((host, key), value, exchange, is_acknowledged=is_done)
        if operation == _EXIT:
            self._hosts.set((host, "state"), None, exchange, is_acknowledged=False)

    def _see_switch(self, exchange: ControlExchange, vm: str, operation: str, *, is_done: bool) -> None:
        if operation not in ("start", "deallocate", "evict"):
            return
        value, power = _SWITCHES.get(operation), self._memory.power
        may_be_down = power.may_have_been(vm, True) or power.may_have_been(vm, None)
        power.set(vm, value, exchange, is_acknowledged=is_done and value is not None)
        if is_done and value and not may_be_down:  # else it may have been so before, whatever event it is under
            self._deallocated.append((exchange, vm))

    def _see_bulk(self, exchange: ControlExchange, *, is_done: bool) -> None:
        """Note what was done to each VM; where that is not known, to all that may have been meant."""
        operation = _asked(exchange).operation
        if not is_done:
            for vm in sorted(self._memory.members.matching(exchange.body)):
                self._see_switch(exchange, vm, operation, is_done=False)
            return
        result = msgspec.json.decode(exchange.response, type=_BulkResult)
        for vm in result.selected:
            if vm not in result.refused:
                self._see_switch(exchange, vm, operation, is_done=True)

    def _is_open(self, host: str, begin: float, end: float, what: str) -> None:
        """Check that a host may receive VMs, as far as is known from one second to another."""
        if not host or host in self._unsettled_hosts:
            return
        if self._hosts.known((host, "cordoned"), begin, end) is True and not self._has_drains:
            self._memory.suspect(self._hosts, (host, "cordoned"), begin, end, f"{what}, which is cordoned")
        if self._hosts.known((host, "state"), begin, end) == "failed":
            self._memory.suspect(self._hosts, (host, "state"), begin, end, f"{what}, which has failed")

    def _see_list(self, exchange: ControlExchange, path: str) -> None:
        begin, end = exchange.sent_at, exchange.ended_at
        items = msgspec.json.decode(exchange.response, type=_ToldList).items
        if path == "/v1/groups":
            self._see_groups({msgspec.json.decode(item, type=_ToldGroup).name for item in items}, begin, end)
            return
        if path == "/v1/hosts":
            self._last_hosts = {msgspec.json.decode(item, type=_ToldHost).name for item in items}
            self._last_hosts_at = begin
            for name in _SET_HOSTS:
                known = self._hosts.known((name, "exists"), begin, end)
                if known is not None and known is not (name in self._last_hosts):
                    verb = "is not shown, and was added" if known else "is shown, and was removed"
                    self._memory.suspect(self._hosts, (name, "exists"), begin, end, f"host {name} {verb}")
            for host in (msgspec.json.decode(item, type=_ToldHost) for item in items):
                values = {"cordoned": host.cordoned, "state": host.state, "label": host.labels.get("tier", _NO_LABEL)}
                for key, shown in values.items():
                    known = self._hosts.known((host.name, key), begin, end)
                    is_settled = host.name not in self._unsettled_hosts and not (
                        key == "cordoned" and self._has_drains
                    )
                    if is_settled and known not in (None, shown):
                        text = f"host {host.name} is shown with {key} {shown}, and {known} was set"
                        self._memory.suspect(self._hosts, (host.name, key), begin, end, text)
            return
        self._last_listed.clear()
        for vm in (msgspec.json.decode(item, type=_ListedVm) for item in items):
            self._last_listed.add(vm.name)
            self._listed[vm.name] = vm
            self._listings.append((begin, vm))
            label = self._labels.known(vm.name, begin, end)
            shown = vm.labels.get("tier", _NO_LABEL)
            if label not in (None, shown) and vm.name not in self._memory.members.maybe_gone:
                text = f"{vm.name} is shown with label {shown}, and {label} was set"
                self._memory.suspect(self._labels, vm.name, begin, end, text)
            known = self._memory.power.known(vm.name, begin, end)
            if known not in (None, vm.deallocated) and vm.name not in self._memory.members.maybe_gone:
                text = f"{vm.name} is shown with deallocated {vm.deallocated}, and {known} was set"
                self._memory.suspect(self._memory.power, vm.name, begin, end, text)

    def _see_groups(self, names: set[str], begin: float, end: float) -> None:
        for name in _SET_GROUPS:
            known = self._groups.known(name, begin, end)
            if known is not None and known is not (name in names):
                verb = "is not shown, and was added" if known else "is shown, and was removed"
                self._memory.suspect(self._groups, name, begin, end, f"group {name} {verb}")

    def see_vm(self, exchange: VmExchange) -> None:
        """Check that a VM which is deallocated reads nothing."""
        if exchange.status == 200 and self._is_down(exchange.vm, exchange.sent_at, exchange.ended_at):
            text = f"{exchange.vm} is deallocated, and was answered {exchange.method}"
            self._memory.suspect(self._memory.power, exchange.vm, exchange.sent_at, exchange.ended_at, text)

    def see_operation(self, done: MachineOperation) -> None:
        """Check that nothing is done to a VM which is deallocated, or started where nothing starts."""
        if done.event and done.what != "terminate" and self._is_down(done.vm, done.at, done.at):
            text = f"machine {done.vm} was operated on ({done.what}), though it is deallocated"
            self._memory.suspect(self._memory.power, done.vm, done.at, done.at, text)
        self._is_not_repeated(done)
        if done.host and done.what in _MOVES:
            self._moves.append(done)
        first = self._memory.power.first_sent(done.vm, False)
        if done.what == "start" and first is not None:
            self._is_open(done.host, first, done.at, f"{done.vm} was started on {done.host}")

    def _is_not_repeated(self, done: MachineOperation) -> None:
        """Check that a start or stop which failed is not tried again without being asked for."""
        memory, failed_at = self._memory, self._failed_at.pop(done.vm, None)
        if done.what.endswith(" failed"):
            self._failed_at[done.vm] = done.at
        if failed_at is None or done.event or memory.disk.may_fail(0.0, done.at):
            return
        if memory.service.is_unchanged(failed_at, done.at):
            self._repeated.append((failed_at, done))  # who asked for it may not be answered yet

    def see_state(self, state: MachineState) -> None:
        """Note how a machine stands at the end."""
        self._machines.append(state)

    def _is_down(self, vm: str, begin: float, end: float) -> bool:
        return vm not in self._memory.members.maybe_gone and self._memory.power.known(vm, begin, end) is True

    # A start applies what it can of the fleet file, whatever is recorded.

    def _starts_with_the_file(self, now: float) -> None:
        """Check that hosts which were added to the file are there after a start, whatever else the file changes."""
        memory = self._memory
        edits = [each for each in memory.plan.actions if isinstance(each, EditFleetFile)]
        # A file that is wrong in itself changes nothing: it was spoilt, two VMs have one address, or a VM stands on a
        # host that it lacks.
        addresses = {each.subject: each.value.rpartition("/")[2] for each in edits if each.edit == "add-vm"}
        if len(set(addresses.values())) < len(addresses) or not self._last_hosts:
            return
        # Of several nodes, one applies its file when it begins to lead, not when it starts beside a leader.
        if memory.plan.nodes or any(each.edit == "remove-host" for each in edits):
            return
        for edit in edits:
            if edit.edit == "add-host" and edit.subject not in self._last_hosts:
                starts = (
                    each for each in memory.service.starts if each[0] > edit.at and each[1] < self._last_hosts_at
                )
                if any(not memory.disk.may_fail(*start) and not _is_spoilt(edits, start[0]) for start in starts):
                    self._report(now, f"host {edit.subject} was added to the fleet file, and no start brought it")

    def settle(self, now: float) -> None:
        memory = self._memory
        self._starts_with_the_file(now)
        for failed_at, done in self._repeated:
            if not memory.power.was_asked(done.vm, failed_at, done.at):
                self._report(
                    done.at, f"machine {done.vm}: {done.what}, after that had failed, and nobody asked again"
                )
        if memory.clock.is_steady(0.0, now):
            for exchange, vm in self._deallocated:
                self._is_not_under_an_event(exchange, vm)
            self._evicts_as_the_terms_say(now)
            for done in self._moves:
                started = memory.event(done.event, done.at).recorded_start
                if started is not None:
                    what = f"machine {done.vm} was moved to {done.host}"
                    self._is_open(done.host, wall_second(started), done.at, what)
                self._is_not_recorded_where_it_is_lost(done)
        if any(isinstance(each, FailDriver) for each in memory.plan.actions):
            return
        for machine in self._machines:
            if machine.vm not in memory.members.maybe_gone and machine.exists:
                self._is_switched(machine, now)
                self._stands_where_it_is_listed(machine, now)

    def _evicts_as_the_terms_say(self, now: float) -> None:
        """Check that VMs that are deleted by their eviction are gone, unless they may have been added again."""
        memory = self._memory
        for event in self._memory.events.values():
            if self._terms.is_deleted_by_eviction(event):
                there = self._last_listed - memory.members.refiled
                left = [vm for vm in event.resources if vm in there and memory.joined.first_sent(vm, None) is None]
                if left:
                    self._report(now, f"{event} deletes, and {', '.join(left)} is still there")

    def _is_not_recorded_where_it_is_lost(self, done: MachineOperation) -> None:
        """Check that a VM which arrived on a host that had failed meanwhile is not said to stand there."""
        record = self._memory.event(done.event, done.at).timeline
        arrived = wall_second(record.steps[-1].at) if record and record.status in ("Completed", "Failed") else inf
        for listed_at, vm in self._listings:
            if (
                vm.name == done.vm
                and vm.host == done.host
                and listed_at > arrived
                and vm.host not in self._unsettled_hosts
                and vm.name not in self._memory.befallen
            ):
                what = f"{vm.name} arrived at {arrived:.1f} s on {vm.host}"
                if self._hosts.known((vm.host, "state"), arrived - 0.5, listed_at) == "failed":
                    self._report(listed_at, f"{what} and is told to stand there, which had failed")

    def _is_not_under_an_event(self, exchange: ControlExchange, vm: str) -> None:
        """Check that a VM was deallocated while no event of it was Started."""
        for event, begin, end in self._started_on(vm):
            if begin < exchange.sent_at - 1.0 and end > exchange.ended_at + 1.0:
                self._report(exchange.ended_at, f"{vm} was deallocated while {event} was Started")

    def _started_on(self, vm: str) -> Iterator[tuple[EventMemory, float, float]]:
        """Yield the events of a VM, with their recorded starts and ends."""
        for event in self._memory.events.values():
            if event.timeline and event.recorded_start and vm in event.resources:
                yield event, wall_second(event.recorded_start), wall_second(event.timeline.steps[-1].at)

    def _is_switched(self, machine: MachineState, now: float) -> None:
        """Check that a machine runs, or not, as was asked for."""
        is_down = self._memory.power.known(machine.vm, now, now)
        if machine.vm not in self._memory.befallen and is_down is not None and machine.is_running is is_down:
            self._report(
                now, f"machine {machine.vm} {'runs' if is_down else 'does not run'}, though it was asked not to"
            )

    def _stands_where_it_is_listed(self, machine: MachineState, now: float) -> None:
        memory, listed = self._memory, self._listed.get(machine.vm)
        if listed is None or listed.host == machine.host or machine.host in self._unsettled_hosts:
            return
        has_failed = self._hosts.may_have_been((machine.host, "state"), "failed")
        moves = (each for each in memory.plan.actions if isinstance(each, RequestMove | EditFleetFile))
        is_moved = any(machine.vm in (getattr(each, "vm", ""), getattr(each, "subject", "")) for each in moves)
        if has_failed or is_moved or self._unsettled_hosts or not memory.clock.is_steady(0.0, now):
            return
        # Where an impact failed, a driver that does not watch its machines may not know where they went.
        unclear = ("Started",) if memory.plan.driver == "machines" else ("Started", "Failed")
        if any(event.timeline and event.timeline.status in unclear for event, *_ in self._started_on(machine.vm)):
            return
        befallen = [
            each.at for each in memory.plan.actions if isinstance(each, BefallMachine) and each.vm == machine.vm
        ]
        is_watched = memory.plan.driver == "machines"
        if befallen and not (is_watched and self._was_found(machine.vm, max(befallen))):
            return
        self._report(now, f"{machine.vm} is told to stand on {listed.host}, and its machine stands on {machine.host}")

    def _was_found(self, vm: str, after: float) -> bool:
        """Tell whether the service started after that, and nothing else can explain what it found then."""
        if self._memory.power.first_sent(vm, None) is not None:
            return False
        begun = [at for at in self._memory.service.served_at if at > after]
        spans = [(begin - _AROUND, end + _AROUND) for _, begin, end in self._started_on(vm)]
        return any(not any(begin <= at <= end for begin, end in spans) for at in begun)


def _is_spoilt(edits: list[EditFleetFile], at: float) -> bool:
    """Tell whether the fleet file cannot be read at that second."""
    spoilt = [each.edit == "spoil" for each in edits if each.edit in ("spoil", "mend") and each.at <= at]
    return any(spoilt[-1:])


def _label_in(exchange: ControlExchange) -> str:
    return str(msgspec.json.decode(exchange.body)["labels"]["tier"] or _NO_LABEL)


def _asked(exchange: ControlExchange) -> _Operation:
    return msgspec.json.decode(exchange.body, type=_Operation)
