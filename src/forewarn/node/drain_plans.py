"""Plans where the VMs of a host go, from the capacity that the driver reports."""

from collections.abc import Collection, Iterable

from forewarn.core.moves import check_drainable
from forewarn.core.placement import (
    Capacity,
    DrainPlan,
    TargetOrder,
    arriving,
    candidates,
    plan_drain,
    running_on,
)
from forewarn.node.driver import SupportsCapacity
from forewarn.node.driver_calls import ask_capacity
from forewarn.node.feed import Commit
from forewarn.node.replica import Replica


class DrainPlanMaker:
    """Plans drains; the order of hosts is made once, and kept as long as nothing changes it."""

    def __init__(self, replica: Replica, driver: SupportsCapacity | None) -> None:
        self._replica = replica
        self._driver = driver
        self._order: TargetOrder | None = None
        self._revision = 0
        """Of which revision of the fleet the order is."""

    def forget(self) -> None:
        """Make the order anew: the fleet is another one."""
        self._order = None

    def note(self, commit: Commit) -> None:
        """Keep the order where a commit does not change it. A commit that is not noted may have changed it."""
        if self._revision + len(commit.entries) == self._replica.revision and all(
            TargetOrder.is_kept_by(fact) for entry in commit.entries for fact in entry.facts
        ):
            self._revision = self._replica.revision

    async def plan(self, host: str, besides: Collection[str] = ()) -> tuple[DrainPlan, Capacity]:
        """Return the plan and the capacity it is made from; without reported capacity VMs are spread by number.

        ``besides`` are hosts that are to be drained at the same time.
        """
        check_drainable(self._replica.fleet, host)
        capacity = await self._capacity(host, besides)
        return plan_drain(self._replica.fleet, host, capacity, besides, self._current_order()), capacity

    async def obstacles(self, hosts: Iterable[str]) -> dict[str, tuple[str, str]]:
        """Return the VMs that can leave none of these hosts, whatever room there is: each with its host and why."""
        fleet = self._replica.fleet
        vms = tuple(vm for host in hosts for vm in running_on(fleet, host))
        if self._driver is None or not vms:
            return {}
        demands = (await ask_capacity(self._driver, vms, ())).vms
        found = ((vm, demands[vm.name].obstacle) for vm in vms if vm.name in demands)
        return {vm.name: (vm.standing_on, obstacle) for vm, obstacle in found if obstacle}

    async def _capacity(self, host: str, besides: Collection[str]) -> Capacity:
        if self._driver is None:
            return Capacity()
        fleet = self._replica.fleet
        hosts = tuple(fleet.hosts[name] for name in candidates(fleet, host, besides))
        names = {each.name for each in hosts}
        vms = (*running_on(fleet, host), *(vm for vm, target in arriving(fleet) if target in names))
        return await ask_capacity(self._driver, vms, hosts) if vms and hosts else Capacity()

    def _current_order(self) -> TargetOrder:
        if self._order is None or self._revision != self._replica.revision:
            self._order, self._revision = TargetOrder.of(self._replica.fleet), self._replica.revision
        return self._order
