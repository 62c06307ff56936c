"""Reads from the journal how long groups took to approve and operations took, for predictions of rollouts."""

import asyncio
from collections.abc import Callable, Iterable
from typing import TypeVar

from forewarn.core.facts import Announced, Approved, Attempted, Completed, Entry, EventEnded, Started
from forewarn.core.fleet import Fleet
from forewarn.core.rollouts.facts import RolloutEnded, RolloutHostChanged
from forewarn.core.rollouts.model import HostStep
from forewarn.core.rollouts.prediction import HOST_COMMAND, Experience, Spread
from forewarn.core.subjects import FINISHED, ROLLOUTS, subject_of_event, subject_of_rollout
from forewarn.node.node import Node
from forewarn.threads import THREADS

_Result = TypeVar("_Result")

_MOST_READ = 1_000
"""Finished events that a prediction is made from."""
_KEPT_FOR = 60.0
"""Seconds after which these are read again."""
_LARGE = 2_000
"""VMs from which on a prediction is made beside the event loop, of a copy of the fleet."""


class ExperienceReader:
    """Reads what was recorded of earlier events; at most once a minute."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._experience = Experience()
        self._read_at: float | None = None

    async def read(self) -> Experience:
        now = self._node.clock.seconds()
        if self._read_at is None or now - self._read_at > _KEPT_FOR:
            self._experience = await self._node.replica.read(self._read)
            self._read_at = now
        return self._experience

    def _read(self) -> Experience:
        journal = self._node.journal
        ended = journal.history(FINISHED, limit=_MOST_READ)
        ids = dict.fromkeys(fact.event for entry in ended for fact in entry.facts if isinstance(fact, EventEnded))
        lives = [journal.history(subject_of_event(id_)) for id_ in list(ids)[-_MOST_READ:]]
        names = dict.fromkeys(
            fact.rollout
            for entry in journal.history(ROLLOUTS, limit=10)
            for fact in entry.facts
            if isinstance(fact, RolloutEnded)
        )
        rollouts = [journal.history(subject_of_rollout(name)) for name in names]
        return experience_from(lives, rollouts, self._node.driver_name)


async def compute_from(fleet: Fleet, work: Callable[[Fleet], _Result]) -> _Result:
    """Compute something from a fleet; from a copy of a large one, beside the event loop."""
    if len(fleet.vms) <= _LARGE:
        return work(fleet)
    copied = fleet.copy()
    return await asyncio.get_running_loop().run_in_executor(THREADS, work, copied)


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
