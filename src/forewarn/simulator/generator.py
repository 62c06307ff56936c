"""Makes a plan from a seed: a fleet, guests of several kinds, and what happens to them.

Each seed enables a random part of the faults, so that some runs have none and some have only one kind of them.
"""

import json
from collections.abc import Callable
from random import Random

from msgspec.structs import replace

from forewarn.simulator.actions import (
    access_requests,
    environment_faults,
    fleet_requests,
    group_requests,
    host_requests,
    service_faults,
    subscription_requests,
    vm_requests,
)
from forewarn.simulator.actions.planned_action import PlannedAction
from forewarn.simulator.actors.guests import KINDS as GUEST_KINDS
from forewarn.simulator.command_generator import CommandGenerator
from forewarn.simulator.node_generator import NodeGenerator
from forewarn.simulator.plan import Plan, PlannedGroup, PlannedVm
from forewarn.simulator.rollout_generator import RolloutGenerator
from forewarn.simulator.situations import CrashGenerator, RepetitionGenerator, SituationGenerator

_GROUP_KINDS = ("availability-set", "scale-set")
_STANDALONE = 0.3
"""The share of the groups of one VM that are standalone."""
_CLOUD_SERVICES = 0.1
"""The share of the other groups that are cloud services."""
_TERMS = (
    '{"approval":"all"}',
    '{"approval":"quorum","quorum":2}',
    '{"approval":"any"}',
    '{"approve_user_reboot":true}',
    '{"approve_user_redeploy":true}',
    '{"approve_all_down":true}',
    '{"postpone_limit":60}',
    '{"restart_after_crash":true}',
    '{"restart_after_crash":false}',
    '{"postpone_limit":3600}',
    '{"terminate_notice":300}',
    '{"terminate_notice":null}',
    '{"eviction":"delete"}',
    '{"eviction":"deallocate"}',
    '{"quiet_hours":["08:01-08:03"]}',
    '{"quiet_hours":[]}',
)
_POSTPONABLE = ('{"postpone_limit":3600,"approval":"all"}', '{"postpone_limit":60,"approval":"all"}')
_VM_OPERATIONS = ("restart", *vm_requests.RequestVmOperation.choices)
_DRIVERS = ("machines", "machines", "immediate", "command", "webhook")
_SQLITE_SHARE = 0.0125
"""With it, at least 20 of the 2,000 fixed seeds have a real journal."""
_NODES_SHARE = 0.1
_ROLLOUTS_SHARE = 0.2
_SITUATIONS_SHARE = 0.2
_COMMANDS_SHARE = 0.2
_CRASHES_SHARE = 0.1
_REPETITIONS_SHARE = 0.1
_RESTLESS = 0.5
"""The share of plans in which most happens within a few periods of seconds."""
_CROWDED = 0.3
"""The share of plans in which few VMs and hosts are operated on, so that operations meet."""


def make_plan(
    seed: int, *, has_sqlite: bool | None = None, has_nodes: bool | None = None, has_rollouts: bool | None = None
) -> Plan:
    """Return the plan of a seed.

    A hundredth of them use a real SQLite journal, a tenth have several nodes, and a fifth have rollouts, unless it is
    said otherwise. A fifth have a situation in which faults hid, a fifth some commands that are rare, a tenth crashes
    during starts and stops, and another tenth requests that are sent twice.
    """
    random = Random(seed)  # noqa: S311 - it is to be repeatable
    drawn = random.random() < _SQLITE_SHARE
    plan = _Generator(seed, random).plan(has_sqlite=drawn if has_sqlite is None else has_sqlite)
    random = Random(f"{seed}/kinds")  # noqa: S311 - it is to be repeatable
    plan = replace(plan, groups=tuple(_with_rare_kind(group, plan, random) for group in plan.groups))
    # A source of its own: the other plans do not depend on what happens to nodes.
    random = Random(f"{seed}/nodes")  # noqa: S311 - it is to be repeatable
    drawn = random.random() < _NODES_SHARE and not plan.has_sqlite
    if drawn if has_nodes is None else has_nodes:
        plan = NodeGenerator(plan, random).plan()
    random = Random(f"{seed}/situations")  # noqa: S311 - it is to be repeatable
    if random.random() < _SITUATIONS_SHARE:
        plan = SituationGenerator(plan, random).plan()
    random = Random(f"{seed}/commands")  # noqa: S311 - it is to be repeatable
    if random.random() < _COMMANDS_SHARE:
        plan = CommandGenerator(plan, random).plan()
    random = Random(f"{seed}/crashes")  # noqa: S311 - it is to be repeatable
    if random.random() < _CRASHES_SHARE:
        plan = CrashGenerator(plan, random).plan()
    random = Random(f"{seed}/rollouts")  # noqa: S311 - it is to be repeatable
    drawn = random.random() < _ROLLOUTS_SHARE
    if drawn if has_rollouts is None else has_rollouts:
        plan = RolloutGenerator(plan, random).plan()
    random = Random(f"{seed}/repetitions")  # noqa: S311 - it is to be repeatable
    return RepetitionGenerator(plan, random).plan() if random.random() < _REPETITIONS_SHARE else plan


