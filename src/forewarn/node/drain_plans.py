"""Plans where the VMs of a host go, from the capacity that the driver reports."""

from collections.abc import Collection

from forewarn.core.moves import check_drainable
from forewarn.core.placement import Capacity, DrainPlan, arriving, candidates, plan_drain, running_on
from forewarn.node.driver import SupportsCapacity
from forewarn.node.driver_calls import ask_capacity
from forewarn.node.replica import Replica


async def make_drain_plan(
    replica: Replica, driver: SupportsCapacity | None, host: str, besides: Collection[str] = ()
) -> tuple[DrainPlan, Capacity]:
    """Return the plan and the capacity it is made from; without reported capacity VMs are spread by number.

    ``besides`` are hosts that are to be drained at the same time.
    """
    fleet = replica.fleet
    check_drainable(fleet, host)
    hosts = tuple(fleet.hosts[name] for name in candidates(fleet, host, besides))
    names = {each.name for each in hosts}
    vms = (*running_on(fleet, host), *(vm for vm, target in arriving(fleet) if target in names))
    capacity = await ask_capacity(driver, vms, hosts) if driver and vms and hosts else Capacity()
    return plan_drain(replica.fleet, host, capacity, besides), capacity
