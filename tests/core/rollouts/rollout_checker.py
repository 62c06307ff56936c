"""Checks a rollout from outside: it is told the facts and keeps its own books, with none of the product's rules.

- In one group, platform events are Started together only if they share update domain and fault domain.
- No event starts before its NotBefore, unless a VM approved it.
- No VM is under two Started events, and every VM of every host is impacted exactly once.
- No more hosts are in a wave than allowed, and no host before all of the last wave have ended.
"""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime

from forewarn.core.facts import Announced, AnyFact, Approved, Canceled, Completed, Failed, Started
from forewarn.core.fleet import Fleet
from forewarn.core.model import Event, EventStatus, Vm
from forewarn.core.rollouts.facts import RolloutHostChanged, RolloutWaveStarted


class RolloutFactChecker:
    """Books of one rollout over a fleet whose VMs do not move."""

    def __init__(self, vms: Iterable[Vm], parallel: int) -> None:
        self._placed = {vm.name: (vm.host, vm.group, vm.update_domain, vm.fault_domain) for vm in vms}
        self._parallel = parallel
        self._events: dict[str, Event] = {}
        self._approved: set[str] = set()
        self._started: dict[str, dict[str, frozenset[tuple[int, int]]]] = {}
        """The Started events of each group, with their domains."""
        self._under: Counter[str] = Counter()
        """Started events of each VM."""
        self.impacted: Counter[str] = Counter()
        """How often each VM was impacted."""
        self._on_host: Counter[str] = Counter()
        """Unfinished events of each host."""
        self._wave: set[str] = set()
        self._hosts_done: set[str] = set()
        self.steps = 0

    def follow(self, facts: Iterable[AnyFact], now: datetime, fleet: Fleet) -> None:
        """Take in one step, and check what it touched; every 1,000 steps everything."""
        self.steps += 1
        for fact in facts:
            self._take(fact, now)
        if self.steps % 1_000 == 0:
            self.check_all(fleet)

    def _take(self, fact: AnyFact, now: datetime) -> None:
        match fact:
            case Announced(event=event):
                assert event.host in self._wave, f"{event.host} is in no wave"
                domains = {self._placed[name] for name in event.resources}
                assert {(event.host, event.group, event.update_domain)} == {each[:3] for each in domains}
                self._events[event.id] = event
                self._on_host[event.host] += 1
            case Approved(event=id_):
                self._approved.add(id_)
            case Started(event=id_):
                self._start(self._events[id_], now)
            case Completed(event=id_) | Failed(event=id_) | Canceled(event=id_):
                self._end(self._events.pop(id_), is_done=isinstance(fact, Completed))
            case RolloutWaveStarted(hosts=hosts):
                assert not self._wave, f"{sorted(self._wave)[:3]} have not ended"
                assert len(hosts) <= self._parallel
                self._wave.update(hosts)
            case RolloutHostChanged(host=host, step="done" | "failed" | "skipped"):
                assert host not in self._hosts_done, f"{host} ends twice"
                assert self._on_host[host] == 0, f"{host} has events"
                self._hosts_done.add(host)
                self._wave.discard(host)

    def _start(self, event: Event, now: datetime) -> None:
        assert event.id in self._approved or now >= event.not_before, f"{event.id} starts early"
        mine = {(place[2], place[3]) for place in map(self._placed.__getitem__, event.resources)}
        together = self._started.setdefault(event.group, {})
        is_alone = not together or (len(mine) == 1 and all(other == mine for other in together.values()))
        assert is_alone, f"{event.group}: {event.id} starts out of turn"
        together[event.id] = frozenset(mine)
        for name in event.resources:
            self._under[name] += 1
            assert self._under[name] == 1, f"{name} is under two events"

    def _end(self, event: Event, *, is_done: bool) -> None:
        self._on_host[event.host] -= 1
        if self._started.get(event.group, {}).pop(event.id, None) is None:
            return
        for name in event.resources:
            self._under[name] -= 1
            self.impacted[name] += is_done
            assert self.impacted[name] <= 1, f"{name} is impacted twice"

    def check_all(self, fleet: Fleet) -> None:
        """Compare all books with the fleet, and check every group anew."""
        assert fleet.events.keys() == self._events.keys()
        started = {event.id for event in fleet.events.values() if event.status is EventStatus.STARTED}
        assert started == {id_ for together in self._started.values() for id_ in together}
        for group, together in self._started.items():
            assert len(set(together.values())) <= 1, group
        for rollout in fleet.rollouts.values():
            assert set(rollout.active) == self._wave
        assert all(count in (0, 1) for count in self._under.values())
        assert {name: vm.standing_on for name, vm in fleet.vms.items()} == {
            name: place[0] for name, place in self._placed.items()
        }
