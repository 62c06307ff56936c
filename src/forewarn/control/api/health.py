"""Health, metrics, and the caller's identity."""

from typing import Literal

from litestar import MediaType, Response, Router

from forewarn import __version__
from forewarn.control.api.context import ContextDependency, PrincipalDependency
from forewarn.control.api.routing import reads
from forewarn.control.bodies import CallerView, Health, HealthDetail
from forewarn.core.access import Action
from forewarn.core.errors import Unavailable


@reads("/v1/health/live", None, summary="Liveness")
async def live() -> Health:
    """Answer as long as the process runs; needs no token."""
    return Health(status="live")


@reads("/v1/health/ready", None, summary="Readiness")
async def ready(context: ContextDependency) -> Health:
    """Answer 200 if the journal can be read and written, else 503; needs no token.

    A node that follows another is ready while it is not behind.
    """
    if context.cluster and (view := context.cluster()).role != "leading":
        if view.is_behind:
            raise Unavailable(f"this node is behind: {view.summary}")
        return Health(status="ready", revision=context.node.replica.revision)
    await context.node.writer.confirm()
    if not context.node.writer.is_sound:
        raise Unavailable(f"the journal cannot be written: {context.node.writer.failure}")
    return Health(status="ready", revision=context.node.replica.revision)


@reads("/v1/health", Action.READ_HEALTH, summary="Warnings for an operator")
async def detail(context: ContextDependency) -> HealthDetail:
    """Return the status of the journal, and warnings for an operator; always 200."""
    node = context.node
    cluster = context.cluster() if context.cluster else None
    is_sound = not cluster.is_behind if cluster and cluster.role != "leading" else node.writer.is_sound
    status: Literal["ready", "unready"] = "ready" if is_sound else "unready"
    return HealthDetail(
        status=status,
        revision=node.replica.revision,
        warnings=tuple(node.warnings.values()),
        listeners=context.listeners() if context.listeners else None,
        workers=context.workers() if context.workers else None,
        cluster=cluster,
    )


@reads("/v1/me", Action.READ_ITSELF, summary="The caller's identity")
async def me(principal: PrincipalDependency) -> CallerView:
    """Return the caller's name, role and groups."""
    return CallerView(
        name=principal.caller.name,
        role=principal.role,
        groups=tuple(sorted(principal.groups)),
        origin=principal.caller.origin,
        expires_at=principal.expires_at,
        version=__version__,
    )


@reads("/metrics", Action.READ_METRICS, summary="Metrics", media_type=MediaType.TEXT)
async def metrics(context: ContextDependency) -> Response[bytes]:
    """Return the metrics in the Prometheus text format."""
    if context.metrics is None:
        raise Unavailable("this service has no metrics")
    return Response(context.metrics(), media_type="text/plain; version=0.0.4")


health = Router("/", tags=["Service"], route_handlers=[live, ready, detail, me, metrics])
