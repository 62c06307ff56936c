"""Makes a failing plan smaller: fewer actions, VMs, hosts and groups, simpler guests, shorter times, smaller numbers.

Each step is kept if the smaller plan still fails, with its seed or one of the next. The same plan, question and
budget give the same result.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from forewarn.simulator.actions.planned_action import PlannedAction
from forewarn.simulator.plan import Plan, format_plan

_Item = TypeVar("_Item")
_PLAIN_GUESTS = ("silent", "prompt")
"""Kinds of guests that do the least, the plainest first."""
_TIME = re.compile(r"^(?:\d+\.\d+ s: |[\d:.]+ )")
_DIGIT = re.compile(r"\d")
_FIRST_WORDS = 8
_SEEDS = 4
"""Seeds with which a smaller plan is tried: what is left out changes what is drawn for the rest, and so the order of
what happens at the same time."""


def kind_of(problem: str, plan: Plan) -> str:
    """Return the first words of a problem, without time, names and numbers: what those of one kind have in common."""
    names = {*plan.hosts, *plan.owners, *(group.name for group in plan.groups), *(vm.name for vm in plan.vms)}
    words = [
        word
        for word in _TIME.sub("", problem).split()
        if not _DIGIT.search(word) and word.strip(".,:;()'\"") not in names
    ]
    return " ".join(words[:_FIRST_WORDS])


def shrink(plan: Plan, fails: Callable[[Plan], bool], budget: int) -> Plan:
    """Return the smallest plan found that still fails, after at most ``budget`` questions whether one does."""
    return _Shrinking(plan, fails, budget).run()


class _Shrinking:
    def __init__(self, plan: Plan, fails: Callable[[Plan], bool], budget: int) -> None:
        self._plan = plan
        self._fails = fails
        self._left = budget
        self._answers = {format_plan(plan): True}
        self._seeds = range(plan.seed, plan.seed + _SEEDS)

    def run(self) -> Plan:
        before = None
        while before != self._plan and self._left > 0:
            before = self._plan
            self._drop_actions()
            for simpler in (_without_vms, _with_plain_guests, _without_hosts, _without_groups, _without_extras):
                self._take(simpler)
            self._take(_sooner)
            self._take(_with_smaller_numbers)
        return self._plan

    def _take(self, simpler: Callable[[Plan], Iterator[Plan]]) -> None:
        """Take the first candidate that still fails, and begin anew from there, until none does."""
        is_smaller = True
        while is_smaller:
            is_smaller = any(self._try(candidate) for candidate in simpler(self._plan))

    def _try(self, candidate: Plan) -> bool:
        """Return whether a plan other than the present one fails too, with one of a few seeds; it is taken then."""
        if candidate == self._plan:
            return False
        for seed in dict.fromkeys((candidate.seed, *self._seeds)):
            variant = replace(candidate, seed=seed)
            if self._is_failing(variant):
                self._plan = variant
                return True
        return False

    def _is_failing(self, plan: Plan) -> bool:
        text = format_plan(plan)
        if text not in self._answers:
            if self._left <= 0:
                return False
            self._left -= 1
            self._answers[text] = self._fails(plan)
        return self._answers[text]

    def _drop_actions(self) -> None:
        """Delta debugging: drop halves, then quarters, down to single actions."""
        size = len(self._plan.actions)
        while size >= 1:
            begin = 0
            while begin < len(self._plan.actions):
                actions = self._plan.actions
                if not self._try(replace(self._plan, actions=actions[:begin] + actions[begin + size :])):
                    begin += size
            size //= 2


def _without_vms(plan: Plan) -> Iterator[Plan]:
    for vm in reversed(plan.vms):
        yield _without_names(replace(plan, vms=_without(plan.vms, vm)), {vm.name})


def _with_plain_guests(plan: Plan) -> Iterator[Plan]:
    for index, vm in enumerate(plan.vms):
        plainer = _PLAIN_GUESTS[: _PLAIN_GUESTS.index(vm.guest)] if vm.guest in _PLAIN_GUESTS else _PLAIN_GUESTS
        for candidate in (
            *(replace(vm, guest=guest) for guest in plainer),
            replace(vm, spot=False),
            replace(vm, update_domain=0, fault_domain=0),
        ):
            if candidate != vm:
                yield replace(plan, vms=(*plan.vms[:index], candidate, *plan.vms[index + 1 :]))


def _without_hosts(plan: Plan) -> Iterator[Plan]:
    for host in reversed(plan.hosts[1:]):
        vms = tuple(replace(vm, host=plan.hosts[0]) if vm.host == host else vm for vm in plan.vms)
        yield _without_names(replace(plan, hosts=_without(plan.hosts, host), vms=vms), {host})


def _without_groups(plan: Plan) -> Iterator[Plan]:
    for group in reversed(plan.groups[1:]):
        gone = {group.name, *(vm.name for vm in plan.vms if vm.group == group.name)}
        vms = tuple(vm for vm in plan.vms if vm.group != group.name)
        owners = {owner: _without(owned, group.name) for owner, owned in plan.owners.items()}
        yield _without_names(replace(plan, groups=_without(plan.groups, group), vms=vms, owners=owners), gone)


def _without_extras(plan: Plan) -> Iterator[Plan]:
    yield replace(plan, has_sqlite=False)
    yield replace(plan, workers=0)
    if plan.nodes > 2:
        yield replace(plan, nodes=plan.nodes - 1)
    for owner in reversed(plan.owners):
        owners = {name: owned for name, owned in plan.owners.items() if name != owner}
        yield _without_names(replace(plan, owners=owners), {owner})
    for index, group in enumerate(plan.groups):
        if group.terms != "{}":
            yield replace(plan, groups=(*plan.groups[:index], replace(group, terms="{}"), *plan.groups[index + 1 :]))


def _sooner(plan: Plan) -> Iterator[Plan]:
    """End earlier; leave pauses out; round times, without a change of their order."""
    last = plan.actions[-1].at if plan.actions else 0.0
    if plan.ends_at > last + 1.0:
        yield replace(plan, ends_at=float(int(last) + 1))
    for index, action in enumerate(plan.actions):
        before = plan.actions[index - 1].at if index else 0.0
        for pause in (1.0, (action.at - before) / 2):
            earlier = round(action.at - before - pause, 3)
            if earlier >= 1.0:
                later = tuple(replace(each, at=round(each.at - earlier, 3)) for each in plan.actions[index:])
                ends_at = max(round(plan.ends_at - earlier, 3), later[-1].at)
                yield replace(plan, actions=plan.actions[:index] + later, ends_at=ends_at)
        rounded = float(round(action.at))
        after = plan.actions[index + 1].at if index + 1 < len(plan.actions) else plan.ends_at
        if rounded != action.at and before <= rounded <= after:
            yield _with_action(plan, index, replace(action, at=rounded))


def _with_smaller_numbers(plan: Plan) -> Iterator[Plan]:
    for index, action in enumerate(plan.actions):
        for name in action.__struct_fields__:
            value = getattr(action, name)
            if name == "at" or not isinstance(value, int | float):
                continue
            for smaller in (type(value)(1), type(value)(int(value / 2)), type(value)(int(value))):
                if abs(smaller) < abs(value):
                    yield _with_action(plan, index, _with_field(action, name, smaller))


def _with_field(action: PlannedAction, name: str, value: Any) -> PlannedAction:  # noqa: ANN401 - whatever the field has
    return replace(action, **{name: value})


def _with_action(plan: Plan, index: int, action: PlannedAction) -> Plan:
    return replace(plan, actions=(*plan.actions[:index], action, *plan.actions[index + 1 :]))


def _without_names(plan: Plan, gone: set[str]) -> Plan:
    """Leave out the actions that speak of what is gone."""
    return replace(
        plan,
        actions=tuple(
            action for action in plan.actions if gone.isdisjoint(map(str, msgspec.structs.astuple(action)))
        ),
    )


def _without(items: Sequence[_Item], item: _Item) -> tuple[_Item, ...]:
    return tuple(each for each in items if each != item)
