"""Groups: list, show, set terms, and scale in a scale set."""

from collections.abc import Iterator, Mapping
from typing import Any

from litestar import Router, delete, patch
from litestar.params import FromPath, FromQuery, JSONBody
from msgspec import UNSET, structs

from forewarn.control import views
from forewarn.control.api.context import ApiContext, ContextDependency, PrincipalDependency
from forewarn.control.api.idempotency import IdempotencyKey
from forewarn.control.api.paging import Cursor, Limit, make_page, names_after, read_cursor
from forewarn.control.api.routing import reads, writes
from forewarn.control.bodies import NewGroupBody, ResultPage, ScaleInBody, TermsBody
from forewarn.core.access import Action, Principal
from forewarn.core.commands import ChangeFleet, ScaleIn, SetGroup
from forewarn.core.errors import Unknown
from forewarn.core.facts import Entry, FleetChanged, GroupSet
from forewarn.core.fleet import Fleet
from forewarn.core.model import Group, GroupKind, GroupTerms
from forewarn.core.subjects import subject_of_group


@reads("/", Action.READ_VMS, summary="List groups", asks_leader=True)
async def list_groups(
    context: ContextDependency,
    principal: PrincipalDependency,
    limit: Limit = 100,
    cursor: Cursor = None,
    kind: FromQuery[GroupKind | None] = None,
) -> ResultPage[views.GroupView]:
    """List the groups by name; optionally of one kind."""
    key = read_cursor(cursor)
    names = await context.names.after("groups", key) if principal.sees_all else names_after(principal.groups, key)
    fleet, idle_after = context.fleet, context.node.writer.rules.idle_after

    def find(name: str) -> Group | None:
        group = fleet.groups.get(name)
        return group if group is not None and kind in (None, group.terms.kind) else None

    found = ((name, find(name)) for name in names)
    return make_page(found, limit, lambda group: views.view_group(fleet, group, context.last_asked, idle_after))


@reads("/{name:str}", Action.READ_VMS, summary="Show a group", asks_leader=True)
async def show_group(
    context: ContextDependency, principal: PrincipalDependency, name: FromPath[str]
) -> views.GroupDetail:
    """Return a group's terms, enrolment, VMs and upcoming events."""
    return _detail(context, principal, name)


async def _detail_again(context: ApiContext, given: Mapping[str, Any], entry: Entry) -> views.GroupDetail:
    """Return the current group; a removed one with its last terms."""
    name = given["name"]
    if name in context.fleet.groups:
        return _detail(context, given["principal"], name)
    known = await context.node.replica.history(subject_of_group(name))
    terms = [each for old in known if old.revision <= entry.revision for each in _terms_in(old) if each.name == name]
    if not terms:
        raise Unknown(f"group {name!r} was removed, and the journal no longer contains its terms")
    return views.detail_group(Fleet(), Group(terms[-1]), context.last_asked, context.node.writer.rules.idle_after)


def _terms_in(entry: Entry) -> Iterator[GroupTerms]:
    for fact in entry.facts:
        match fact:
            case GroupSet(terms=terms):
                yield terms
            case FleetChanged(groups=groups):
                yield from groups


@writes("/{name:str}", Action.SET_TERMS, summary="Set a group's terms", method=patch, replay=_detail_again)
async def set_terms(
    context: ContextDependency,
    principal: PrincipalDependency,
    name: FromPath[str],
    data: JSONBody[TermsBody],
    key: IdempotencyKey,
) -> views.GroupDetail:
    """Set terms of a group: approval rule, automatic approvals, postponement, quiet hours and others."""
    principal.group(context.fleet, name)
    given = {term: value for term, value in structs.asdict(data).items() if value is not UNSET}
    await context.operations.record(SetGroup(id=key.id, by=principal.caller, group=name, **given), key)
    return _detail(context, principal, name)


@writes("/{name:str}/scale-in", Action.DELETE, summary="Scale a group in")
async def scale_in(
    context: ContextDependency,
    principal: PrincipalDependency,
    name: FromPath[str],
    data: JSONBody[ScaleInBody],
    key: IdempotencyKey,
) -> views.CommandResult:
    """Delete a number of VMs of a scale set, so that the rest stays spread evenly; each has its reason."""
    principal.group(context.fleet, name)
    command = ScaleIn(id=key.id, by=principal.caller, group=name, count=data.count)
    return await context.operations.submit(command, key)


def _detail(context: ApiContext, principal: Principal, name: str) -> views.GroupDetail:
    idle_after = context.node.writer.rules.idle_after
    return views.detail_group(context.fleet, principal.group(context.fleet, name), context.last_asked, idle_after)


@writes("/", Action.CHANGE_FLEET, summary="Add a group")
async def add_group(
    context: ContextDependency, data: JSONBody[NewGroupBody], key: IdempotencyKey
) -> views.CommandResult:
    """Add a group without VMs; refused if there is one of that name."""
    command = ChangeFleet(id=key.id, by=key.by, groups=(data.terms(),), only_new=True)
    return await context.operations.submit(command, key)


@writes("/{name:str}", Action.CHANGE_FLEET, summary="Remove a group", method=delete, status_code=200)
async def remove_group(context: ContextDependency, name: FromPath[str], key: IdempotencyKey) -> views.CommandResult:
    """Remove a group; refused while it has VMs."""
    command = ChangeFleet(id=key.id, by=key.by, removed_groups=(name,))
    return await context.operations.submit(command, key)


groups = Router(
    "/groups", tags=["Groups"], route_handlers=[list_groups, show_group, set_terms, scale_in, add_group, remove_group]
)
