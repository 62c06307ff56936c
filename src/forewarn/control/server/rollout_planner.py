"""Plans rollouts from the committed fleet and from what the journal tells of earlier events."""

import asyncio

from msgspec.structs import replace

from forewarn.control.rollout_views import EndedRollout, RolloutView, read_ended, summarize
from forewarn.core.errors import Refused, Unavailable, Unknown, unknown
from forewarn.core.fleet import Fleet
from forewarn.core.rollouts.checks import check_gate
from forewarn.core.rollouts.facts import RolloutEnded
from forewarn.core.rollouts.model import RolloutTerms
from forewarn.core.rollouts.planning import MOST_PROBLEMS, RolloutPlan, make_plan
from forewarn.core.subjects import ROLLOUTS, subject_of_rollout
from forewarn.journal.port import Journal
from forewarn.node.drain_plans import DrainPlanMaker
from forewarn.node.driver import SupportsCapacity
from forewarn.node.node import Node
from forewarn.node.rollout_checks import RolloutChecker
from forewarn.node.rollout_experience import ExperienceReader, compute_from
from forewarn.threads import THREADS

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
        self._experience = ExperienceReader(node)

    async def plan(self, name: str, terms: RolloutTerms) -> RolloutPlan:
        """Return what a rollout would do on the fleet as it is, and everything it cannot do."""
        plan = await self._make_plan(name, terms)
        if plan.problems or not (terms.gate or terms.alerts):
            return plan
        try:
            keeping_back = await self.try_gate(terms)
        except Refused as refused:
            return replace(plan, problems=(str(refused),))
        plan = await self._make_plan(name, terms)  # the gate may have taken its time
        return replace(plan, notes=(*keeping_back, *plan.notes))

    async def _make_plan(self, name: str, terms: RolloutTerms) -> RolloutPlan:
        fleet, now, rules = self._node.replica.fleet, self._node.clock.now(), self._node.writer.rules
        experience = await self._experience.read()

        def make(fleet: Fleet) -> RolloutPlan:
            return make_plan(
                fleet,
                name,
                terms,
                now,
                rules,
                experience,
                runs_commands=self.runs_commands,
                live=self._moves_live,
            )

        plan = await compute_from(fleet, make)
        if not plan.problems and terms.operation.drains:
            plan = await self._with_drains(plan)
        return plan

    async def try_gate(self, terms: RolloutTerms) -> tuple[str, ...]:
        """Return what would keep a wave back now; refuse a gate or alerts that cannot be asked for at all."""
        check_gate(terms)
        if not (terms.gate or terms.alerts):
            return ()
        return await asyncio.get_running_loop().run_in_executor(THREADS, self._checker.try_out, terms)

    async def ended(self, name: str) -> EndedRollout:
        """Return the rollout of that name that ended last."""
        entries = await self._node.replica.history(subject_of_rollout(name))
        if found := read_ended(entries, name):
            return found
        error = unknown("rollout", name, self._node.replica.fleet.rollouts)
        raise Unknown(f"{error}; 'forewarn rollout list --all' shows them")

    async def latest_ended(self, limit: int) -> list[RolloutView]:
        """Return the rollouts that ended last, the latest at the end."""

        def read() -> list[RolloutView]:
            entries = self._journal.history(ROLLOUTS, limit=2 * limit)
            names = dict.fromkeys(
                fact.rollout for entry in entries for fact in entry.facts if isinstance(fact, RolloutEnded)
            )
            found = (read_ended(self._journal.history(subject_of_rollout(name)), name) for name in names)
            return [summarize(each.detail) for each in found if each][-limit:]

        return await self._node.replica.read(read) if limit else []

    async def _with_drains(self, plan: RolloutPlan) -> RolloutPlan:
        """Add the VMs that cannot leave: a host is taken down whole when all of them have left.

        What room there is for them is known of the first hosts alone; what else is in their way, of all.
        """
        problems: list[str] = []
        notes = plan.notes
        drains = DrainPlanMaker(self._node.replica, self._capacity)
        together = plan.waves[0].hosts if plan.waves else ()
        for host in together[:_MOST_DRAINS]:
            try:
                found, _ = await drains.plan(host, together)
            except Refused as refused:
                problems.append(str(refused))
                continue
            problems += [f"VM {vm} cannot leave {host}: {why}; move it first" for vm, why in found.left.items()]
        later = [host for wave in plan.waves for host in wave.hosts][len(together[:_MOST_DRAINS]) :]
        try:
            obstacles = await drains.obstacles(later)
        except Unavailable as error:
            notes = (*notes, f"whether all VMs can leave the hosts of later waves is not known: {error}")
        else:
            problems += [
                f"VM {vm} cannot leave {host}: {why}; move it first" for vm, (host, why) in obstacles.items()
            ]
        return replace(plan, problems=tuple(problems[:MOST_PROBLEMS]), notes=notes)
