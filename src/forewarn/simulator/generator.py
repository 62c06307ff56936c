"""Makes a plan from a seed: a fleet, guests of several kinds, and what happens to them.

Each seed enables a random part of the faults, so that some runs have none and some have only one kind of them.
"""

from collections.abc import Callable
from random import Random

from forewarn.simulator import actions as act
from forewarn.simulator.actions import PlannedAction
from forewarn.simulator.actors.guests import KINDS as GUEST_KINDS
from forewarn.simulator.plan import Plan, PlannedGroup, PlannedVm

_GROUP_KINDS = ("availability-set", "scale-set", "standalone", "cloud-service")
_TERMS = (
    '{"approval":"all"}',
    '{"approval":"quorum","quorum":2}',
    '{"approval":"any"}',
    '{"approve_user_reboot":true}',
    '{"approve_all_down":true}',
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
_POSTPONABLE = '{"postpone_limit":3600,"approval":"all"}'
_VM_OPERATIONS = ("restart", *act.RequestVmOperation.choices)
_SQLITE_SHARE = 0.01


def make_plan(seed: int, *, has_sqlite: bool | None = None) -> Plan:
    """Return the plan of a seed; a hundredth of them use a real SQLite journal, unless it is said otherwise."""
    random = Random(seed)  # noqa: S311 - it is to be repeatable
    drawn = random.random() < _SQLITE_SHARE
    return _Generator(seed, random).plan(has_sqlite=drawn if has_sqlite is None else has_sqlite)


class _Generator:
    def __init__(self, seed: int, random: Random) -> None:
        self._seed = seed
        self._random = random
        self._keys: list[str] = []
        self._length = random.choice((60.0, 120.0, 240.0) if random.random() < 0.97 else (1800.0,))

    def plan(self, *, has_sqlite: bool) -> Plan:
        random = self._random
        hosts = tuple(f"h{number}" for number in range(1, random.randint(2, 4) + 1))
        groups = tuple(
            PlannedGroup(
                name, random.choice(_GROUP_KINDS[:2]), random.choice((*_TERMS, *("{}",) * 6, *(_POSTPONABLE,) * 4))
            )
            for name in ("web", "db", "batch")[: random.randint(1, 3)]
        )
        vms = tuple(self._vms(groups, hosts))
        owners: dict[str, tuple[str, ...]] = {"bob": (groups[0].name,)}
        if len(groups) > 1:
            owners["eve"] = (groups[-1].name,)
        self._hosts, self._groups, self._names = hosts, groups, [vm.name for vm in vms]
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
        )

    def _vms(self, groups: tuple[PlannedGroup, ...], hosts: tuple[str, ...]) -> list[PlannedVm]:
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
                        domain % 2,
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
        return act.RequestVmOperation(
            at=self._at(), who=self._who(), operation=operation, vm=self._vm(), key=self._key()
        )

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

    def _patch(self) -> PlannedAction:
        group, host = self._group(), self._host()
        number = self._random.randint(1, 3)
        change = self._random.choice(
            (
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
        if self._random.random() < 0.3:
            how = self._random.choice(act.DamageMemory.choices)
            return act.DamageMemory(at=self._at(), vm=self._vm(), how=how)
        return act.RebootGuest(at=self._at(), vm=self._vm(), seconds=self._random.choice((0.5, 5.0, 30.0)))

    def _record(self) -> PlannedAction:
        return act.DamageDriverRecord(at=self._at())
