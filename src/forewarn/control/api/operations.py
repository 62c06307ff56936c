"""Operations: what became of a command, by its id; and those that name no single VM, host or group."""

from collections.abc import Iterable
from uuid import UUID

from litestar import Router
from litestar.params import FromPath, JSONBody

from forewarn.control.access import Action, Bearer
from forewarn.control.api.idempotency import IdempotencyKey
from forewarn.control.api.plane import Asking, Behind
from forewarn.control.api.routing import reads, writes
from forewarn.control.bodies import ReclaimBody
from forewarn.control.views import Told
from forewarn.core.commands import ReclaimSpot
from forewarn.core.errors import BadInput, Unknown
from forewarn.core.facts import Entry

_TAGS = ("Operations",)


@reads("/operations/{id:str}", Action.READ_VMS, summary="Show an operation", tags=_TAGS)
async def show_operation(plane: Behind, bearer: Asking, id: FromPath[str]) -> Told:
    """Tell what a command made happen; its id is the UUID that its answer named."""
    try:
        whole = str(UUID(id))
    except ValueError:
        raise BadInput(f"{id!r} is no id of an operation; give the UUID that its answer named") from None
    entries = await plane.node.history(f"command:{whole}")
    facts = tuple(fact for entry in entries for fact in entry.facts)
    told = await plane.operations.tell(whole, facts)
    if not facts or not (bearer.sees_all or _is_its_own(told, entries, bearer)):
        raise Unknown(f"there is no operation {whole}, or the journal no longer tells of it")
    return told


def _is_its_own(told: Told, entries: Iterable[Entry], bearer: Bearer) -> bool:
    """Tell whether an owner gave that command; its name may have been another's once, so its groups count too."""
    own = (bearer.caller.kind, bearer.caller.name)
    is_by_itself = all((entry.by.kind, entry.by.name) == own for entry in entries)
    return is_by_itself and all(bearer.sees(each.group) for each in told.announcements)


@writes("/spot/reclaim", Action.RECLAIM, summary="Reclaim spot VMs", tags=_TAGS, body=ReclaimBody)
async def reclaim_spot(
    plane: Behind, bearer: Asking, data: JSONBody[ReclaimBody], key: IdempotencyKey = None
) -> Told:
    """Evict so many spot VMs, chosen fairly, or all of a host; each says why it was chosen."""
    id_ = plane.command_id(bearer, key, "reclaim", data)
    return await plane.operations.submit(ReclaimSpot(id=id_, by=bearer.caller, count=data.count, host=data.host))


operations = Router("/", route_handlers=[show_operation, reclaim_spot])
