"""Changes: committed facts as server-sent events."""

from collections.abc import AsyncIterator
from typing import Annotated

from litestar import Response, Router
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import HeaderParameter, QueryParameter
from litestar.response import Stream

from forewarn.control.api.context import ContextDependency, PrincipalDependency
from forewarn.control.api.routing import reads
from forewarn.control.server.change_stream import PositionTooOld
from forewarn.core.access import Action

_MEDIA_TYPE = "text/event-stream"
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_LastEventId = Annotated[
    str | None,
    HeaderParameter(name="Last-Event-ID", max_length=40, description="The id of the last change received."),
]
_GONE = ResponseSpec(
    str,
    generate_examples=False,
    description="The following changes are no longer kept: one `reset` event, after which to read everything again.",
    media_type=_MEDIA_TYPE,
)
_After = Annotated[
    str | None, QueryParameter(max_length=40, description="As Last-Event-ID, for clients without headers.")
]

_Beats = Annotated[
    bool,
    QueryParameter(
        description="Send an event `beat` after 15 seconds without a change, for clients that cannot see the comment"
        " that is sent otherwise, such as scripts in a browser."
    ),
]


@reads("/", Action.READ_VMS, summary="Listen to changes", media_type=_MEDIA_TYPE, also={410: _GONE})
async def listen(
    context: ContextDependency,
    principal: PrincipalDependency,
    last_event_id: _LastEventId = None,
    after: _After = None,
    *,
    beats: _Beats = False,
) -> Stream | Response[str]:
    """Stream every fact as it is committed, from now on or after the last one received."""
    try:
        position = last_event_id or after or ""
        changes: AsyncIterator[bytes] = await context.changes.listen(principal, position, beats=beats)
    except PositionTooOld as old:
        return Response(old.message().decode(), status_code=410, media_type=_MEDIA_TYPE, headers=_HEADERS)
    return Stream(changes, media_type=_MEDIA_TYPE, headers=_HEADERS)


changes = Router("/changes", tags=["Changes"], route_handlers=[listen])
