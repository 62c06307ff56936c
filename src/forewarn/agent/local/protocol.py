"""The protocol of the local socket: one JSON object per line in both directions.

    program: {"subscribe": true}                                    agent: {"ok": true}
             {"hold": {"name": "database", "within": "120s"}}              {"ok": true, "held": ["F020…"]}
             {"ready": "F020…", "name": "database"}                        {"ok": true, "held": ["F020…"]}
             {"status": true}                                              {"status": {…}}
             anything else                                                 {"error": "a sentence"}

To subscribers, between replies:  {"change": "new", "event": {"EventId": …}, "concerns_me": true}
"""

from typing import Literal

import msgspec

from forewarn.agent.observation.status import AgentStatus
from forewarn.core.errors import BadInput
from forewarn.wire.event_json import EventJson

LONGEST_LINE = 64 * 1024


class HoldRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Name of the holder, duration of each hold, and event types (all if empty)."""

    name: str
    within: str
    types: tuple[str, ...] = ()


class LocalRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A request of a program; on a port the first one carries the token."""

    token: str = ""
    subscribe: bool = False
    hold: HoldRequest | None = None
    ready: str = ""
    name: str = ""
    """With ``ready``: the name of the holder."""
    status: bool = False


class LocalSuccess(msgspec.Struct, frozen=True, omit_defaults=True):
    """The request succeeded."""

    ok: Literal[True]
    held: tuple[str, ...] | None = None
    """The ids of the events that the holder holds or held."""


class LocalProblem(msgspec.Struct, frozen=True):
    """The request failed."""

    error: str


class StatusReply(msgspec.Struct, frozen=True):
    """Reply to a status request."""

    status: AgentStatus


class ChangeLine(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A change of an event."""

    change: str
    """new, changed, started or gone."""
    ending: str = ""
    """With ``gone``: completed, canceled or unknown."""
    event: EventJson
    """The event as it is now, or was last."""
    concerns_me: bool = msgspec.field()
    present: bool = False
    """Whether the event was present when the program subscribed."""


_requests = msgspec.json.Decoder(LocalRequest)
_encoder = msgspec.json.Encoder()


def read_request(line: bytes) -> LocalRequest:
    """Return a request; raise BadInput with what is wrong."""
    try:
        request = _requests.decode(line)
    except msgspec.ValidationError as error:
        said = str(error)
        raise BadInput(f"invalid request: {said[0].lower()}{said[1:]}") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise BadInput("invalid request: expected one JSON object per line") from None
    given = (request.subscribe, request.hold is not None, bool(request.ready), request.status)
    if sum(given) > 1:
        raise BadInput("the request has several of subscribe, hold, ready and status; send one per line")
    if not any(given) and not request.token:
        raise BadInput("the request is empty; send subscribe, hold, ready or status")
    return request


def write_line(record: msgspec.Struct) -> bytes:
    return _encoder.encode(record) + b"\n"
