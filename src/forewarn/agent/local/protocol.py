"""What programs and the agent say to each other on the local socket: one JSON object in each line, both ways.

    program: {"subscribe": true}                                    agent: {"ok": true}
             {"hold": {"name": "database", "within": "120s"}}              {"ok": true, "held": ["F020…"]}
             {"ready": "F020…", "name": "database"}                        {"ok": true, "held": ["F020…"]}
             {"status": true}                                              {"status": {…}}
             anything else                                                 {"error": "a sentence"}

To subscribers, between answers:  {"change": "new", "event": {"EventId": …}, "concerns_me": true}
"""

from typing import Literal

import msgspec

from forewarn.agent.observation.status import AgentStatus
from forewarn.core.errors import BadInput
from forewarn.wire.event_json import EventJson

LONGEST_LINE = 64 * 1024


class HoldRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who wants approvals to wait for it, for how long, and for which types of events (all where none is named)."""

    name: str
    within: str
    types: tuple[str, ...] = ()


class LocalRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A line of a program: one wish, and on a port the token in the first line."""

    token: str = ""
    subscribe: bool = False
    hold: HoldRequest | None = None
    ready: str = ""
    name: str = ""
    """With ``ready``: as whom."""
    status: bool = False


class LocalSuccess(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was asked for is done."""

    ok: Literal[True]
    held: tuple[str, ...] | None = None
    """The ids of the events that are, or were, held."""


class LocalProblem(msgspec.Struct, frozen=True):
    """What was asked for cannot be done."""

    error: str


class StatusReply(msgspec.Struct, frozen=True):
    """How the agent stands."""

    status: AgentStatus


class ChangeLine(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What happened to an event."""

    change: str
    """new, changed, started or gone."""
    ending: str = ""
    """Of what is gone: completed, canceled or unknown."""
    event: EventJson
    """As it is now, or was when it was seen last."""
    concerns_me: bool = msgspec.field()
    present: bool = False
    """Whether it was there already when the program subscribed."""


_requests = msgspec.json.Decoder(LocalRequest)
_encoder = msgspec.json.Encoder()


def read_request(line: bytes) -> LocalRequest:
    """Return what a program asks for; raise BadInput that says what is wrong with it."""
    try:
        request = _requests.decode(line)
    except msgspec.ValidationError as error:
        said = str(error)
        raise BadInput(f"this cannot be understood: {said[0].lower()}{said[1:]}") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise BadInput("this is no JSON object in one line") from None
    wishes = (request.subscribe, request.hold is not None, bool(request.ready), request.status)
    if sum(wishes) > 1:
        raise BadInput("this asks for several things; ask for one in each line")
    if not any(wishes) and not request.token:
        raise BadInput("this asks for nothing; ask for subscribe, hold, ready or status")
    return request


def write_line(record: msgspec.Struct) -> bytes:
    return _encoder.encode(record) + b"\n"
