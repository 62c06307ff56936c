"""Groups: what they are, their terms, and scaling a scale set in."""

from litestar import Router, patch
from litestar.params import FromPath, FromQuery, JSONBody
from msgspec import UNSET, structs

from forewarn.control import views
from forewarn.control.access import Action, Bearer
from forewarn.control.api.idempotency import IdempotencyKey
from forewarn.control.api.paging import Cursor, Limit, after, page, read_cursor
from forewarn.control.api.plane import Asking, Behind, Plane
from forewarn.control.api.routing import reads, writes
from forewarn.control.bodies import Page, ScaleInBody, TermsBody
from forewarn.core.commands import ScaleIn, SetGroup
from forewarn.core.fleet import Fleet
from forewarn.core.model import Group, GroupKind

_TAGS = ("Groups",)


@reads("/", Action.READ_VMS, summary="List groups", tags=_TAGS)
async def list_groups(
    plane: Behind,
    bearer: Asking,
    limit: Limit = 100,
    cursor: Cursor = None,
    kind: FromQuery[GroupKind | None] = None,
) -> Page[views.GroupView]:
    """List the groups by name; of one kind."""
    key = read_cursor(cursor)
    names = await plane.names.after("groups", key) if bearer.sees_all else after(bearer.groups, key)

    idle_after = plane.node.rules.idle_after

    def look(fleet: Fleet) -> Page[views.GroupView]:
        def find(name: str) -> Group | None:
            group = fleet.groups.get(name)
            return group if group is not None and kind in (None, group.terms.kind) else None

        found = ((name, find(name)) for name in names)
        return page(found, limit, lambda group: views.view_group(fleet, group, plane.last_asked, idle_after))

    return await plane.node.look(look)


@reads("/{name:str}", Action.READ_VMS, summary="Show a group", tags=_TAGS)
async def show_group(plane: Behind, bearer: Asking, name: FromPath[str]) -> views.GroupDetail:
    """Tell a group's terms, its enrolment, its VMs and what is coming to them."""
    return await _detail(plane, bearer, name)


@writes(
    "/{name:str}",
    Action.SET_TERMS,
    summary="Set a group's terms",
    tags=_TAGS,
    body=TermsBody,
    method=patch,
)
async def set_terms(
    plane: Behind, bearer: Asking, name: FromPath[str], data: JSONBody[TermsBody], key: IdempotencyKey = None
) -> views.GroupDetail:
    """Change whose approval counts, what is approved automatically, postponement, quiet hours, and the rest."""
    await plane.node.look(lambda fleet: bearer.group(fleet, name))
    command = SetGroup(id=plane.command_id(bearer, key, f"group {name}", data), by=bearer.caller, group=name)
    given = {term: value for term, value in structs.asdict(data).items() if value is not UNSET}
    await plane.node.submit_once(structs.replace(command, **given))
    return await _detail(plane, bearer, name)


@writes("/{name:str}/scale-in", Action.DELETE, summary="Scale a group in", tags=_TAGS, body=ScaleInBody)
async def scale_in(
    plane: Behind, bearer: Asking, name: FromPath[str], data: JSONBody[ScaleInBody], key: IdempotencyKey = None
) -> views.Told:
    """Delete so many VMs of a scale set, so that the rest stays spread evenly; each says why it was chosen."""
    await plane.node.look(lambda fleet: bearer.group(fleet, name))
    id_ = plane.command_id(bearer, key, f"scale-in {name}", data)
    return await plane.operations.submit(ScaleIn(id=id_, by=bearer.caller, group=name, count=data.count))


async def _detail(plane: Plane, bearer: Bearer, name: str) -> views.GroupDetail:
    idle_after = plane.node.rules.idle_after
    return await plane.node.look(
        lambda fleet: views.detail_group(fleet, bearer.group(fleet, name), plane.last_asked, idle_after)
    )


groups = Router("/groups", route_handlers=[list_groups, show_group, set_terms, scale_in])
