"""Health, metrics, and who the caller is."""

from typing import Literal

from litestar import MediaType, Response, Router

from forewarn import __version__
from forewarn.control.api.context import ContextDependency, PrincipalDependency
from forewarn.control.api.routing import reads
from forewarn.control.bodies import CallerView, Health, HealthDetail
from forewarn.core.access import Action
from forewarn.core.errors import Unavailable

_TAGS = ("Service",)


@reads("/v1/health/live", None, summary="Whether it runs", tags=_TAGS)
async def live() -> Health:
    """Answer as long as the process runs; needs no token."""
    return Health(status="live")


@reads("/v1/health/ready", None, summary="Whether it can do its work", tags=_TAGS)
async def ready(context: ContextDependency) -> Health:
    """Answer 200 when the journal can be read and written, else 503; needs no token."""
    await context.node.look(lambda fleet: fleet.changes)
    if not context.node.is_sound:
        raise Unavailable(f"the journal cannot be written: {context.node.failure}")
    return Health(status="ready", revision=context.node.revision)


@reads("/v1/health", Action.READ_HEALTH, summary="What needs an operator", tags=_TAGS)
async def detail(context: ContextDependency) -> HealthDetail:
    """Tell whether the journal can be read and written, and list what needs an operator; always 200."""
    node = context.node
    status: Literal["ready", "unready"] = "ready" if node.is_sound else "unready"
    return HealthDetail(
        status=status,
        revision=node.revision,
        warnings=tuple(node.warnings.values()),
        listeners=context.listeners() if context.listeners else None,
    )


@reads("/v1/me", Action.READ_ITSELF, summary="Who you are", tags=_TAGS)
async def me(principal: PrincipalDependency) -> CallerView:
    """Tell the caller who it is to the service, and what it may see."""
    return CallerView(
        name=principal.caller.name,
        role=principal.role,
        groups=tuple(sorted(principal.groups)),
        origin=principal.caller.origin,
        expires_at=principal.expires_at,
        version=__version__,
    )


@reads("/metrics", Action.READ_METRICS, summary="Metrics", tags=_TAGS, media_type=MediaType.TEXT)
async def metrics(context: ContextDependency) -> Response[bytes]:
    """Tell what was counted, as Prometheus reads it."""
    if context.metrics is None:
        raise Unavailable("this service counts nothing")
    return Response(context.metrics(), media_type="text/plain; version=0.0.4")


health = Router("/", route_handlers=[live, ready, detail, me, metrics])
