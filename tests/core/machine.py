"""A machine that does to a fleet whatever can be done to one, in any order and at any time."""

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import cache
from typing import Any
from uuid import UUID

import msgspec
from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from forewarn.core import decide
from forewarn.core.commands import (
    Approve,
    Attempt,
    CancelEvent,
    ChangeFleet,
    Command,
    DeallocateVm,
    Enrol,
    HostOperation,
    OperateHost,
    OperateVm,
    Postponement,
    ReclaimSpot,
    RecordAsked,
    RecordFetched,
    Report,
    Result,
    ScaleIn,
    SetGroup,
    StartVm,
    SwitchOff,
    VmOperation,
    Wake,
)
from forewarn.core.errors import Refused
from forewarn.core.facts import Announced, AnyFact, Fetch, Mark, StartedAtOnce
from forewarn.core.fleet import Fleet
from forewarn.core.model import (
    NODE,
    ApprovalRule,
    Caller,
    CallerKind,
    EventStatus,
    EvictionPolicy,
    GroupKind,
    GroupTerms,
    Host,
    Policy,
    Vm,
)
from forewarn.core.notice import Rules
from tests.core.invariants import OF_FACTS, OF_STEPS
from tests.core.witness import Witness, copy_of, derived, packed
from tests.core.words import MONDAY, Labels, say

ANN = Caller(CallerKind.OPERATOR, "ann")
STRANGE_ID = "00000000-0000-4000-8000-000000000000"
HOSTS = ("h0", "h1", "h2")
VMS = tuple(f"v{number}" for number in range(7))
GROUPS = {
    "web": GroupKind.AVAILABILITY_SET,
    "pool": GroupKind.SCALE_SET,
    "role": GroupKind.CLOUD_SERVICE,
    "lone": GroupKind.STANDALONE,
    "sole": GroupKind.STANDALONE,
}
ADDRESSES = ("", "10.0.0.1", "10.0.0.2", "10.0.0.3")


QUIET = ((), (), (), ("11:00-12:10",), ("12:10-12:20", "Mon,Tue 12:20-12:30 Europe/Berlin"))


def policies(quorum: int) -> st.SearchStrategy[Policy]:
    return st.builds(
        Policy,
        quorum=st.just(quorum),
        approve_user_reboot=st.booleans(),
        approve_user_redeploy=st.booleans(),
        approve_all_down=st.booleans(),
        postpone_limit=st.sampled_from([0, 600, 3600]),
        quiet_hours=st.sampled_from(QUIET),
    )


@cache
def terms_of(group: str) -> st.SearchStrategy[GroupTerms]:
    kind = GROUPS[group]
    notices = st.sampled_from([None, 300, 900]) if kind is GroupKind.SCALE_SET else st.none()
    return st.sampled_from(ApprovalRule).flatmap(
        lambda approval: st.builds(
            GroupTerms,
            st.just(group),
            st.just(kind),
            st.just(approval),
            notices,
            st.sampled_from(EvictionPolicy),
            policies(quorum=1 if approval is ApprovalRule.QUORUM else 0),
        )
    )


@cache
def vms_named(name: str) -> st.SearchStrategy[Vm]:
    return st.builds(
        Vm,
        name=st.just(name),
        group=st.sampled_from(["web", "web", "web", "web", "pool", *GROUPS]),
        host=st.sampled_from(["h0", "h0", "h0", "h1", "h1", "h2", ""]),
        update_domain=st.integers(0, 1),
        fault_domain=st.integers(0, 1),
        address=st.sampled_from(ADDRESSES),
        spot=st.booleans(),
    )


@st.composite
def fleets(draw: st.DrawFn) -> ChangeFleet:
    """A fleet to begin with: every group wanted, addresses and lone VMs where nothing stands against them."""
    vms: list[Vm] = []
    for name in VMS[: draw(st.integers(4, len(VMS)))]:
        vm = draw(vms_named(name))
        is_taken = GROUPS[vm.group] is GroupKind.STANDALONE and any(other.group == vm.group for other in vms)
        address = "" if any(other.address == vm.address for other in vms) else vm.address
        vms.append(Vm(**_fields(vm, group="web" if is_taken else vm.group, address=address)))
    groups = sorted({vm.group for vm in vms})
    return ChangeFleet(
        id=str(UUID(int=0)),
        by=ANN,
        hosts=tuple(Host(name) for name in HOSTS),
        groups=tuple(draw(terms_of(group)) for group in groups),
        vms=tuple(vms),
    )


