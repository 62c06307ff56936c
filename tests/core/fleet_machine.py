"""All that can be asked of a fleet, in any order."""

from datetime import timedelta

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from msgspec.structs import replace

from forewarn.core.commands import (
    Approve,
    CancelEvent,
    ChangeFleet,
    CordonHost,
    DeallocateVm,
    DrainHost,
    Enrol,
    HostOperation,
    ImpactResult,
    MoveVm,
    OperateHost,
    OperateVm,
    Postponement,
    ReclaimSpot,
    RecordAsked,
    RecordAttempt,
    RecordFetched,
    RecordObservation,
    RepairHost,
    ReportImpact,
    ReportPowerSwitch,
    ScaleIn,
    SetGroup,
    StartVm,
    SwitchOff,
    VmOperation,
)
from forewarn.core.facts import Announced, Fetch, FleetChanged, Mark, StartedAtOnce
from forewarn.core.model import (
    NODE,
    ApprovalRule,
    Caller,
    CallerKind,
    EvictionPolicy,
    GroupTerms,
    Host,
    Observation,
    ObservationKind,
    Vm,
)
from forewarn.core.placement import Capacity, HostCapacity, VmDemand, plan_drain
from tests.core import fleet_file
from tests.core.base_machine import (
    ANY_EVENT,
    ANY_GROUP,
    ANY_VM,
    MAINTENANCE,
    MISSING,
    NOT_BEFORE,
    SCHEDULED,
    STARTED,
    WAITED_FOR,
    Machine,
    is_scheduled,
    is_started,
    now_in,
)
from tests.core.fleet_file import declaration
from tests.core.fleets import ANN, GROUPS, HOSTS, QUIET, VMS, fleets, terms_of, vms_named
from tests.core.invariant_checker import copy_of