def _with_rare_kind(group: PlannedGroup, plan: Plan, random: Random) -> PlannedGroup:
    """Make some groups standalone, which have one VM each, or cloud services."""
    is_alone = sum(vm.group == group.name for vm in plan.vms) == 1
    kind, share = ("standalone", _STANDALONE) if is_alone else ("cloud-service", _CLOUD_SERVICES)
    return replace(group, kind=kind) if random.random() < share else group


class _Generator:
    def __init__(self, seed: int, random: Random) -> None:
        self._seed = seed
        self._random = random
        self._keys: list[str] = []
        self._length = random.choice((60.0, 120.0, 240.0) if random.random() < 0.97 else (1800.0,))
        is_restless = random.random() < _RESTLESS
        self._bursts = [random.uniform(5.0, self._length) for _ in range(random.randint(1, 3))] if is_restless else []

    def plan(self, *, has_sqlite: bool) -> Plan:
        random = self._random
        hosts = tuple(f"h{number}" for number in range(1, random.randint(2, 4) + 1))
        groups = tuple(
            PlannedGroup(name, random.choice(_GROUP_KINDS), random.choice((*_TERMS, *("{}",) * 6, *_POSTPONABLE * 2)))
            for name in ("web", "db", "batch")[: random.randint(1, 3)]
        )
        vms = tuple(self._make_vms(groups, hosts))
        owners: dict[str, tuple[str, ...]] = {"bob": (groups[0].name,)}
        if len(groups) > 1:
            owners["eve"] = (groups[-1].name,)
        self._hosts, self._groups, self._vms, self._names = hosts, groups, vms, [vm.name for vm in vms]
        if random.random() < _CROWDED:  # more happens to fewer
            self._names = random.sample(self._names, k=min(2, len(self._names)))
            self._hosts = hosts[:2]
        self._people = ("ann", "ann", *owners)
        actions = sorted(self._actions(), key=lambda action: action.at)
        return Plan(
            self._seed,
            random.choice((60.0, 60.0, 30.0, 120.0)),
            hosts,
            groups,
            vms,
            owners,
            tuple(actions),
            self._length,
            has_sqlite,
            random.random() < 0.5,
            random.random() < 0.5,
            random.choice((0, 0, 0, 2)),
            random.choice((1.0, 1.0, 6.0)),
            random.choice(_DRIVERS),
            0 if has_sqlite else random.choice((0, 0, 2, 3)),
        )

    def _make_vms(self, groups: tuple[PlannedGroup, ...], hosts: tuple[str, ...]) -> list[PlannedVm]:
        random = self._random
        kinds = random.sample(GUEST_KINDS, k=min(3, len(GUEST_KINDS)))
        vms: list[PlannedVm] = []
        for group in groups:
            for number in range(random.randint(1, 4)):
                domain = number % random.choice((1, 2, 3))
                vms.append(
                    PlannedVm(
                        f"{group.name}-{number}",
                        group.name,
                        random.choice(hosts),
                        domain,
                        random.randrange(2),
                        f"10.0.0.{len(vms) + 1}",
                        random.random() < 0.25,
                        random.choice(kinds),
                    )
                )
        return vms

    def _actions(self) -> list[PlannedAction]:
        random = self._random
        commands: list[Callable[[], PlannedAction]] = [
            self._operate_vm,
            self._operate_vm,
            self._operate_vm,
            self._operate_host,
            self._operate_host,
            self._change_event,
            self._change_event,
            self._degrade,
            self._set_terms,
            self._move,
            self._spot,
            self._patch,
            self._bulk,
            self._label,
            self._host_set,
            self._read,
            self._token,
            self._subscribe,
        ]
        faults: list[Callable[[], PlannedAction]] = [
            self._kill,
            self._kill,
            self._restart,
            self._edit,
            self._edit,
            self._fail_appends,
            self._disk,
            self._fail_driver,
            self._befall,
            self._clock,
            self._network,
            self._guest,
            self._record,
            self._refuse_notifications,
        ]
        enabled = random.sample(faults, k=random.randint(0, min(5, len(faults))))
        chosen = random.sample(commands, k=random.randint(2, len(commands)))
        made = [random.choice(chosen)() for _ in range(random.randint(3, 18))]
        if enabled:
            made += [random.choice(enabled)() for _ in range(random.randint(1, 10))]
        if any(isinstance(each, fleet_requests.EditFleetFile) for each in made):
            made += [self._restart() for _ in range(random.randint(1, 2))]
        return made

    def _at(self) -> float:
        if self._bursts and self._random.random() < 0.7:
            return round(min(self._random.choice(self._bursts) + self._random.uniform(0.0, 8.0), self._length), 3)
        return round(self._random.uniform(5.0, self._length), 3)

    def _key(self) -> str:
        """Return a new key, or now and then one that was used before."""
        if self._keys and self._random.random() < 0.15:
            return self._random.choice(self._keys)
        self._keys.append(f"k{len(self._keys) + 1}")
        return self._keys[-1]

    def _who(self) -> str:
        return self._random.choice(self._people)

    def _vm(self) -> str:
        return self._random.choice(self._names)

    def _host(self) -> str:
        return self._random.choice(self._hosts)

    def _group(self) -> str:
        return self._random.choice(self._groups).name

    def _operate_vm(self) -> PlannedAction:
        operation = self._random.choice(_VM_OPERATIONS)
        kind = vm_requests.RequestVmOperation if self._random.random() < 0.95 else vm_requests.RequestTwice
        return kind(at=self._at(), who=self._who(), operation=operation, vm=self._vm(), key=self._key())

    def _operate_host(self) -> PlannedAction:
        operation = self._random.choice(host_requests.RequestHostOperation.choices)
        return host_requests.RequestHostOperation(
            at=self._at(), who="ann", operation=operation, host=self._host(), key=self._key()
        )

    def _degrade(self) -> PlannedAction:
        seconds = self._random.choice((20.0, 60.0, 600.0))
        return host_requests.RequestDegradation(
            at=self._at(), who="ann", host=self._host(), seconds=seconds, key=self._key()
        )

    def _change_event(self) -> PlannedAction:
        verb = self._random.choice(group_requests.RequestEventChange.choices)
        event = f"E{self._random.randint(1, 6)}"
        return group_requests.RequestEventChange(
            at=self._at(), who=self._who(), verb=verb, event=event, key=self._key()
        )

    def _set_terms(self) -> PlannedAction:
        terms = self._random.choice(_TERMS)
        return group_requests.RequestTerms(
            at=self._at(), who=self._who(), group=self._group(), terms=terms, key=self._key()
        )

    def _move(self) -> PlannedAction:
        return vm_requests.RequestMove(at=self._at(), who="ann", vm=self._vm(), host=self._host(), key=self._key())

    def _spot(self) -> PlannedAction:
        count = self._random.randint(1, 3)
        if self._random.random() < 0.5:
            return vm_requests.RequestReclaim(at=self._at(), who="ann", count=count, key=self._key())
        return group_requests.RequestScaleIn(
            at=self._at(), who=self._who(), group=self._group(), count=count, key=self._key()
        )

    def _bulk(self) -> PlannedAction:
        operation, pattern = self._random.choice(_VM_OPERATIONS), self._random.choice((f"{self._group()}-*", "*"))
        if self._random.random() < 0.25:
            return vm_requests.RequestTrial(at=self._at(), who=self._who(), operation=operation, pattern=pattern)
        return vm_requests.RequestBulk(
            at=self._at(), who=self._who(), operation=operation, pattern=pattern, key=self._key()
        )

    def _label(self) -> PlannedAction:
        value = self._random.choice(vm_requests.RequestLabel.choices)
        return vm_requests.RequestLabel(at=self._at(), who=self._who(), vm=self._vm(), value=value, key=self._key())

    def _host_set(self) -> PlannedAction:
        host, change = f"h{self._random.randint(8, 9)}", self._random.choice(host_requests.RequestHostSet.choices)
        return host_requests.RequestHostSet(at=self._at(), who="ann", host=host, change=change, key=self._key())

    def _patch(self) -> PlannedAction:
        group, host = self._group(), self._host()
        number = self._random.randint(1, 3)
        vm = self._random.choice(self._vms)
        regrouped = {
            "name": vm.name,
            "group": group,
            "host": vm.host,
            "update_domain": vm.update_domain,
            "fault_domain": vm.fault_domain,
            "address": vm.address,
            "spot": vm.spot,
        }
        change = self._random.choice(
            (
                json.dumps({"vms": [regrouped]}, separators=(",", ":")),
                f'{{"vms":[{{"name":"new-{number}","group":"{group}","host":"{host}","address":"10.2.0.{number}"}}]}}',
                f'{{"removed_vms":["{self._vm()}"]}}',
                f'{{"removed_vms":["{self._vm()}"],"cancel_events":true}}',
                f'{{"hosts":[{{"name":"h{number + 4}"}}]}}',
                f'{{"removed_hosts":["{host}"]}}',
            )
        )
        return fleet_requests.RequestFleetChange(at=self._at(), who="ann", change=change, key=self._key())

    def _read(self) -> PlannedAction:
        return access_requests.ReadEverything(at=self._at(), who=self._who())

    def _token(self) -> PlannedAction:
        if self._random.random() < 0.5:
            return access_requests.RequestRevocation(at=self._at(), owner="bob", key=self._key())
        return access_requests.RequestToken(at=self._at(), owner="bob", group=self._groups[0].name, key=self._key())

    def _subscribe(self) -> PlannedAction:
        name = f"s{self._random.randint(1, 2)}"
        if self._random.random() < 0.3:
            return subscription_requests.RequestUnsubscription(at=self._at(), name=name, key=self._key())
        group = self._random.choice(("all", self._group()))
        return subscription_requests.RequestSubscription(at=self._at(), name=name, group=group, key=self._key())

    def _refuse_notifications(self) -> PlannedAction:
        return environment_faults.RefuseNotifications(at=self._at(), seconds=self._random.choice((5.0, 60.0)))

    def _kill(self) -> PlannedAction:
        if self._random.random() < 0.2:
            return service_faults.LosePower(at=self._at())
        return service_faults.KillService(
            at=self._at(), callbacks=self._random.choice((0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89))
        )

    def _restart(self) -> PlannedAction:
        return service_faults.RestartService(at=self._at())

    def _edit(self) -> PlannedAction:
        random = self._random
        edit = random.choice(fleet_requests.EditFleetFile.choices)
        number = random.randint(1, 3)
        subject, value = {
            "add-vm": (f"more-{number}", f"{self._group()}/{self._host()}/{number}"),
            "rehost-vm": (self._vm(), self._host()),
            "regroup-vm": (self._vm(), self._group()),
            "set-spot": (self._vm(), random.choice(("true", "false"))),
            "remove-vm": (self._vm(), "-"),
            "add-host": (f"h{number + 4}", "-"),
            "remove-host": (self._host(), "-"),
        }.get(edit, ("-", "-"))
        if random.random() < 0.2:
            return fleet_requests.ApplyFleetFile(at=self._at())
        return fleet_requests.EditFleetFile(at=self._at(), edit=edit, subject=subject, value=value)

    def _fail_appends(self) -> PlannedAction:
        fault = self._random.choice(service_faults.FailAppends.choices)
        return service_faults.FailAppends(at=self._at(), count=self._random.choice((1, 1, 2, 3)), fault=fault)

    def _disk(self) -> PlannedAction:
        seconds = self._random.choice((2.0, 10.0, 30.0))
        if self._random.random() < 0.5:
            return service_faults.FillDisk(at=self._at(), seconds=seconds)
        return service_faults.HideDisk(at=self._at(), seconds=seconds)

    def _fail_driver(self) -> PlannedAction:
        fault = self._random.choice(environment_faults.FailDriver.choices)
        return environment_faults.FailDriver(at=self._at(), count=self._random.randint(1, 3), fault=fault)

    def _befall(self) -> PlannedAction:
        what = self._random.choice(environment_faults.BefallMachine.choices)
        host = self._host() if what == "moved" else "-"
        return environment_faults.BefallMachine(at=self._at(), vm=self._vm(), what=what, host=host)

    def _clock(self) -> PlannedAction:
        if self._random.random() < 0.3:
            return service_faults.DriftClock(at=self._at(), rate=self._random.choice((-0.01, 0.0, 0.01, 0.1)))
        seconds = self._random.choice((-3600.0, -60.0, -5.0, 5.0, 60.0, 3600.0, 86400.0 * 400))
        return service_faults.StepClock(at=self._at(), seconds=seconds)

    def _network(self) -> PlannedAction:
        seconds = self._random.choice((2.0, 10.0, 30.0))
        if self._random.random() < 0.5:
            return environment_faults.LoseRequests(
                at=self._at(), chance=self._random.choice((0.1, 0.5, 1.0)), seconds=seconds
            )
        return environment_faults.DelayRequests(at=self._at(), delay=self._random.choice((0.5, 5.0)), seconds=seconds)

    def _guest(self) -> PlannedAction:
        agents = [vm.name for vm in self._vms if vm.guest.startswith("agent")]
        if agents and self._random.random() < 0.5:
            how = self._random.choice(environment_faults.DamageMemory.choices)
            return environment_faults.DamageMemory(at=self._at(), vm=self._random.choice(agents), how=how)
        return environment_faults.RebootGuest(
            at=self._at(), vm=self._vm(), seconds=self._random.choice((0.5, 5.0, 30.0))
        )

    def _record(self) -> PlannedAction:
        return environment_faults.DamageDriverRecord(at=self._at())
