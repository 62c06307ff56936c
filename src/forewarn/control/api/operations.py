"""Operations: the result of a command by its id; and commands that name no single VM, host or group."""

from uuid import UUID

from litestar import Router
from litestar.params import FromPath, JSONBody

from forewarn.control.api.context import ContextDependency, PrincipalDependency
from forewarn.control.api.idempotency import IdempotencyKey
from forewarn.control.api.routing import reads, writes
from forewarn.control.bodies import ReclaimBody
from forewarn.control.views import CommandResult
from forewarn.core.access import Action, Principal
from forewarn.core.commands import ReclaimSpot
from forewarn.core.errors import BadInput, Unknown
from forewarn.core.facts import Entry
from forewarn.wire.azure_names import show_id


@reads("/operations/{id:str}", Action.READ_VMS, summary="Show an operation")
async def show_operation(
    context: ContextDependency, principal: PrincipalDependency, id: FromPath[str]
) -> CommandResult:
    """Return what a command did, and the current status of its events; its id is the UUID in its response."""
    try:
        whole = UUID(id)
    except ValueError:
        raise BadInput(f"{id!r} is not an operation id; use the UUID from the command's response") from None
    # The service's own commands, and those of VMs, are recorded without hyphens.
    history = context.node.replica.history
    entries = await history(f"command:{whole}") or await history(f"command:{whole.hex}")
    for entry in entries:
        result = await context.operations.current_result_of(entry)
        if principal.sees_all or _is_own(result, entry, principal):
            return result
    raise Unknown(f"there is no operation {show_id(str(whole))}, or the journal no longer contains it")


def _is_own(result: CommandResult, entry: Entry, principal: Principal) -> bool:
    """Return whether an owner gave that command; token names can be reused, so its groups must match too."""
    is_by_itself = (entry.by.kind, entry.by.name) == (principal.caller.kind, principal.caller.name)
    return is_by_itself and all(principal.sees(each.group) for each in result.announcements)


@writes("/spot/reclaim", Action.RECLAIM, summary="Reclaim spot VMs")
async def reclaim_spot(context: ContextDependency, data: JSONBody[ReclaimBody], key: IdempotencyKey) -> CommandResult:
    """Evict a number of spot VMs, chosen fairly, or all of a host; each has the reason of its choice."""
    command = ReclaimSpot(id=key.id, by=key.by, count=data.count, host=data.host)
    return await context.operations.submit(command, key)


operations = Router("/", tags=["Operations"], route_handlers=[show_operation, reclaim_spot])