class FleetMachine(Machine):
    """Random commands, times, restarts and outcomes."""

    @rule(
        operation=st.sampled_from([*VmOperation, VmOperation.RESTART]),
        vm=ANY_VM,
        after=NOT_BEFORE,
        duration=st.sampled_from([None] * 6 + [9, -2]),
    )
    def operate_vm(self, operation: VmOperation, vm: str, after: timedelta | None, duration: int | None) -> None:
        not_before = None if after is None else self.now + after
        self.do(
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
        self.do(command)

    @rule(host=st.sampled_from([*HOSTS, "nowhere"]))
    def repair_host(self, host: str) -> None:
        self.do(RepairHost(id=self.next_id(), by=ANN, host=host))

    @rule(host=st.sampled_from([*HOSTS, "nowhere"]), is_cordoned=st.booleans())
    def cordon_host(self, host: str, *, is_cordoned: bool) -> None:
        self.do(CordonHost(id=self.next_id(), by=ANN, host=host, is_cordoned=is_cordoned))

    @rule(
        host=st.sampled_from([*HOSTS] * 3 + ["nowhere"]),
        room=st.integers(0, 5),
        lost=st.integers(0, 4),
        live=st.booleans(),
    )
    def drain_host(self, host: str, room: int, lost: int, *, live: bool) -> None:
        """Drain by a plan, which the fleet may have overtaken."""
        capacity = Capacity(
            {each: HostCapacity(room, room) for each in HOSTS},
            {name: VmDemand(1, 1, is_live=vm.update_domain == 0) for name, vm in self.fleet.vms.items()},
        )
        plan = plan_drain(self.fleet, host, capacity)
        assert len(plan.placements) <= room * len(HOSTS)
        placements = dict(list(plan.placements.items())[lost - 4 :]) if lost > 3 else plan.placements
        command = DrainHost(
            id=self.next_id(),
            by=ANN,
            host=host,
            placements=placements,
            left=plan.left,
            cold=plan.cold,
            live=live,
        )
        self.do(command)

    @rule(vm=ANY_VM, result=st.sampled_from(ImpactResult), is_old=st.booleans())
    def report_switch(self, vm: str, result: ImpactResult, *, is_old: bool) -> None:
        request = self.fleet.power_requests.get(vm)
        asked = "another" if is_old or request is None else request.id
        self.do(ReportPowerSwitch(id=self.next_id(), by=NODE, vm=vm, asked=asked, result=result))

    @rule(
        vm=ANY_VM,
        host=st.sampled_from([*HOSTS] * 3 + ["nowhere"]),
        after=NOT_BEFORE,
        record=st.booleans(),
        can_move=st.booleans(),
        live=st.booleans(),
    )
    def move_vm(
        self, vm: str, host: str, after: timedelta | None, *, record: bool, can_move: bool, live: bool
    ) -> None:
        not_before = None if after is None else self.now + after
        command = MoveVm(
            id=self.next_id(),
            by=ANN,
            vm=vm,
            host=host,
            not_before=not_before,
            record=record,
            can_move=can_move,
            live=live,
        )
        self.do(command)

    @rule(vm=ANY_VM, events=st.lists(ANY_EVENT, max_size=2))
    def approve_what_may_be_foreign(self, vm: str, events: list[str]) -> None:
        self.do(Approve(id=self.next_id(), by=Caller(CallerKind.VM, vm), events=tuple(events)))

    @precondition(is_scheduled)
    @rule(event=SCHEDULED, number=st.integers(0, 5), times=st.integers(1, 2))
    def approve_as_a_vm_of_the_group(self, event: str, number: int, times: int) -> None:
        if event not in self.fleet.events:
            return
        vms = self.fleet.groups[self.fleet.events[event].group].vms
        caller = Caller(CallerKind.VM, vms[number % len(vms)])
        for _ in range(times):
            facts = self.do(Approve(id=self.next_id(), by=caller, events=(event,)))
        assert times == 1 or facts == (), "a second approval changes nothing"

    @precondition(is_scheduled)
    @rule(event=SCHEDULED)
    def approve_as_operator(self, event: str) -> None:
        self.do(Approve(id=self.next_id(), by=ANN, events=(event,)))

    @precondition(is_scheduled)
    @rule(
        event=SCHEDULED, vm=ANY_VM, seconds=st.sampled_from([0, 1, 300, 4000]), also=st.lists(ANY_EVENT, max_size=1)
    )
    def postpone(self, event: str, vm: str, seconds: int, also: list[str]) -> None:
        wish = Postponement(event, seconds, "not yet")
        caller = Caller(CallerKind.VM, vm)
        self.do(Approve(id=self.next_id(), by=caller, events=tuple(also), postponements=(wish,)))

    @rule(count=st.sampled_from([1, 1, 2, 9]), host=st.none() | st.sampled_from([*HOSTS, "nowhere"]))
    def reclaim_spot(self, count: int, host: str | None) -> None:
        self.do(ReclaimSpot(id=self.next_id(), by=ANN, count=None if host else count, host=host))

    @rule(group=ANY_GROUP, count=st.sampled_from([0, 1, 2, 9]))
    def scale_in(self, group: str, count: int) -> None:
        self.do(ScaleIn(id=self.next_id(), by=ANN, group=group, count=count))

    @precondition(is_scheduled)
    @rule(event=ANY_EVENT | WAITED_FOR)
    def cancel(self, event: str) -> None:
        self.do(CancelEvent(id=self.next_id(), by=ANN, event=event))

    @rule(vm=ANY_VM, command=st.sampled_from([DeallocateVm, StartVm]), can_switch=st.booleans())
    def deallocate_or_start(self, vm: str, command: type[DeallocateVm | StartVm], *, can_switch: bool) -> None:
        self.do(command(id=self.next_id(), by=ANN, vm=vm, can_switch=can_switch))

    @precondition(is_started)
    @rule(event=STARTED)
    def attempt(self, event: str) -> None:
        self.do(RecordAttempt(id=self.next_id(), by=NODE, event=event))

    @precondition(is_started)
    @rule(
        event=STARTED,
        result=st.sampled_from([ImpactResult.DONE, ImpactResult.DONE, ImpactResult.FAILED]),
        host=st.sampled_from([*HOSTS, "", "nowhere"]),
        moved=st.integers(0, 3),
    )
    def report(self, event: str, result: ImpactResult, host: str, moved: int) -> None:
        resources = self.fleet.events[event].resources if event in self.fleet.events else ("nobody",)
        hosts = dict.fromkeys(resources[:moved], host) if host else {}
        self.do(ReportImpact(id=self.next_id(), by=NODE, event=event, result=result, hosts=hosts))

    @rule(
        vm=ANY_VM,
        what=st.sampled_from(
            [*ObservationKind, ObservationKind.CRASHED, ObservationKind.CRASHED, ObservationKind.MOVED]
        ),
        host=st.sampled_from([*HOSTS, "nowhere"]),
    )
    def see(self, vm: str, what: ObservationKind, host: str) -> None:
        host = host if what is ObservationKind.MOVED else ""
        self.do(RecordObservation(id=self.next_id(), by=NODE, observation=Observation(vm, what, self.now, host=host)))

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
        self.do(
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
        self.do(
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

    @rule(file=fleets(), exact=st.booleans(), cancel_events=st.booleans(), yes=st.booleans())
    def apply_a_file(self, file: ChangeFleet, *, exact: bool, cancel_events: bool, yes: bool) -> None:
        """Apply any file; then it is the declaration, unless it is refused."""
        before = copy_of(self.fleet)
        facts = self.do(
            declaration(self.fleet, file, self.next_id(), exact=exact, cancel_events=cancel_events, yes=yes)
        )
        if facts is not None:
            fleet_file.check_applied(before, self.fleet, file, exact=exact)

    @rule(file=fleets())
    def start_with_a_file(self, file: ChangeFleet) -> None:
        """A start is never refused, and the same file then changes nothing."""
        before = copy_of(self.fleet)
        facts = self.do(declaration(self.fleet, file, self.next_id(), is_start=True))
        assert facts is not None, "a start is never refused"
        fleet_file.check_started(before, self.fleet, facts)
        again = self.do(declaration(self.fleet, file, self.next_id(), is_start=True))
        assert again is not None
        assert not any(isinstance(fact, FleetChanged) for fact in again), "the same file changes nothing"

    @rule(vm=ANY_VM, operation=st.sampled_from([VmOperation.DELETE, VmOperation.EVICT]))
    def end_a_vm(self, vm: str, operation: VmOperation) -> None:
        """Delete or evict a VM, and do it as soon as it may be done."""
        facts = self.do(OperateVm(id=self.next_id(), by=ANN, operation=operation, vm=vm))
        for fact in facts or ():
            if isinstance(fact, Announced | StartedAtOnce):
                self.approve_as_operator(fact.event.id)
                self.report(fact.event.id, ImpactResult.DONE, "", 0)

    @rule(vm=MISSING.flatmap(vms_named))
    def declare_a_vm_anew(self, vm: Vm) -> None:
        self.replace_a_vm(vm, "nobody", cancel_events=False)

    @rule(vm=st.sampled_from(VMS).flatmap(vms_named), gone=ANY_VM, cancel_events=st.booleans())
    def replace_a_vm(self, vm: Vm, gone: str, *, cancel_events: bool) -> None:
        """Take a VM away and declare another, which may be the same elsewhere, at its address."""
        removed = () if gone == vm.name or gone not in self.fleet.vms else (gone,)
        address = self.fleet.vms[gone].address if removed else ""
        self.do(
            ChangeFleet(
                id=self.next_id(),
                by=ANN,
                hosts=tuple(Host(host) for host in HOSTS if host not in self.fleet.hosts),
                groups=() if vm.group in self.fleet.groups else (GroupTerms(vm.group, GROUPS[vm.group]),),
                vms=(replace(vm, address=address),),
                removed_vms=removed,
                cancel_events=cancel_events,
            )
        )

    @rule(terms=now_in(lambda machine: list(machine.fleet.groups), or_else="web").flatmap(terms_of))
    def declare_group(self, terms: GroupTerms) -> None:
        self.do(ChangeFleet(id=self.next_id(), by=ANN, groups=(terms,)))

    @rule(vm=ANY_VM)
    def ask(self, vm: str) -> None:
        group = self.fleet.vms[vm].group if vm in self.fleet.vms else "nowhere"
        self.do(Enrol(id=self.next_id(), by=NODE, group=group, vm=vm))

    @rule(
        command=st.sampled_from([RecordAsked, SwitchOff]),
        groups=st.lists(ANY_GROUP, min_size=1, max_size=3),
        age=st.sampled_from([0, 5, 7, 24, 30]),
    )
    def tell_who_asked(self, command: type[RecordAsked | SwitchOff], groups: list[str], age: int) -> None:
        at = self.now - timedelta(hours=age) / self.hurry
        self.do(command(id=self.next_id(), by=NODE, marks=tuple(Mark(group, at, "v0") for group in groups)))

    @precondition(is_scheduled)
    @rule(vm=ANY_VM, events=st.lists(ANY_EVENT, max_size=3))
    def tell_who_was_shown(self, vm: str, events: list[str]) -> None:
        fetches = tuple(Fetch(event, vm, self.now) for event in events)
        self.do(RecordFetched(id=self.next_id(), by=NODE, fetches=fetches))
