"""Makes a plan from a seed: a fleet, guests of several kinds, and what happens to them.

Each seed enables a random part of the faults, so that some runs have none and some have only one kind of them.
"""

import json
from collections.abc import Callable
from random import Random

from msgspec.structs import replace

from forewarn.simulator import actions as act
from forewarn.simulator.actions import PlannedAction
from forewarn.simulator.actors.guests import KINDS as GUEST_KINDS
from forewarn.simulator.command_generator import CommandGenerator
from forewarn.simulator.plan import Plan, PlannedGroup, PlannedVm
from forewarn.simulator.rollout_generator import RolloutGenerator
from forewarn.simulator.situations import SituationGenerator

_GROUP_KINDS = ("availability-set", "scale-set", "standalone", "cloud-service")
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
_VM_OPERATIONS = ("restart", *act.RequestVmOperation.choices)
_DRIVERS = ("machines", "machines", "immediate", "command", "webhook")
_SQLITE_SHARE = 0.0125
"""With it, at least 20 of the 2,000 fixed seeds have a real journal."""
_NODES_SHARE = 0.1
_ROLLOUTS_SHARE = 0.2
_SITUATIONS_SHARE = 0.2
_COMMANDS_SHARE = 0.2
_NODE_DRIVERS = ("machines", "machines", "immediate", "unfenced", "unfenced", "command", "webhook")
_LOSSY = 0.02
"""The share of plans with nodes in which a standby may not have the last entries."""
_LONGEST_WITH_NODES = 120.0
_RESTLESS = 0.5
"""The share of plans in which most happens within a few periods of seconds."""
_CROWDED = 0.3
"""The share of plans in which few VMs and hosts are operated on, so that operations meet."""


