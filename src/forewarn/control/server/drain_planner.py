"""Plans drains of hosts from the capacity that the driver reports."""

from forewarn.control.views import DrainPlanView, PlacementView
from forewarn.core.errors import Refused
from forewarn.core.placement import Capacity, DrainPlan
from forewarn.node.drain_plans import DrainPlanMaker
from forewarn.node.driver import SupportsCapacity
from forewarn.node.replica import Replica

_NAMED = 20


class DrainPlanner:
    """Plans drains; without reported capacity VMs are spread by number."""

    def __init__(self, replica: Replica, driver: SupportsCapacity | None) -> None:
        self._replica = replica
        self._driver = driver

    async def plan(self, host: str, *, leave_stuck: bool) -> DrainPlan:
        """Return the plan; raise Refused if VMs cannot be moved and may not be left."""
        plan, _ = await self._plan(host)
        if plan.left and not leave_stuck:
            reasons = [f"{vm} ({why})" for vm, why in list(plan.left.items())[:_NAMED]]
            more = f" and {len(plan.left) - _NAMED} more" if len(plan.left) > _NAMED else ""
            raise Refused(
                f"nothing was moved: these VMs cannot leave {host}: {', '.join(reasons)}{more}; "
                "free capacity for them, or continue without them: --leave-stuck"
            )
        return plan

    async def view(self, host: str, *, is_live: bool) -> DrainPlanView:
        plan, capacity = await self._plan(host)
        vms = self._replica.fleet.vms
        return DrainPlanView(
            host=host,
            placements=tuple(
                PlacementView(
                    vm=vm,
                    group=vms[vm].group if vm in vms else "",
                    host=target,
                    live=is_live and vm not in plan.cold,
                    memory=capacity.vms[vm].memory if vm in capacity.vms else None,
                    cpus=capacity.vms[vm].cpus if vm in capacity.vms else None,
                )
                for vm, target in plan.placements.items()
            ),
            left=plan.left,
            deallocated=plan.deallocated,
        )

    async def _plan(self, host: str) -> tuple[DrainPlan, Capacity]:
        return await DrainPlanMaker(self._replica, self._driver).plan(host)
