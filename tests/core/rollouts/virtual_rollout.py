"""A rollout over a large fleet on virtual time: deadlines, a driver and rounds, without a process."""

import heapq
from datetime import datetime, timedelta

from forewarn.core.commands import CheckDeadlines, Command, ImpactResult, ReportImpact
from forewarn.core.decide import enact
from forewarn.core.facts import Announced, AnyFact, FleetChanged, Started
from forewarn.core.fleet import Fleet
from forewarn.core.model import NODE, GroupKind, GroupTerms, Host, Vm
from forewarn.core.notice import Rules
from forewarn.core.rollouts.commands import AdvanceRollout, StartRollout
from forewarn.core.rollouts.model import RolloutTerms
from tests.core.harness import ANN, NOON
from tests.core.rollouts.rollout_checker import RolloutFactChecker

_TOGETHER = 256
_IMPACT = timedelta(seconds=30)


def large_fleet(vms: int, hosts: int, groups: int) -> Fleet:
    """Return a fleet whose groups are spread over hosts, five update domains and three fault domains."""
    fleet = Fleet()
    fleet.evolve(
        FleetChanged(
            hosts=tuple(Host(f"host-{number}") for number in range(hosts)),
            groups=tuple(GroupTerms(f"group-{number}", GroupKind.AVAILABILITY_SET) for number in range(groups)),
            vms=tuple(
                Vm(
                    f"vm-{number}",
                    f"group-{number % groups}",
                    f"host-{(number * 7919 + number // groups * 31) % hosts}",
                    update_domain=number // groups % 5,
                    fault_domain=number // groups % 3,
                )
                for number in range(vms)
            ),
        )
    )
    return fleet


class VirtualRollout:
    """Drives the rules: what is due is submitted, and a driver ends each impact after half a minute."""

    def __init__(self, fleet: Fleet, terms: RolloutTerms, checker: RolloutFactChecker) -> None:
        self.fleet = fleet
        self.now: datetime = NOON
        self._rules = Rules()
        self._checker = checker
        self._count = 0
        self._times: list[tuple[datetime, int, str]] = []
        self._submit(StartRollout(id=self._id(), by=ANN, name="k", terms=terms))

    def run(self) -> None:
        """Go on until the rollout has ended."""
        while self._advance() or self._pass_time():
            pass

    def _advance(self) -> bool:
        return bool("k" in self.fleet.rollouts and self._submit(AdvanceRollout(id=self._id(), by=NODE, rollout="k")))

    def _pass_time(self) -> bool:
        """Go to the next time at which something is due, and let it happen."""
        if not self._times:
            return False
        self.now = max(self.now, self._times[0][0])
        due: list[str] = []
        while self._times and self._times[0][0] <= self.now:
            _, is_end, id_ = heapq.heappop(self._times)
            if is_end:
                self._submit(ReportImpact(id=self._id(), by=NODE, event=id_, result=ImpactResult.DONE))
            else:
                due.append(id_)
        for begin in range(0, len(due), _TOGETHER):
            events = tuple(due[begin : begin + _TOGETHER])
            self._submit(CheckDeadlines(id=self._id(), by=NODE, events=events))
        return True

    def _submit(self, command: Command) -> tuple[AnyFact, ...]:
        facts = enact(self.fleet, command, self.now, self._rules)
        for fact in facts:
            if isinstance(fact, Announced):
                heapq.heappush(self._times, (fact.event.not_before, 0, fact.event.id))
            elif isinstance(fact, Started):
                heapq.heappush(self._times, (self.now + _IMPACT, 1, fact.event))
        self._checker.follow(facts, self.now, self.fleet)
        return facts

    def _id(self) -> str:
        self._count += 1
        return f"{self._count:032x}"
