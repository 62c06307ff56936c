"""Plans rollouts from the committed fleet and from what the journal tells of earlier events."""

import asyncio
from collections.abc import Iterable

from msgspec.structs import replace

from forewarn.control.rollout_views import EndedRollout, RolloutDetail, RolloutView, read_ended
from forewarn.core.errors import Refused, unknown
from forewarn.core.facts import (
    Announced,
    Approved,
    Attempted,
    Completed,
    Entry,
    EventEnded,
    RolloutEnded,
    RolloutHostChanged,
    Started,
)
from forewarn.core.rollouts.checks import check_gate
from forewarn.core.rollouts.model import HostStep, RolloutTerms
from forewarn.core.rollouts.planning import RolloutPlan, make_plan
from forewarn.core.rollouts.prediction import HOST_COMMAND, Experience, Spread
from forewarn.core.subjects import FINISHED, ROLLOUTS
from forewarn.journal.port import Journal
from forewarn.node.drain_plans import make_drain_plan
from forewarn.node.driver import SupportsCapacity
from forewarn.node.node import Node
from forewarn.node.rollout_checks import RolloutChecker
from forewarn.threads import THREADS

_LOOKED_AT = 1_000
"""Finished events that a prediction is made from."""
_KEPT_FOR = 60.0
"""Seconds after which these are read again."""
_LARGE = 2_000
"""VMs from which on a plan is made beside the event loop, of a copy of the fleet."""
_MOST_DRAINS = 20
"""Hosts of the first wave whose drains are planned to see whether all VMs can leave."""


class RolloutPlanner:
    """Plans rollouts, and reads those that have ended."""

    def __init__(
        self,
        node: Node,
        journal: Journal,
        checker: RolloutChecker,
        capacity: SupportsCapacity | None,
        *,
        runs_commands: bool,
        moves_live: bool,
    ) -> None:
        self._node = node
        self._journal = journal
        self._checker = checker
        self._capacity = capacity
        self.runs_commands = runs_commands
        self._moves_live = moves_live
        self._experience = Experience()
        self._read_at: float | None = None

    async def plan(self, name: str, terms: RolloutTerms) -> RolloutPlan:
        """Return what a rollout would do on the fleet as it is, and everything it cannot do."""
        fleet, now, rules = self._node.replica.fleet, self._node.clock.now(), self._node.writer.rules
        experience = await self._recorded()
        is_large = len(fleet.vms) > _LARGE
        whole = fleet.copy() if is_large else fleet

        def make() -> RolloutPlan:
            return make_plan(
                whole,
                name,
                terms,
                now,
                rules,
                experience,
                runs_commands=self.runs_commands,
                live=self._moves_live,
            )

        plan = await asyncio.get_running_loop().run_in_executor(THREADS, make) if is_large else make()
        if not plan.problems and terms.operation.drains:
            plan = await self._with_drains(plan)
        if not plan.problems:
            try:
                await self.try_gate(terms)
            except Refused as refused:
                return replace(plan, problems=(str(refused),))
        return plan

    async def try_gate(self, terms: RolloutTerms) -> None:
        """Refuse a rollout whose gate or alerts cannot be asked for at all."""
        check_gate(terms)
        if terms.gate or terms.alerts:
            await asyncio.get_running_loop().run_in_executor(THREADS, self._checker.try_out, terms)

    async def ended(self, name: str) -> EndedRollout:
        """Return the rollout of that name that ended last."""
        entries = await self._node.replica.history(f"rollout:{name}")
        if found := read_ended(entries, name):
            return found
        raise unknown("rollout", name, self._node.replica.fleet.rollouts)

    async def latest_ended(self, limit: int) -> list[RolloutView]:
        """Return the rollouts that ended last, the latest at the end."""

        def read() -> list[RolloutView]:
            entries = self._journal.history(ROLLOUTS, limit=2 * limit)
            names = dict.fromkeys(
                fact.rollout for entry in entries for fact in entry.facts if isinstance(fact, RolloutEnded)
            )
            found = (read_ended(self._journal.history(f"rollout:{name}"), name) for name in names)
            return [_summary(each.detail) for each in found if each][-limit:]

        return await self._node.replica.read(read) if limit else []

    async def _with_drains(self, plan: RolloutPlan) -> RolloutPlan:
        """Add the VMs that cannot leave the first hosts: a host is taken down whole when all of them have left."""
        problems: list[str] = []
        together = plan.waves[0].hosts if plan.waves else ()
        for host in together[:_MOST_DRAINS]:
            try:
                found, _ = await make_drain_plan(self._node.replica, self._capacity, host, together)
            except Refused as refused:
                problems.append(str(refused))
                continue
            problems += [f"VM {vm} cannot leave {host}: {why}; move it first" for vm, why in found.left.items()]
        return replace(plan, problems=tuple(problems))

    async def _recorded(self) -> Experience:
        now = self._node.clock.seconds()
        if self._read_at is None or now - self._read_at > _KEPT_FOR:
            self._experience = await self._node.replica.read(self._read)
            self._read_at = now
        return self._experience

    def _read(self) -> Experience:
        ended = self._journal.history(FINISHED, limit=_LOOKED_AT)
        ids = dict.fromkeys(fact.event for entry in ended for fact in entry.facts if isinstance(fact, EventEnded))
        lives = [self._journal.history(f"event:{id_}") for id_ in list(ids)[-_LOOKED_AT:]]
        names = dict.fromkeys(
            fact.rollout
            for entry in self._journal.history(ROLLOUTS, limit=10)
            for fact in entry.facts
            if isinstance(fact, RolloutEnded)
        )
        rollouts = [self._journal.history(f"rollout:{name}") for name in names]
        return experience_from(lives, rollouts, self._node.driver_name)


