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
from forewarn.simulator.actions.fleet_requests import EditFleetFile, RequestFleetApply, RequestFleetChange
from forewarn.simulator.actions.host_requests import RequestHostSelection
from forewarn.simulator.actions.vm_requests import RecordMove, RequestMove, RequestVmSelection
from forewarn.simulator.exchanges import ControlExchange, MachineOperation, MachineState, VmExchange
from forewarn.simulator.promises.event_memory import EventMemory
from forewarn.simulator.promises.host_and_vm_bodies import (
    NO_LABEL,
    AddedVms,
    AppliedFile,
    AskedOperation,
    BulkResult,
    ChangedKeys,
    ListedVm,
    ToldGroup,
    ToldHost,
    ToldList,
)
from forewarn.simulator.promises.memory import AcknowledgedValues, CheckerMemory, wall_second, words_of
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
_VM_KEYS = ("update_domain", "fault_domain", "spot")
_MOVES = ("redeploy", "freeze")
_AROUND = 10.0


class HostAndVmPromises:
    """Remembers what was set for hosts and VMs, and checks what is shown and done by it."""

    def __init__(self, memory: CheckerMemory, terms: TermPromises) -> None:
        self._memory = memory
        self._terms = terms
        self._report = memory.report
        self._hosts = AcknowledgedValues()
        self._labels = AcknowledgedValues()
        """The label of each VM."""
        self._vms = AcknowledgedValues()
        """Domains of VMs, whether each is a spot VM, and whether a change of the fleet added or removed it."""
        self._groups = AcknowledgedValues()
        """Whether a group exists."""
        self._moves: list[MachineOperation] = []
        self._deallocated: list[tuple[ControlExchange, str]] = []
        self._listed: dict[str, ListedVm] = {}
        self._last_listed: set[str] = set()
        self._last_hosts: set[str] = set()
        self._last_hosts_at = 0.0
        self._listings: list[tuple[float, ListedVm]] = []
        self._machines: list[MachineState] = []
        self._added = {vm.name for vm in memory.plan.vms}
        self._keys: set[tuple[str, str]] = set()
        plan = memory.plan
        self._unsettled_hosts = {
            each.subject for each in plan.actions if isinstance(each, EditFleetFile) and each.edit.endswith("-host")
        }
        self._removes_hosts = any(
            isinstance(each, RequestHostSelection) and each.operation == "remove" for each in plan.actions
        )
        self._has_drains = any(map(asks_for_drains, plan.actions))
        """Whether rollouts cordon hosts and uncordon them."""
        is_changed = any(
            isinstance(each, EditFleetFile | RequestFleetChange | RequestFleetApply) for each in plan.actions
        )
        self._settled_hosts = _SET_HOSTS if is_changed else (*_SET_HOSTS, *plan.hosts)
        """Hosts that nothing else than requests adds and removes; a VM in a fleet file brings its host with it."""
        self._may_be_held = {each.subject for each in plan.actions if isinstance(each, EditFleetFile)}
        """What a fleet file may not have changed at once; a response names only what was not held before."""
        self._has_unknown_apply = False
        """Whether a file was sent, and what it holds was not told."""
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
            result = msgspec.json.decode(exchange.response, type=BulkResult) if is_done else None
            for host in result.selected if result else self._known_hosts:
                if result is None or host not in result.refused:
                    self._see_host_operation(exchange, host, is_done=is_done)
        elif path == "/v1/vms/operations":
            self._see_bulk(exchange, is_done=is_done)
        elif path == "/v1/hosts" or (exchange.method == "DELETE" and _HOST.fullmatch(path)):
            is_added = exchange.method == "POST"
            name = msgspec.json.decode(exchange.body)["name"] if is_added else path.rpartition("/")[2]
            self._set_host(name, exchange, exists=is_added, is_done=is_done)
        elif path == "/v1/groups" or (exchange.method == "DELETE" and _GROUP.fullmatch(path)):
            is_added = exchange.method == "POST"
            name = msgspec.json.decode(exchange.body)["name"] if is_added else path.rpartition("/")[2]
            self._groups.set(name, is_added, exchange, is_acknowledged=is_done)
        elif exchange.method == "PATCH" and (named := _LABELLED.fullmatch(path)):
            keys = msgspec.json.decode(exchange.body, type=ChangedKeys)
            if keys.labels:
                self._labels.set(named[1], keys.label, exchange, is_acknowledged=is_done)
            for key in _VM_KEYS:
                if (value := getattr(keys, key)) is not None:
                    self._vms.set((named[1], key), value, exchange, is_acknowledged=is_done)
            if keys.group:
                self._memory.joined.set(named[1], keys.group, exchange, is_acknowledged=is_done)
        elif exchange.method == "PATCH" and (named := _HOST.fullmatch(path)):
            label = msgspec.json.decode(exchange.body, type=ChangedKeys).label
            self._hosts.set((named[1], "label"), label, exchange, is_acknowledged=is_done)
        elif named := _VM_REQUEST.fullmatch(path):
            asked = _asked(exchange)
            self._see_switch(exchange, named[1], asked.operation, is_done=is_done)
            if is_done and named[2] == "move" and not asked.record:
                self._lets_move(exchange, named[1], asked.host)
        elif path == "/v1/fleet/declaration":
            self._see_apply(exchange, is_done=is_done)
        elif path == "/v1/fleet" and exchange.method == "PATCH":
            change = msgspec.json.decode(exchange.body, type=AddedVms)
            for name in change.removed_vms:
                self._may_leave(exchange, name)
                self._vms.set((name, "exists"), False, exchange, is_acknowledged=is_done)
            for vm in change.vms:
                if is_done and vm.name not in self._added:
                    self._is_open(vm.host, exchange.sent_at, exchange.ended_at, f"{vm.name} was added on {vm.host}")
                self._added.add(vm.name)
                self._vms.set((vm.name, "exists"), True, exchange, is_acknowledged=is_done)
                for key in _VM_KEYS:
                    self._vms.set((vm.name, key), None, exchange, is_acknowledged=False)
                self._labels.set(vm.name, None, exchange, is_acknowledged=False)
                if vm.group:
                    self._memory.joined.set(vm.name, vm.group, exchange, is_acknowledged=is_done)

    def _see_apply(self, exchange: ControlExchange, *, is_done: bool) -> None:
        """Note that a fleet file may have replaced all that was set at run time, which it does where it is exact."""
        if not msgspec.json.decode(exchange.body, type=AppliedFile).exact:
            return
        plan = self._memory.plan
        if is_done:
            held = msgspec.json.decode(exchange.response, type=BulkResult).held
            self._may_be_held.update(words_of(" ".join(held)))
        self._has_unknown_apply |= not is_done

        def is_sure(name: str) -> bool:
            return not self._has_unknown_apply and name not in self._may_be_held

        for host in _SET_HOSTS:
            self._set_host(host, exchange, exists=False, is_done=is_sure(host))
        for host in plan.hosts:
            self._hosts.set((host, "label"), NO_LABEL, exchange, is_acknowledged=is_sure(host))
        for group in _SET_GROUPS:
            self._groups.set(group, False, exchange, is_acknowledged=is_sure(group))
        for group in (each.name for each in plan.groups):
            self._terms.reset(group, exchange.sent_at, exchange.ended_at, is_acknowledged=is_sure(group))
        declared = {vm.name for vm in plan.vms}
        for vm in self._memory.members.all_vms:
            self._labels.set(vm, NO_LABEL, exchange, is_acknowledged=vm in declared and is_sure(vm))
            for key in ("exists", *_VM_KEYS):
                self._vms.set((vm, key), None, exchange, is_acknowledged=False)
            self._memory.joined.set(vm, None, exchange, is_acknowledged=False)

    def _set_host(self, host: str, exchange: ControlExchange, *, exists: bool, is_done: bool) -> None:
        """Note that a host was added or removed; nothing of what was set for it stays."""
        self._hosts.set((host, "exists"), exists, exchange, is_acknowledged=is_done)
        for key in ("cordoned", "state", "label"):
            self._hosts.set((host, key), None, exchange, is_acknowledged=False)

    @property
    def _known_hosts(self) -> tuple[str, ...]:
        return *self._memory.plan.hosts, *_LATER_HOSTS, *_SET_HOSTS

    def _lets_move(self, exchange: ControlExchange, vm: str, host: str) -> None:
        self._is_open(host, exchange.sent_at, exchange.ended_at, f"{vm} was let to move to {host}")

    def _see_host_operation(self, exchange: ControlExchange, host: str, *, is_done: bool) -> None:
        operation = _asked(exchange).operation
        if operation == "remove":
            self._set_host(host, exchange, exists=False, is_done=is_done)
        if operation == "set":
            label = _asked(exchange).set.label
            self._hosts.set((host, "label"), label, exchange, is_acknowledged=is_done)
        for key, value in _OF_HOSTS.get(operation, {}).items():
            self._hosts.set((host, key), value, exchange, is_acknowledged=is_done)
        if operation == _EXIT:
            self._hosts.set((host, "state"), None, exchange, is_acknowledged=False)

    def _see_switch(self, exchange: ControlExchange, vm: str, operation: str, *, is_done: bool) -> None:
        if operation in ("evict", "delete", "remove"):
            self._may_leave(exchange, vm)
        if operation not in ("start", "deallocate", "evict"):
            return
        value, power = _SWITCHES.get(operation), self._memory.power
        may_be_down = power.may_have_been(vm, True) or power.may_have_been(vm, None)
        power.set(vm, value, exchange, is_acknowledged=is_done and value is not None)
        if is_done and value and not may_be_down:  # else it may have been so before, whatever event it is under
            self._deallocated.append((exchange, vm))

    def _may_leave(self, exchange: ControlExchange, vm: str) -> None:
        """Note that a VM may be gone; one of its name that the fleet file adds then has the group of the file."""
        self._memory.joined.set(vm, None, exchange, is_acknowledged=False)

    def _see_bulk(self, exchange: ControlExchange, *, is_done: bool) -> None:
        """Note what was done to each VM; where that is not known, to all that may have been meant."""
        asked = _asked(exchange)
        vms = sorted(self._memory.members.matching(exchange.body))
        if is_done:
            result = msgspec.json.decode(exchange.response, type=BulkResult)
            vms = [vm for vm in result.selected if vm not in result.refused]
        for vm in vms:
            self._see_switch(exchange, vm, asked.operation, is_done=is_done)
            if asked.operation == "set":
                self._labels.set(vm, asked.set.label, exchange, is_acknowledged=is_done)
            if asked.operation == "move" and is_done:
                self._lets_move(exchange, vm, asked.to)

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
        items = msgspec.json.decode(exchange.response, type=ToldList).items
        if path == "/v1/groups":
            self._see_groups({msgspec.json.decode(item, type=ToldGroup).name for item in items}, begin, end)
            return
        if path == "/v1/hosts":
            self._last_hosts = {msgspec.json.decode(item, type=ToldHost).name for item in items}
            self._last_hosts_at = begin
            for name in self._settled_hosts:
                known = self._hosts.known((name, "exists"), begin, end)
                if known is not None and known is not (name in self._last_hosts):
                    verb = "is not shown, and was added" if known else "is shown, and was removed"
                    self._memory.suspect(self._hosts, (name, "exists"), begin, end, f"host {name} {verb}")
            for host in (msgspec.json.decode(item, type=ToldHost) for item in items):
                values = {"cordoned": host.cordoned, "state": host.state, "label": host.labels.get("tier", NO_LABEL)}
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
        for vm in (msgspec.json.decode(item, type=ListedVm) for item in items):
            self._last_listed.add(vm.name)
            self._listed[vm.name] = vm
            self._listings.append((begin, vm))
            label = self._labels.known(vm.name, begin, end)
            shown = vm.labels.get("tier", NO_LABEL)
            if label not in (None, shown) and vm.name not in self._memory.members.maybe_gone:
                text = f"{vm.name} is shown with label {shown}, and {label} was set"
                self._memory.suspect(self._labels, vm.name, begin, end, text)
            known = self._memory.power.known(vm.name, begin, end)
            if known not in (None, vm.deallocated) and vm.name not in self._memory.members.maybe_gone:
                text = f"{vm.name} is shown with deallocated {vm.deallocated}, and {known} was set"
                self._memory.suspect(self._memory.power, vm.name, begin, end, text)

        for name in sorted(self._added - self._memory.members.refiled - self._may_be_held):
            self._is_listed_as_set(name, begin, end)

    def _is_listed_as_set(self, vm: str, begin: float, end: float) -> None:
        """Check the keys that were set for a VM, and that it is listed unless a change removed it."""
        listed = self._listed[vm] if vm in self._last_listed else None
        # A VM returns when its entry in the fleet file changes, as that of its host does.
        known = None if self._may_be_held else self._vms.known((vm, "exists"), begin, end)
        is_kept = known is True and vm not in self._memory.members.maybe_gone
        if (listed is None and is_kept) or (listed and known is False):
            verb = "is shown, and was removed" if listed else "is not shown, and was added"
            self._memory.suspect(self._vms, (vm, "exists"), begin, end, f"{vm} {verb}")
        for key in _VM_KEYS if listed and vm not in self._memory.members.maybe_gone else ():
            known, shown = self._vms.known((vm, key), begin, end), getattr(listed, key)
            if known not in (None, shown):
                text = f"{vm} is shown with {key} {shown}, and {known} was set"
                self._memory.suspect(self._vms, (vm, key), begin, end, text)

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
        if done.host and done.what in _MOVES:
            self._moves.append(done)
        first = self._memory.power.first_sent(done.vm, False)
        if done.what == "start" and first is not None:
            self._is_open(done.host, first, done.at, f"{done.vm} was started on {done.host}")

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
        # A file that is wrong in itself changes nothing: it was spoilt, two VMs have one address, a VM stands on a
        # host that it lacks, or a standalone group has not one VM.
        addresses = {each.subject: each.value.rpartition("/")[2] for each in edits if each.edit == "add-vm"}
        if len(set(addresses.values())) < len(addresses) or not self._last_hosts:
            return
        alone = {group.name for group in memory.plan.groups if group.kind == "standalone"}
        named = {name for each in edits for name in (each.subject, each.value.partition("/")[0])}
        if alone & named or any(vm.group in alone and vm.name in named for vm in memory.plan.vms):
            return
        # Of several nodes, one applies its file when it begins to lead, not when it starts beside a leader.
        if memory.plan.nodes or any(each.edit == "remove-host" for each in edits) or self._removes_hosts:
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
        moves = (each for each in memory.plan.actions if isinstance(each, RequestMove | RecordMove | EditFleetFile))
        is_moved = any(machine.vm in (getattr(each, "vm", ""), getattr(each, "subject", "")) for each in moves)
        is_moved = is_moved or any(
            isinstance(each, RequestVmSelection) and each.operation == "move" for each in memory.plan.actions
        )
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
        """Return whether the service started after that, and nothing else can explain what it found then."""
        if self._memory.power.first_sent(vm, None) is not None:
            return False
        begun = [at for at in self._memory.service.served_at if at > after]
        spans = [(begin - _AROUND, end + _AROUND) for _, begin, end in self._started_on(vm)]
        return any(not any(begin <= at <= end for begin, end in spans) for at in begun)


def _is_spoilt(edits: list[EditFleetFile], at: float) -> bool:
    """Return whether the fleet file cannot be read at that second."""
    spoilt = [each.edit == "spoil" for each in edits if each.edit in ("spoil", "mend") and each.at <= at]
    return any(spoilt[-1:])


def _asked(exchange: ControlExchange) -> AskedOperation:
    return msgspec.json.decode(exchange.body, type=AskedOperation)