def make_plan(
    seed: int, *, has_sqlite: bool | None = None, has_nodes: bool | None = None, has_rollouts: bool | None = None
) -> Plan:
    """Return the plan of a seed.

    A hundredth of them use a real SQLite journal, a tenth have several nodes, and a fifth have rollouts, unless it is
    said otherwise. A fifth have a situation in which faults hid, and a fifth some commands that are rare.
    """
    random = Random(seed)  # noqa: S311 - it is to be repeatable
    drawn = random.random() < _SQLITE_SHARE
    plan = _Generator(seed, random).plan(has_sqlite=drawn if has_sqlite is None else has_sqlite)
    # A source of its own: the other plans do not depend on what happens to nodes.
    random = Random(f"{seed}/nodes")  # noqa: S311 - it is to be repeatable
    drawn = random.random() < _NODES_SHARE and not plan.has_sqlite
    if drawn if has_nodes is None else has_nodes:
        plan = _NodeGenerator(plan, random).plan()
    random = Random(f"{seed}/situations")  # noqa: S311 - it is to be repeatable
    if random.random() < _SITUATIONS_SHARE:
        plan = SituationGenerator(plan, random).plan()
    random = Random(f"{seed}/commands")  # noqa: S311 - it is to be repeatable
    if random.random() < _COMMANDS_SHARE:
        plan = CommandGenerator(plan, random).plan()
    random = Random(f"{seed}/rollouts")  # noqa: S311 - it is to be repeatable
    drawn = random.random() < _ROLLOUTS_SHARE
    return RolloutGenerator(plan, random).plan() if (drawn if has_rollouts is None else has_rollouts) else plan


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
            PlannedGroup(
                name, random.choice(_GROUP_KINDS[:2]), random.choice((*_TERMS, *("{}",) * 6, *_POSTPONABLE * 2))
            )
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
        if any(isinstance(each, act.EditFleetFile) for each in made):
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
        kind = act.RequestVmOperation if self._random.random() < 0.95 else act.RequestTwice
        return kind(at=self._at(), who=self._who(), operation=operation, vm=self._vm(), key=self._key())

    def _operate_host(self) -> PlannedAction:
        operation = self._random.choice(act.RequestHostOperation.choices)
        return act.RequestHostOperation(
            at=self._at(), who="ann", operation=operation, host=self._host(), key=self._key()
        )

    def _degrade(self) -> PlannedAction:
        seconds = self._random.choice((20.0, 60.0, 600.0))
        return act.RequestDegradation(at=self._at(), who="ann", host=self._host(), seconds=seconds, key=self._key())

    def _change_event(self) -> PlannedAction:
        verb = self._random.choice(act.RequestEventChange.choices)
        event = f"E{self._random.randint(1, 6)}"
        return act.RequestEventChange(at=self._at(), who=self._who(), verb=verb, event=event, key=self._key())

    def _set_terms(self) -> PlannedAction:
        terms = self._random.choice(_TERMS)
        return act.RequestTerms(at=self._at(), who=self._who(), group=self._group(), terms=terms, key=self._key())

    def _move(self) -> PlannedAction:
        return act.RequestMove(at=self._at(), who="ann", vm=self._vm(), host=self._host(), key=self._key())

    def _spot(self) -> PlannedAction:
        count = self._random.randint(1, 3)
        if self._random.random() < 0.5:
            return act.RequestReclaim(at=self._at(), who="ann", count=count, key=self._key())
        return act.RequestScaleIn(at=self._at(), who=self._who(), group=self._group(), count=count, key=self._key())

    def _bulk(self) -> PlannedAction:
        operation, pattern = self._random.choice(_VM_OPERATIONS), self._random.choice((f"{self._group()}-*", "*"))
        if self._random.random() < 0.25:
            return act.RequestTrial(at=self._at(), who=self._who(), operation=operation, pattern=pattern)
        return act.RequestBulk(at=self._at(), who=self._who(), operation=operation, pattern=pattern, key=self._key())

    def _label(self) -> PlannedAction:
        value = self._random.choice(act.RequestLabel.choices)
        return act.RequestLabel(at=self._at(), who=self._who(), vm=self._vm(), value=value, key=self._key())

    def _host_set(self) -> PlannedAction:
        host, change = f"h{self._random.randint(8, 9)}", self._random.choice(act.RequestHostSet.choices)
        return act.RequestHostSet(at=self._at(), who="ann", host=host, change=change, key=self._key())

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
        return act.RequestFleetChange(at=self._at(), who="ann", change=change, key=self._key())

    def _read(self) -> PlannedAction:
        return act.ReadEverything(at=self._at(), who=self._who())

    def _token(self) -> PlannedAction:
        if self._random.random() < 0.5:
            return act.RequestRevocation(at=self._at(), owner="bob", key=self._key())
        return act.RequestToken(at=self._at(), owner="bob", group=self._groups[0].name, key=self._key())

    def _subscribe(self) -> PlannedAction:
        name = f"s{self._random.randint(1, 2)}"
        if self._random.random() < 0.3:
            return act.RequestUnsubscription(at=self._at(), name=name, key=self._key())
        group = self._random.choice(("all", self._group()))
        return act.RequestSubscription(at=self._at(), name=name, group=group, key=self._key())

    def _refuse_notifications(self) -> PlannedAction:
        return act.RefuseNotifications(at=self._at(), seconds=self._random.choice((5.0, 60.0)))

    def _kill(self) -> PlannedAction:
        if self._random.random() < 0.2:
            return act.LosePower(at=self._at())
        return act.KillService(at=self._at(), callbacks=self._random.choice((0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89)))

    def _restart(self) -> PlannedAction:
        return act.RestartService(at=self._at())

    def _edit(self) -> PlannedAction:
        random = self._random
        edit = random.choice(act.EditFleetFile.choices)
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
            return act.ApplyFleetFile(at=self._at())
        return act.EditFleetFile(at=self._at(), edit=edit, subject=subject, value=value)

    def _fail_appends(self) -> PlannedAction:
        fault = self._random.choice(act.FailAppends.choices)
        return act.FailAppends(at=self._at(), count=self._random.choice((1, 1, 2, 3)), fault=fault)

    def _disk(self) -> PlannedAction:
        seconds = self._random.choice((2.0, 10.0, 30.0))
        if self._random.random() < 0.5:
            return act.FillDisk(at=self._at(), seconds=seconds)
        return act.HideDisk(at=self._at(), seconds=seconds)

    def _fail_driver(self) -> PlannedAction:
        fault = self._random.choice(act.FailDriver.choices)
        return act.FailDriver(at=self._at(), count=self._random.randint(1, 3), fault=fault)

    def _befall(self) -> PlannedAction:
        what = self._random.choice(act.BefallMachine.choices)
        host = self._host() if what == "moved" else "-"
        return act.BefallMachine(at=self._at(), vm=self._vm(), what=what, host=host)

    def _clock(self) -> PlannedAction:
        if self._random.random() < 0.3:
            return act.DriftClock(at=self._at(), rate=self._random.choice((-0.01, 0.0, 0.01, 0.1)))
        seconds = self._random.choice((-3600.0, -60.0, -5.0, 5.0, 60.0, 3600.0, 86400.0 * 400))
        return act.StepClock(at=self._at(), seconds=seconds)

    def _network(self) -> PlannedAction:
        seconds = self._random.choice((2.0, 10.0, 30.0))
        if self._random.random() < 0.5:
            return act.LoseRequests(at=self._at(), chance=self._random.choice((0.1, 0.5, 1.0)), seconds=seconds)
        return act.DelayRequests(at=self._at(), delay=self._random.choice((0.5, 5.0)), seconds=seconds)

    def _guest(self) -> PlannedAction:
        agents = [vm.name for vm in self._vms if vm.guest.startswith("agent")]
        if agents and self._random.random() < 0.5:
            how = self._random.choice(act.DamageMemory.choices)
            return act.DamageMemory(at=self._at(), vm=self._random.choice(agents), how=how)
        return act.RebootGuest(at=self._at(), vm=self._vm(), seconds=self._random.choice((0.5, 5.0, 30.0)))

    def _record(self) -> PlannedAction:
        return act.DamageDriverRecord(at=self._at())