def experience_from(
    lives: Iterable[list[Entry]], rollouts: Iterable[list[Entry]] = (), driver: str = ""
) -> Experience:
    """Return what the entries about finished events, each with its own, tell of approvals and durations.

    Durations count where ``driver`` alone made them.
    """
    approvals: dict[str, list[float]] = {}
    impacts: dict[str, list[float]] = {}
    unapproved: set[str] = set()
    for entries in lives:
        event = started_at = approved_at = ended_at = None
        drivers: set[str] = set()
        for fact in (fact for entry in entries for fact in entry.facts):
            match fact:
                case Announced(event=announced):
                    event = event or announced
                case Approved(event=id_, counts=True, at=at) if event and id_ == event.id:
                    approved_at = approved_at or at
                case Started(event=id_, at=at) if event and id_ == event.id:
                    started_at = at
                case Attempted(event=id_, driver=called) if event and id_ == event.id:
                    drivers.add(called)
                case Completed(event=id_, at=at) if event and id_ == event.id:
                    ended_at = at
        if event and approved_at:
            approvals.setdefault(event.group, []).append((approved_at - event.announced_at).total_seconds())
        elif event:
            unapproved.add(event.group)
        if event and started_at and ended_at and drivers == {driver}:
            impacts.setdefault(event.operation, []).append((ended_at - started_at).total_seconds())
    for entries in rollouts:
        impacts.setdefault(HOST_COMMAND, []).extend(_command_times(entries, driver))
    return Experience(
        {group: Spread.of(times) for group, times in approvals.items()},
        {operation: Spread.of(times) for operation, times in impacts.items() if times},
        frozenset(unapproved - approvals.keys()),
    )


def _command_times(entries: Iterable[Entry], driver: str) -> Iterable[float]:
    begun = {}
    for fact in (fact for entry in entries for fact in entry.facts):
        if isinstance(fact, RolloutHostChanged):
            if fact.step is HostStep.COMMAND and fact.driver == driver:
                begun[fact.host] = fact.at
            elif fact.exit_status == 0 and fact.host in begun:
                yield (fact.at - begun.pop(fact.host)).total_seconds()


def _summary(detail: RolloutDetail) -> RolloutView:
    return RolloutView(**{key: getattr(detail, key) for key in RolloutView.__struct_fields__})
