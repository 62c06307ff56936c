"""Hosts: what they are, and maintenance of all VMs of one."""

from litestar import Router
from litestar.params import FromPath, JSONBody

from forewarn.control.access import Action
from forewarn.control.api.idempotency import IdempotencyKey
from forewarn.control.api.paging import Cursor, Limit, page, read_cursor
from forewarn.control.api.plane import Asking, Behind
from forewarn.control.api.routing import reads, writes
from forewarn.control.bodies import HostOperationBody, Page
from forewarn.control.views import HostView, Told
from forewarn.core.commands import OperateHost
from forewarn.core.fleet import Fleet
from forewarn.core.model import Host

_TAGS = ("Hosts",)


@reads("/", Action.READ_HOSTS, summary="List hosts", tags=_TAGS)
async def list_hosts(plane: Behind, limit: Limit = 100, cursor: Cursor = None) -> Page[HostView]:
    """List the hosts by name."""
    names = await plane.names.after("hosts", read_cursor(cursor))
    return await plane.node.look(
        lambda fleet: page(((name, fleet.hosts.get(name)) for name in names), limit, lambda host: _view(fleet, host))
    )


@reads("/{name:str}", Action.READ_HOSTS, summary="Show a host", tags=_TAGS)
async def show_host(plane: Behind, bearer: Asking, name: FromPath[str]) -> HostView:
    """Tell how many VMs stand on a host; ``/v1/vms?host=NAME`` lists them."""
    return await plane.node.look(lambda fleet: _view(fleet, bearer.host(fleet, name)))


@writes(
    "/{name:str}/operations",
    Action.MAINTAIN_HOSTS,
    summary="Maintain a host",
    tags=_TAGS,
    body=HostOperationBody,
)
async def operate_host(
    plane: Behind, bearer: Asking, name: FromPath[str], data: JSONBody[HostOperationBody], key: IdempotencyKey = None
) -> Told:
    """Freeze, reboot or redeploy all VMs of a host after notice; or tell that it will fail (`degrade`), or has."""
    return await plane.operations.submit(
        OperateHost(
            id=plane.command_id(bearer, key, f"host {name}", data),
            by=bearer.caller,
            operation=data.operation,
            host=name,
            not_before=data.not_before,
            duration=data.duration,
            description=data.description,
        )
    )


def _view(fleet: Fleet, host: Host) -> HostView:
    return HostView(host.name, len(fleet.vms_on(host.name)))


hosts = Router("/hosts", route_handlers=[list_hosts, show_host, operate_host])
