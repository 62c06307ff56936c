"""Rates of VMs that ask several nodes: each node counts what the others admitted, about a second later.

A VM that asks one node less often than its share, the rate divided by the number of nodes, cannot exceed the rate
by asking the others as often; only the requests of other VMs are counted and exchanged. What a VM gains before the
others have heard of it is at most one burst for each node.
"""

from collections import Counter
from collections.abc import Callable, Mapping

from forewarn.metadata.document_cache import DocumentCache, VmEntry
from forewarn.metadata.limits import RateLimitedCaller, RateLimiter
from forewarn.metadata.service import MetadataService

MOST_VMS = 20_000
"""VMs that are counted at a time; any more are limited by each node for itself."""
_DEBT = 1.0
"""Seconds of the rate, for each node, that a VM may owe beyond its burst: what it was granted between two reports."""
_FORGET_AFTER = 10.0
"""Seconds without a report after which a node gets none."""


class _CountingRateLimiter(RateLimiter):
    """Counts the requests of VMs that ask this node more often than their share."""

    def __init__(self, rate: float, burst: int, nodes: int, counted: Counter[str]) -> None:
        super().__init__(rate, burst)
        self._counted = counted
        self.set_nodes(nodes)

    def set_nodes(self, nodes: int) -> None:
        self.interval = self.step * nodes
        self.limit = self.burst + nodes * _DEBT
        """Seconds up to which other nodes' requests count."""
        self.longest = self.limit + self.step

    def admit(self, who: RateLimitedCaller, now: float) -> int:
        pause = super().admit(who, now)
        if not pause and isinstance(who, VmEntry) and (who.vm.name in self._counted or len(self._counted) < MOST_VMS):
            self._counted[who.vm.name] += 1
        return pause


class NodeRates:
    """What VMs spent of their rate: counts what this node admitted, and takes in what the others did."""

    def __init__(self, service: MetadataService, document_cache: DocumentCache, seconds: Callable[[], float]) -> None:
        """Replace the rate limiter of the service; its limits must be set again afterwards."""
        self._document_cache = document_cache
        self._seconds = seconds
        self._counted: Counter[str] = Counter()
        self._nodes = 1
        self._limiter: _CountingRateLimiter | None = None
        service.make_rate_limiter = self._make

    def set_nodes(self, nodes: int) -> None:
        """Note how many nodes there are."""
        self._nodes = max(1, nodes)
        if self._limiter:
            self._limiter.set_nodes(self._nodes)

    def take(self) -> dict[str, int]:
        """Return how many requests of each VM were counted since the last call."""
        counted = dict(self._counted)
        self._counted.clear()
        return counted

    def add(self, spent: Mapping[str, int]) -> None:
        """Let requests that other nodes admitted count here; no VM is refused for more than some seconds."""
        if (limiter := self._limiter) is None:
            return
        idle_until = self._seconds() + limiter.interval - limiter.step
        for name, count in spent.items():
            if vm_entry := self._document_cache.entry_of_vm(name):
                spent_until = max(vm_entry.spent_until, idle_until) + count * limiter.step
                vm_entry.spent_until = min(spent_until, idle_until + limiter.limit)

    def _make(self, rate: float, burst: int) -> RateLimiter:
        self._limiter = _CountingRateLimiter(rate, burst, self._nodes, self._counted)
        return self._limiter


class RateExchange:
    """On the leader: collects what each node counted, for the others."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._owed: dict[str, Counter[str]] = {}
        self._reported_at: dict[str, float] = {}

    def exchange(self, node: str, spent: Mapping[str, int]) -> dict[str, int]:
        """Take in what a node counted; return what the others counted since its last report."""
        now = self._seconds()
        for other in [name for name, at in self._reported_at.items() if now - at > _FORGET_AFTER]:
            del self._owed[other], self._reported_at[other]
        owed = self._owed.get(node, Counter())
        self._owed[node] = Counter()
        self._reported_at[node] = now
        for other, counted in self._owed.items():
            if other != node and len(counted) < MOST_VMS:
                counted.update(spent)
        return dict(owed)