def _fields(vm: Vm, **changes: Any) -> dict[str, Any]:
    return {key: getattr(vm, key) for key in vm.__struct_fields__} | changes


def now_in(look: Callable[["FleetMachine"], list[str]], *, or_else: str) -> st.SearchStrategy[str]:
    """Pick a name that is there when the rule runs, seldom one that is not."""
    return st.runner().flatmap(lambda machine: st.sampled_from((look(machine) or [or_else]) * 6 + [or_else]))


def events_with(status: EventStatus) -> st.SearchStrategy[str]:
    return now_in(
        lambda machine: [id_ for id_, event in machine.fleet.events.items() if event.status is status],
        or_else=STRANGE_ID,
    )


SCHEDULED = events_with(EventStatus.SCHEDULED)
STARTED = events_with(EventStatus.STARTED)
ANY_EVENT = now_in(lambda machine: list(machine.fleet.events), or_else=STRANGE_ID)
WAITED_FOR = now_in(
    lambda machine: [event.waits_for for event in machine.fleet.events.values() if event.waits_for],
    or_else=STRANGE_ID,
)
MISSING = now_in(lambda machine: [name for name in VMS if name not in machine.fleet.vms], or_else="v0")
ANY_VM = now_in(lambda machine: list(machine.fleet.vms), or_else="nobody")
ANY_GROUP = now_in(lambda machine: list(machine.fleet.groups), or_else="nowhere")
LITTLE_TIME = st.sampled_from([timedelta(microseconds=1), timedelta(seconds=1), timedelta(seconds=29.5)])
MUCH_TIME = st.sampled_from([timedelta(minutes=5), timedelta(minutes=10), timedelta(minutes=15), timedelta(hours=25)])
BACK_IN_TIME = st.sampled_from([timedelta(seconds=-1), timedelta(hours=-2)])
NOT_BEFORE = st.sampled_from([None] * 6 + [timedelta(0), timedelta(minutes=15), timedelta(minutes=20.001)])
MAINTENANCE = [HostOperation.FREEZE, HostOperation.REBOOT, HostOperation.REDEPLOY]


def has_events(status: EventStatus) -> Callable[["FleetMachine"], bool]:
    return lambda machine: any(event.status is status for event in machine.fleet.events.values())


is_scheduled = has_events(EventStatus.SCHEDULED)
is_started = has_events(EventStatus.STARTED)