_OF_ONE_SERVICE = (
    act.KillService,
    act.LosePower,
    act.RestartService,
    act.FailAppends,
    act.FillDisk,
    act.HideDisk,
    act.DamageDriverRecord,
    act.StepClock,
    act.DriftClock,
)


class _NodeGenerator:
    """Makes a plan with several nodes of a plan with one service: other faults happen."""

    def __init__(self, plan: Plan, random: Random) -> None:
        self._random = random
        self._nodes = random.choice((2, 3, 3))
        self._length = min(plan.ends_at, _LONGEST_WITH_NODES)
        self._before = plan
        self._burst = random.uniform(5.0, self._length)

    def plan(self) -> Plan:
        random, before = self._random, self._before
        kept = [each for each in before.actions if not isinstance(each, _OF_ONE_SERVICE) and each.at <= self._length]
        kept = [each for each in kept if not (isinstance(each, act.FailDriver) and each.fault == "hangs")]
        faults: list[Callable[[], PlannedAction]] = [
            self._kill,
            self._kill,
            self._restart,
            self._pause,
            self._pause,
            self._cut_off,
            self._cut_nodes,
            self._skew,
            self._peers,
            self._database,
            self._append,
            self._heartbeats,
            self._notifications,
        ]
        enabled = random.sample(faults, k=random.randint(0, 5))
        made = [random.choice(enabled)() for _ in range(random.randint(1, 8))] if enabled else []
        if any(isinstance(each, act.EditFleetFile) for each in kept):
            made.append(act.RestartNode(at=self._at(), node="leader"))
        if random.random() < _LOSSY:
            made.append(act.FailOver(at=self._at(), seconds=2.0, entries=random.randint(1, 3)))
        actions = sorted([*kept, *made], key=lambda action: action.at)
        return replace(
            before,
            actions=tuple(actions),
            ends_at=self._length,
            has_sqlite=False,
            driver=random.choice(_NODE_DRIVERS),
            workers=0,
            nodes=self._nodes,
        )

    def _at(self) -> float:
        if self._random.random() < 0.5:
            return round(min(self._burst + self._random.uniform(0.0, 8.0), self._length), 3)
        return round(self._random.uniform(5.0, self._length), 3)

    def _node(self) -> str:
        if self._random.random() < 0.5:
            return "leader"
        return f"n{self._random.randint(1, self._nodes)}"

    def _seconds(self) -> float:
        return self._random.choice((0.5, 2.0, 4.0, 10.0, 20.0))

    def _kill(self) -> PlannedAction:
        callbacks = self._random.choice((0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89))
        return act.KillNode(at=self._at(), node=self._node(), callbacks=callbacks)

    def _restart(self) -> PlannedAction:
        return act.RestartNode(at=self._at(), node=self._node())

    def _pause(self) -> PlannedAction:
        return act.PauseNode(at=self._at(), node=self._node(), seconds=self._seconds())

    def _cut_off(self) -> PlannedAction:
        return act.CutNodeOff(at=self._at(), node=self._node(), seconds=self._seconds())

    def _cut_nodes(self) -> PlannedAction:
        one, other = self._random.sample([f"n{number}" for number in range(1, self._nodes + 1)], k=2)
        return act.CutNodes(at=self._at(), node=one, other=other, seconds=self._seconds())

    def _skew(self) -> PlannedAction:
        seconds = self._random.choice((-600.0, -3.0, -1.0, 1.0, 3.0, 600.0))
        return act.SkewNode(at=self._at(), node=self._node(), seconds=seconds)

    def _peers(self) -> PlannedAction:
        fault = self._random.choice(act.DisturbPeers.choices)
        return act.DisturbPeers(at=self._at(), fault=fault, seconds=self._seconds())

    def _database(self) -> PlannedAction:
        if self._random.random() < 0.5:
            return act.StopDatabase(at=self._at(), seconds=self._seconds())
        return act.FailOver(at=self._at(), seconds=self._seconds(), entries=0)

    def _append(self) -> PlannedAction:
        fault = self._random.choice(act.FailDatabase.choices)
        return act.FailDatabase(at=self._at(), count=self._random.choice((1, 1, 2)), fault=fault)

    def _heartbeats(self) -> PlannedAction:
        if self._random.random() < 0.5:
            return act.LoseHeartbeats(at=self._at(), count=self._random.randint(1, 9))
        delay = self._random.choice((0.5, 2.0, 4.0))
        return act.DelayHeartbeats(at=self._at(), delay=delay, seconds=self._seconds())

    def _notifications(self) -> PlannedAction:
        return act.LoseDatabaseNotifications(at=self._at(), seconds=self._seconds())
