"""Operations: what became of a command, by its id; and those that name no single VM, host or group."""

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

_TAGS = ("Operations",)


@reads("/operations/{id:str}", Action.READ_VMS, summary="Show an operation", tags=_TAGS)
async def show_operation(
    context: ContextDependency, principal: PrincipalDependency, id: FromPath[str]
) -> CommandResult:
    """Tell what a command made happen, and how its events stand now; its id is the UUID that its answer named."""
    try:
        whole = UUID(id)
    except ValueError:
        raise BadInput(f"{id!r} is no id of an operation; give the UUID that its answer named") from None
    # The service's own commands, and those of VMs, are recorded without hyphens.
    entries = await context.node.history(f"command:{whole}") or await context.node.history(f"command:{whole.hex}")
    for entry in entries:
        told = await context.operations.tell_present(entry)
        if principal.sees_all or _is_its_own(told, entry, principal):
            return told
    raise Unknown(f"there is no operation {show_id(str(whole))}, or the journal no longer tells of it")


def _is_its_own(told: CommandResult, entry: Entry, principal: Principal) -> bool:
    """Tell whether an owner gave that command; its name may have been another's once, so its groups count too."""
    is_by_itself = (entry.by.kind, entry.by.name) == (principal.caller.kind, principal.caller.name)
    return is_by_itself and all(principal.sees(each.group) for each in told.announcements)


@writes("/spot/reclaim", Action.RECLAIM, summary="Reclaim spot VMs", tags=_TAGS, body=ReclaimBody)
async def reclaim_spot(
    context: ContextDependency, principal: PrincipalDependency, data: JSONBody[ReclaimBody], key: IdempotencyKey
) -> CommandResult:
    """Evict so many spot VMs, chosen fairly, or all of a host; each says why it was chosen."""
    command = ReclaimSpot(id=key.id, by=principal.caller, count=data.count, host=data.host)
    return await context.operations.submit(command, key.fingerprint)


operations = Router("/", route_handlers=[show_operation, reclaim_spot])