class FleetMachine(RuleBasedStateMachine):
    """Random commands, times, restarts and outcomes; the witness looks on."""

    fleet: Fleet

    def __init__(self) -> None:
        super().__init__()
        self.fleet = Fleet()
        self._clock = MONDAY + timedelta(hours=12)
        self._count = 0
        self._labels = Labels()

    @property
    def now(self) -> datetime:
        """The time handed to the rules never falls below that of the last fact."""
        return max(self._clock, self.fleet.last_at)

    def next_id(self) -> str:
        self._count += 1
        return str(UUID(int=self._count))

    @initialize(fleet=fleets(), hurry=st.sampled_from([1.0, 1.0, 7.0, 60.0]), limit=st.sampled_from([0, 0, 1, 2]))
    def begin(self, fleet: ChangeFleet, hurry: float, limit: int) -> None:
        self._rules = Rules(user_operation_limit=limit).hurried(hurry)
        self._hurry = hurry
        self._witness = Witness(OF_FACTS, OF_STEPS, self._rules, hurry)
        assert self._do(fleet)

    def _do(self, command: Command) -> tuple[AnyFact, ...] | None:
        """Give a command to the rules, twice to see that they are pure, then for good."""
        before, now = packed(self.fleet), self.now
        note(f"{now:%a %H:%M:%S.%f} {msgspec.json.encode(command).decode()}")
        first, second = self._outcome(self.fleet, command), self._outcome(copy_of(self.fleet), command)
        assert first == second, "equal fleets decide equally"
        assert packed(self.fleet) == before, "to decide changes nothing"
        double = copy_of(self.fleet)
        facts = self._enact(double, command)
        assert facts == self._enact(self.fleet, command), "a restored fleet goes on like the one it was taken from"
        if facts:
            self.fleet.last_at = now
        for fact in facts or ():
            self._labels.give(fact)
            note("    " + say(fact, self._labels))
        self._witness.see(command, now, before, facts, self.fleet)
        return facts

    def _outcome(self, fleet: Fleet, command: Command) -> object:
        try:
            return list(decide.decide(fleet, command, self.now, self._rules))
        except Refused as refusal:
            return str(refusal)

    def _enact(self, fleet: Fleet, command: Command) -> tuple[AnyFact, ...] | None:
        try:
            return decide.enact(fleet, command, self.now, self._rules)
        except Refused as refusal:
            note(f"    refused: {refusal}")
            return None

    @rule(step=LITTLE_TIME | BACK_IN_TIME)
    def pass_a_moment(self, step: timedelta) -> None:
        self._clock += step

    @rule(step=MUCH_TIME)
    def pass_much_time(self, step: timedelta) -> None:
        self._clock = self.now + step / self._hurry

    @rule()
    def wake_what_is_due(self) -> None:
        due = [event for event in self.fleet.events.values() if (event.waits_until or event.not_before) <= self.now]
        ids = tuple(event.id for event in due if event.status is EventStatus.SCHEDULED)
        self._do(Wake(id=self.next_id(), by=NODE, events=ids))

    @precondition(is_scheduled)
    @rule(event=SCHEDULED)
    def let_the_time_of_an_event_come(self, event: str) -> None:
        if event in self.fleet.events:
            self._clock = max(self.now, self.fleet.events[event].not_before)
            self.wake_what_is_due()

    @rule(event=ANY_EVENT)
    def wake_without_reason(self, event: str) -> None:
        self._do(Wake(id=self.next_id(), by=NODE, events=(event,)))

    @rule(
        operation=st.sampled_from([*VmOperation, VmOperation.RESTART]),
        vm=ANY_VM,
        after=NOT_BEFORE,
        duration=st.sampled_from([None] * 6 + [9, -2]),
    )
    def operate_vm(self, operation: VmOperation, vm: str, after: timedelta | None, duration: int | None) -> None:
        not_before = None if after is None else self.now + after
        self._do(
            OperateVm(id=self.next_id(), by=ANN, operation=operation, vm=vm, not_before=not_before, duration=duration)
        )

    @rule(
        operation=st.sampled_from([*HostOperation, *MAINTENANCE, *MAINTENANCE]),
        host=st.sampled_from([*HOSTS] * 3 + ["nowhere"]),
        after=NOT_BEFORE,
        live=st.booleans(),
    )
    def operate_host(self, operation: HostOperation, host: str, after: timedelta | None, *, live: bool) -> None:
        not_before = None if after is None else self.now + after
        command = OperateHost(
            id=self.next_id(), by=ANN, operation=operation, host=host, not_before=not_before, live=live
        )
        self._do(command)

    @rule(vm=ANY_VM, events=st.lists(ANY_EVENT, max_size=2))
    def approve_what_may_be_foreign(self, vm: str, events: list[str]) -> None:
        self._do(Approve(id=self.next_id(), by=Caller(CallerKind.VM, vm), events=tuple(events)))

    @precondition(is_scheduled)
    @rule(event=SCHEDULED, number=st.integers(0, 5), times=st.integers(1, 2))
    def approve_as_a_vm_of_the_group(self, event: str, number: int, times: int) -> None:
        if event not in self.fleet.events:
            return
        vms = self.fleet.groups[self.fleet.events[event].group].vms
        caller = Caller(CallerKind.VM, vms[number % len(vms)])
        for _ in range(times):
            facts = self._do(Approve(id=self.next_id(), by=caller, events=(event,)))
        assert times == 1 or facts == (), "a second approval changes nothing"

    @precondition(is_scheduled)
    @rule(event=SCHEDULED)
    def approve_as_operator(self, event: str) -> None:
        self._do(Approve(id=self.next_id(), by=ANN, events=(event,)))

    @precondition(is_scheduled)
    @rule(
        event=SCHEDULED, vm=ANY_VM, seconds=st.sampled_from([0, 1, 300, 4000]), also=st.lists(ANY_EVENT, max_size=1)
    )
    def postpone(self, event: str, vm: str, seconds: int, also: list[str]) -> None:
        wish = Postponement(event, seconds, "not yet")
        caller = Caller(CallerKind.VM, vm)
        self._do(Approve(id=self.next_id(), by=caller, events=tuple(also), postponements=(wish,)))

    @rule(count=st.sampled_from([1, 1, 2, 9]), host=st.none() | st.sampled_from([*HOSTS, "nowhere"]))
    def reclaim_spot(self, count: int, host: str | None) -> None:
        self._do(ReclaimSpot(id=self.next_id(), by=ANN, count=None if host else count, host=host))

    @rule(group=ANY_GROUP, count=st.sampled_from([0, 1, 2, 9]))
    def scale_in(self, group: str, count: int) -> None:
        self._do(ScaleIn(id=self.next_id(), by=ANN, group=group, count=count))

    @precondition(is_scheduled)
    @rule(event=ANY_EVENT | WAITED_FOR)
    def cancel(self, event: str) -> None:
        self._do(CancelEvent(id=self.next_id(), by=ANN, event=event))

    @rule(vm=ANY_VM, command=st.sampled_from([DeallocateVm, StartVm]))
    def deallocate_or_start(self, vm: str, command: type[DeallocateVm | StartVm]) -> None:
        self._do(command(id=self.next_id(), by=ANN, vm=vm))

    @precondition(is_started)
    @rule(event=STARTED)
    def attempt(self, event: str) -> None:
        self._do(Attempt(id=self.next_id(), by=NODE, event=event))

    @precondition(is_started)
    @rule(
        event=STARTED,
        result=st.sampled_from([Result.DONE, Result.DONE, Result.FAILED]),
        host=st.sampled_from([*HOSTS, "", "nowhere"]),
        moved=st.integers(0, 3),
    )
    def report(self, event: str, result: Result, host: str, moved: int) -> None:
        resources = self.fleet.events[event].resources if event in self.fleet.events else ("nobody",)
        hosts = dict.fromkeys(resources[:moved], host) if host else {}
        self._do(Report(id=self.next_id(), by=NODE, event=event, result=result, hosts=hosts))

    @rule(
        group=ANY_GROUP,
        approval=st.sampled_from([None, *ApprovalRule]),
        quorum=st.sampled_from([None, 0, 1, 2, 9]),
        quiet_hours=st.none() | st.sampled_from([*QUIET, ("00:00-24:00",)]),
        notice=st.sampled_from([None, 300, 100]),
        eviction=st.none() | st.sampled_from(EvictionPolicy),
    )
    def set_group(
        self,
        group: str,
        approval: ApprovalRule | None,
        quorum: int | None,
        quiet_hours: tuple[str, ...] | None,
        notice: int | None,
        eviction: EvictionPolicy | None,
    ) -> None:
        self._do(
            SetGroup(
                id=self.next_id(),
                by=ANN,
                group=group,
                approval=approval,
                quorum=quorum,
                quiet_hours=quiet_hours,
                terminate_notice=notice,
                eviction=eviction,
            )
        )

    @rule(
        vms=st.lists(st.sampled_from(VMS).flatmap(vms_named), max_size=3),
        groups=st.lists(st.sampled_from(list(GROUPS)).flatmap(terms_of), max_size=2),
        gone_vms=st.lists(ANY_VM, max_size=2),
        gone_groups=st.lists(ANY_GROUP, max_size=1),
        gone_hosts=st.lists(st.sampled_from(HOSTS), max_size=1),
        cancel_events=st.booleans(),
    )
    def change_fleet(
        self,
        vms: list[Vm],
        groups: list[GroupTerms],
        gone_vms: list[str],
        gone_groups: list[str],
        gone_hosts: list[str],
        *,
        cancel_events: bool,
    ) -> None:
        """Declare anything; most of it is refused."""
        self._do(
            ChangeFleet(
                id=self.next_id(),
                by=ANN,
                vms=tuple(vms),
                groups=tuple(groups),
                removed_vms=tuple(gone_vms),
                removed_groups=tuple(gone_groups),
                removed_hosts=tuple(gone_hosts),
                cancel_events=cancel_events,
            )
        )

    @rule(vm=ANY_VM, operation=st.sampled_from([VmOperation.DELETE, VmOperation.EVICT]))
    def end_a_vm(self, vm: str, operation: VmOperation) -> None:
        """Delete or evict a VM, and do it as soon as it may be done."""
        facts = self._do(OperateVm(id=self.next_id(), by=ANN, operation=operation, vm=vm))
        for fact in facts or ():
            if isinstance(fact, Announced | StartedAtOnce):
                self.approve_as_operator(fact.event.id)
                self.report(fact.event.id, Result.DONE, "", 0)

    @rule(vm=MISSING.flatmap(vms_named))
    def declare_a_vm_anew(self, vm: Vm) -> None:
        self.replace_a_vm(vm, "nobody", cancel_events=False)

    @rule(vm=st.sampled_from(VMS).flatmap(vms_named), gone=ANY_VM, cancel_events=st.booleans())
    def replace_a_vm(self, vm: Vm, gone: str, *, cancel_events: bool) -> None:
        """Take a VM away and declare another, which may be the same elsewhere, at its address."""
        removed = () if gone == vm.name or gone not in self.fleet.vms else (gone,)
        address = self.fleet.vms[gone].address if removed else ""
        self._do(
            ChangeFleet(
                id=self.next_id(),
                by=ANN,
                hosts=tuple(Host(host) for host in HOSTS if host not in self.fleet.hosts),
                groups=() if vm.group in self.fleet.groups else (GroupTerms(vm.group, GROUPS[vm.group]),),
                vms=(Vm(**_fields(vm, address=address)),),
                removed_vms=removed,
                cancel_events=cancel_events,
            )
        )

    @rule(terms=now_in(lambda machine: list(machine.fleet.groups), or_else="web").flatmap(terms_of))
    def declare_group(self, terms: GroupTerms) -> None:
        self._do(ChangeFleet(id=self.next_id(), by=ANN, groups=(terms,)))

    @rule(vm=ANY_VM)
    def ask(self, vm: str) -> None:
        group = self.fleet.vms[vm].group if vm in self.fleet.vms else "nowhere"
        self._do(Enrol(id=self.next_id(), by=NODE, group=group, vm=vm))

    @rule(
        command=st.sampled_from([RecordAsked, SwitchOff]),
        groups=st.lists(ANY_GROUP, min_size=1, max_size=3),
        age=st.sampled_from([0, 5, 7, 24, 30]),
    )
    def tell_who_asked(self, command: type[RecordAsked | SwitchOff], groups: list[str], age: int) -> None:
        at = self.now - timedelta(hours=age) / self._hurry
        self._do(command(id=self.next_id(), by=NODE, marks=tuple(Mark(group, at, "v0") for group in groups)))

    @precondition(is_scheduled)
    @rule(vm=ANY_VM, events=st.lists(ANY_EVENT, max_size=3))
    def tell_who_was_shown(self, vm: str, events: list[str]) -> None:
        fetches = tuple(Fetch(event, vm, self.now) for event in events)
        self._do(RecordFetched(id=self.next_id(), by=NODE, fetches=fetches))

    @rule(from_snapshot=st.booleans())
    def restart(self, *, from_snapshot: bool) -> None:
        """Lose all that is in memory, and go on from a snapshot or from the journal alone."""
        fleet = copy_of(self.fleet) if from_snapshot else self._witness.refolded()
        assert packed(fleet) == packed(self.fleet), "a restart loses nothing"
        assert derived(fleet) == derived(self.fleet), "a restart finds everything again"
        self.fleet = fleet
