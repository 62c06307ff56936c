"""Health, metrics, and who the caller is."""

from typing import Literal

from litestar import MediaType, Response, Router

from forewarn import __version__
from forewarn.control.access import Action
from forewarn.control.api.plane import Asking, Behind
from forewarn.control.api.routing import reads
from forewarn.control.bodies import Health, HealthDetail, Self
from forewarn.core.errors import Unavailable

_TAGS = ("Service",)


@reads("/v1/health/live", None, summary="Whether it runs", tags=_TAGS)
async def live() -> Health:
    """Answer as long as the process runs; needs no token."""
    return Health(status="live")


@reads("/v1/health/ready", None, summary="Whether it can do its work", tags=_TAGS)
async def ready(plane: Behind) -> Health:
    """Answer 200 when the journal can be read and written, else 503; needs no token."""
    await plane.node.look(lambda fleet: fleet.changes)
    if not plane.node.is_sound:
        raise Unavailable(f"the journal cannot be written: {plane.node.failure}")
    return Health(status="ready", revision=plane.node.revision)


@reads("/v1/health", Action.READ_HEALTH, summary="What needs an operator", tags=_TAGS)
async def detail(plane: Behind) -> HealthDetail:
    """Tell whether the journal can be read and written, and list what needs an operator; always 200."""
    node = plane.node
    status: Literal["ready", "unready"] = "ready" if node.is_sound else "unready"
    return HealthDetail(
        status=status,
        revision=node.revision,
        warnings=tuple(node.warnings.values()),
        listeners=plane.listeners() if plane.listeners else None,
    )


@reads("/v1/me", Action.READ_ITSELF, summary="Who you are", tags=_TAGS)
async def me(bearer: Asking) -> Self:
    """Tell the caller who it is to the service, and what it may see."""
    return Self(
        name=bearer.caller.name,
        role=bearer.role,
        groups=tuple(sorted(bearer.groups)),
        origin=bearer.caller.origin,
        expires_at=bearer.expires_at,
        version=__version__,
    )


@reads("/metrics", Action.READ_METRICS, summary="Metrics", tags=_TAGS, media_type=MediaType.TEXT)
async def metrics(plane: Behind) -> Response[bytes]:
    """Tell what was counted, as Prometheus reads it."""
    if plane.metrics is None:
        raise Unavailable("this service counts nothing")
    return Response(plane.metrics(), media_type="text/plain; version=0.0.4")


health = Router("/", route_handlers=[live, ready, detail, me, metrics])
