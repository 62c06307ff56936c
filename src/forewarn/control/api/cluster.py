"""The cluster: the nodes that share the journal."""

from litestar import Router

from forewarn.control.api.context import ContextDependency
from forewarn.control.api.routing import reads
from forewarn.control.bodies import ClusterStatus
from forewarn.core.access import Action
from forewarn.core.errors import Refused


@reads("/", Action.READ_HEALTH, summary="Nodes that share the journal")
async def show_cluster(context: ContextDependency) -> ClusterStatus:
    """Return who leads, and how far every node is; each of them is asked, from any node."""
    if context.cluster_status is None:
        raise Refused("this service has one node: its journal is shared with none; 'forewarn doctor' tells how it is")
    return await context.cluster_status()


cluster = Router("/cluster", tags=["Service"], route_handlers=[show_cluster])
