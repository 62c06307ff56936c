"""Adds commands to a plan that are rare: of several events, of hosts and groups, of tokens, and of a viewer."""

from collections.abc import Callable
from random import Random

from msgspec.structs import replace

from forewarn.simulator.actions import access_requests, group_requests, host_requests, vm_requests
from forewarn.simulator.actions.planned_action import PlannedAction
from forewarn.simulator.plan import Plan

_MOST = 4
"""Commands that are added at most."""


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
