"""Adds commands to a plan that are rare: of fleet files, selectors, hosts and groups, of tokens, and of a viewer."""

import json
from collections.abc import Callable, Sequence
from random import Random

from msgspec.structs import replace

from forewarn.simulator.actions import (
    access_requests,
    dry_runs,
    fleet_requests,
    group_requests,
    host_requests,
    vm_requests,
)
from forewarn.simulator.actions.planned_action import PlannedAction
from forewarn.simulator.plan import Plan

_MOST = 4
"""Commands that are added at most."""
_PAGES = (
    "/v1/fleet/declaration",
    "/v1/fleet/declaration/differences",
    "/v1/me",
    "/v1/health/live",
    "/v1/health/ready",
    "/v1/cluster",
    "/v1/rollouts",
    "/v1/history/export",
)


class CommandGenerator:
    """Adds some commands to a plan."""

    def __init__(self, plan: Plan, random: Random) -> None:
        self._plan = plan
        self._random = random
        self._keys = 0

    def plan(self) -> Plan:
        commands: list[Callable[[], list[PlannedAction]]] = [
            self._cancel,
            self._operate_hosts,
            self._label,
            self._set_group,
            self._rotate,
            self._expire,
            self._view,
            self._apply,
            self._apply,
            self._select_hosts,
            self._select_hosts,
            self._select_vms,
            self._change_vm,
            self._cancel_some,
            self._reclaim,
            self._read,
            self._record_move,
            self._read_operation,
            self._try,
            self._try,
        ]
        made = [self._random.choice(commands)() for _ in range(self._random.randint(1, _MOST))]
        actions = sorted((*self._plan.actions, *(each for some in made for each in some)), key=lambda each: each.at)
        return replace(self._plan, actions=tuple(actions))

    def _at(self) -> float:
        return round(self._random.uniform(5.0, self._plan.ends_at), 3)

    def _after(self, at: float, most: float) -> float:
        return round(min(at + self._random.uniform(0.0, most), self._plan.ends_at), 3)

    def _key(self) -> str:
        self._keys += 1
        return f"c{self._keys}"

    def _group(self) -> str:
        return self._random.choice(self._plan.groups).name

    def _owner(self) -> str:
        return self._random.choice(tuple(self._plan.owners))

    def _cancel(self) -> list[PlannedAction]:
        """Announce something to a group, and cancel all of its events soon after."""
        group, at, who = self._group(), self._at(), self._random.choice(("ann", *self._plan.owners))
        operation = self._random.choice(("restart", "redeploy", "freeze"))
        return [
            vm_requests.RequestBulk(at=at, who="ann", operation=operation, pattern=f"{group}-*", key=self._key()),
            group_requests.RequestCancellations(at=self._after(at, 8.0), who=who, group=group, key=self._key()),
        ]

    def _operate_hosts(self) -> list[PlannedAction]:
        operation = self._random.choice(host_requests.RequestHostBulk.choices)
        pattern = self._random.choice(("*", self._random.choice(self._plan.hosts)))
        return [
            host_requests.RequestHostBulk(
                at=self._at(), who="ann", operation=operation, pattern=pattern, key=self._key()
            )
        ]

    def _label(self) -> list[PlannedAction]:
        host, value = (
            self._random.choice(self._plan.hosts),
            self._random.choice(host_requests.RequestHostLabel.choices),
        )
        return [host_requests.RequestHostLabel(at=self._at(), who="ann", host=host, value=value, key=self._key())]

    def _set_group(self) -> list[PlannedAction]:
        group, at = f"g{self._random.randint(8, 9)}", self._at()
        changes = self._random.choice((("added",), ("added", "removed"), ("added", "removed"), ("removed", "added")))
        return [
            group_requests.RequestGroupSet(
                at=self._after(at, 20.0 * each), who="ann", group=group, change=change, key=self._key()
            )
            for each, change in enumerate(changes)
        ]

    def _rotate(self) -> list[PlannedAction]:
        owner, overlap = self._owner(), self._random.choice((0, 0, 60, 3600))
        return [access_requests.RequestRotation(at=self._at(), owner=owner, overlap=overlap, key=self._key())]

    def _expire(self) -> list[PlannedAction]:
        """Let a token expire, and let its owner use it before and after."""
        owner, seconds, at = self._owner(), self._random.choice((1, 10, 60)), self._at()
        groups = self._plan.owners[owner]
        return [
            access_requests.RequestPassingToken(
                at=at, owner=owner, group=groups[0], seconds=seconds, key=self._key()
            ),
            access_requests.ReadEverything(at=self._after(at, float(seconds)), who=owner),
            access_requests.ReadEverything(at=self._after(at + seconds, 20.0), who=owner),
        ]

    def _view(self) -> list[PlannedAction]:
        """Let the viewer read, and try to change something."""
        at = self._at()
        vm, operation = (
            self._random.choice(self._plan.vms).name,
            self._random.choice(vm_requests.RequestVmOperation.choices),
        )
        return [
            access_requests.RequestViewer(at=at, key=self._key()),
            access_requests.ReadEverything(at=self._after(at, 20.0), who=access_requests.VIEWER),
            vm_requests.RequestVmOperation(
                at=self._after(at, 20.0), who=access_requests.VIEWER, operation=operation, vm=vm, key=self._key()
            ),
        ]

    def _apply(self) -> list[PlannedAction]:
        """Edit the fleet file and have it applied, often while an event of the VM that it changes is unfinished."""
        random, vm, at = self._random, self._random.choice(self._plan.vms), self._at()
        how = random.choice(fleet_requests.RequestFleetApply.choices)
        number, group = random.randint(4, 6), self._group()
        edit, subject, value = random.choice(
            (
                ("remove-vm", vm.name, "-"),
                ("remove-vm", vm.name, "-"),
                ("regroup-vm", vm.name, group),
                ("set-spot", vm.name, "false" if vm.spot else "true"),
                ("add-vm", f"more-{number}", f"{group}/{vm.host}/{number}"),
                ("add-host", f"h{number + 1}", "-"),
            )
        )
        made: list[PlannedAction] = []
        if random.random() < 0.6:
            operation = random.choice(("restart", "redeploy", "freeze", "delete", "deallocate"))
            made.append(
                vm_requests.RequestVmOperation(at=at, who="ann", operation=operation, vm=vm.name, key=self._key())
            )
        at = self._after(at, 5.0)
        made.append(fleet_requests.EditFleetFile(at=at, edit=edit, subject=subject, value=value))
        if random.random() < 0.3:
            made.append(fleet_requests.TryFleetApply(at=self._after(at, 3.0), who="ann", how=how))
        at = self._after(at, 5.0)
        made.append(fleet_requests.RequestFleetApply(at=at, who="ann", how=how, key=self._key()))
        if random.random() < 0.3:  # by somebody else at the same time, or once more
            again = random.choice(fleet_requests.RequestFleetApply.choices)
            made.append(
                fleet_requests.RequestFleetApply(at=self._after(at, 2.0), who="ann", how=again, key=self._key())
            )
        return made

    def _host_selection(self, operation: str) -> str:
        random, hosts = self._random, self._plan.hosts
        select = _chosen(
            random,
            (
                {"names": list(hosts[:2])},
                {"names": [random.choice(hosts), "h[89]"]},
                {"label": "tier=front"},
                {"label": "tier!=front"},
                {"cordoned": random.random() < 0.5},
                {"state": random.choice(("up", "degraded", "failed", "in-maintenance"))},
                {"all": True},
            ),
        )
        return _json(select=select, **({"set": {"labels": self._labels()}} if operation == "set" else {}))

    def _labels(self) -> dict[str, str | None]:
        value = self._random.choice(vm_requests.RequestLabel.choices)
        return {"tier": None if value == "none" else value}

    def _select_hosts(self) -> list[PlannedAction]:
        """Operate on the hosts that a selector means, or try to."""
        operation = self._random.choice(host_requests.RequestHostSelection.choices)
        selection = self._host_selection(operation)
        at, who = self._at(), self._random.choice(("ann", "ann", "ann", self._owner()))
        if self._random.random() < 0.2:
            return [host_requests.TryHostSelection(at=at, who=who, operation=operation, selection=selection)]
        return [
            host_requests.RequestHostSelection(
                at=at, who=who, operation=operation, selection=selection, key=self._key()
            )
        ]

    def _select_vms(self) -> list[PlannedAction]:
        """Operate on the VMs that a selector means."""
        random, vm = self._random, self._random.choice(self._plan.vms)
        operation = random.choice(("move", "set", "remove", *vm_requests.RequestVmSelection.choices))
        select = _chosen(
            random,
            (
                {"group": vm.group},
                {"host": vm.host},
                {"spot": random.random() < 0.5},
                {"state": random.choice(("running", "deallocated", "crashed"))},
                {"label": "tier=front"},
                {"names": [vm.name, random.choice(self._plan.vms).name]},
                {"names": [f"{vm.group}-*"], "host": vm.host},
                {"all": True},
            ),
        )
        more: dict[str, object] = {}
        if operation == "move":
            more["to"] = random.choice(self._plan.hosts)
        if operation == "set":
            more["set"] = {"labels": self._labels()}
        if operation == "remove" and random.random() < 0.5:
            more["cancel_events"] = True
        who, selection = random.choice(("ann", "ann", self._owner())), _json(select=select, **more)
        return [
            vm_requests.RequestVmSelection(
                at=self._at(), who=who, operation=operation, selection=selection, key=self._key()
            )
        ]

    def _change_vm(self) -> list[PlannedAction]:
        """Change keys of a VM that its events depend on, now and then while there is one."""
        random, vm, at = self._random, self._random.choice(self._plan.vms), self._at()
        keys = _chosen(
            random,
            (
                {"spot": not vm.spot},
                {"group": self._group()},
                {"update_domain": random.randrange(3)},
                {"fault_domain": random.randrange(2)},
            ),
        )
        if random.random() < 0.5:
            keys["cancel_events"] = True
        made: list[PlannedAction] = []
        if random.random() < 0.5:
            made.append(
                vm_requests.RequestVmOperation(at=at, who="ann", operation="freeze", vm=vm.name, key=self._key())
            )
        at = self._after(at, 5.0)
        made.append(vm_requests.RequestVmChange(at=at, who="ann", vm=vm.name, keys=_json(**keys), key=self._key()))
        return made

    def _cancel_some(self) -> list[PlannedAction]:
        """Announce something on a host, and cancel some of its events soon after."""
        random, vm, at = self._random, self._random.choice(self._plan.vms), self._at()
        who = random.choice(("ann", "ann", self._owner()))
        select = _chosen(
            random, ({"host": vm.host}, {"vm": vm.name}, {"type": random.choice(("Freeze", "Reboot"))}, {"all": True})
        )
        operation = random.choice(("freeze", "reboot"))
        return [
            host_requests.RequestHostOperation(at=at, who="ann", operation=operation, host=vm.host, key=self._key()),
            group_requests.RequestSelectedCancellations(
                at=self._after(at, 8.0), who=who, selection=_json(**select), key=self._key()
            ),
        ]

    def _reclaim(self) -> list[PlannedAction]:
        host = self._random.choice(self._plan.hosts)
        return [vm_requests.RequestHostReclaim(at=self._at(), who="ann", host=host, key=self._key())]

    def _record_move(self) -> list[PlannedAction]:
        """Say that a VM is elsewhere, now and then after somebody has moved it there."""
        random, at = self._random, self._at()
        vm, host = random.choice(self._plan.vms).name, random.choice(self._plan.hosts)
        return [vm_requests.RecordMove(at=at, who="ann", vm=vm, host=host, key=self._key())]

    def _read_operation(self) -> list[PlannedAction]:
        """Ask for something, and read later what became of it, also as somebody else."""
        random, at, key = self._random, self._at(), self._key()
        vm, owner = random.choice(self._plan.vms).name, self._owner()
        operation, who = random.choice(("restart", "redeploy", "freeze")), random.choice(("ann", owner))
        return [
            vm_requests.RequestVmOperation(at=at, who=who, operation=operation, vm=vm, key=key),
            access_requests.ReadOperation(at=self._after(at, 60.0), who=random.choice((who, "ann")), key=key),
            access_requests.ReadOperation(at=self._after(at, 60.0), who=self._owner(), key=key),
        ]

    def _try(self) -> list[PlannedAction]:
        """Try some requests without doing them."""
        random = self._random
        made: list[PlannedAction] = []
        for _ in range(3):
            vm, host = random.choice(self._plan.vms), random.choice((*self._plan.hosts, "h9"))
            request = random.choice(dry_runs.TryRequest.choices)
            on_vm = random.choice(vm_requests.RequestVmOperation.choices)
            on_host = random.choice(host_requests.RequestHostOperation.choices)
            subject, body = {
                "operate-vm": (vm.name, _json(operation=on_vm)),
                "move-vm": (vm.name, _json(host=host, record=random.random() < 0.3)),
                "change-vm": (vm.name, _json(update_domain=random.randrange(3), cancel_events=random.random() < 0.5)),
                "operate-host": (host, _json(operation=on_host)),
                "label-host": (host, _json(labels=self._labels())),
                "add-host": (host, _json(name=host)),
                "remove-host": (host, dry_runs.NO_BODY),
                "add-group": ("g9", _json(name="g9", kind="availability-set")),
                "remove-group": (vm.group, dry_runs.NO_BODY),
                "scale-in": (vm.group, _json(count=random.randint(1, 2))),
                "reclaim": ("spot", _json(count=random.randint(1, 2))),
                "postpone-event": (f"E{random.randint(1, 4)}", _json(seconds=20, reason="busy")),
                "cancel-events": ("some", _json(host=vm.host)),
                "patch-fleet": ("fleet", _json(removed_vms=[vm.name])),
            }.get(request, (f"E{random.randint(1, 4)}", dry_runs.NO_BODY))
            who = random.choice(("ann", self._owner()))
            made.append(dry_runs.TryRequest(at=self._at(), who=who, request=request, subject=subject, body=body))
        return made

    def _read(self) -> list[PlannedAction]:
        """Read some pages that nobody else reads."""
        vm = self._random.choice(self._plan.vms)
        pages = [*_PAGES, f"/v1/vms/{vm.name}", f"/v1/groups/{vm.group}", f"/v1/hosts/{vm.host}"]
        pages += [f"/v1/hosts/{vm.host}/drain", f"/v1/fleet?vm={vm.name}", f"/v1/vms?group={vm.group}&state=running"]
        return [
            access_requests.ReadPage(at=self._at(), who=self._random.choice(("ann", self._owner())), path=path)
            for path in self._random.sample(pages, k=4)
        ]


def _json(**fields: object) -> str:
    return json.dumps(fields, separators=(",", ":"))


def _chosen(random: Random, choices: Sequence[dict[str, object]]) -> dict[str, object]:
    return random.choice(choices)
