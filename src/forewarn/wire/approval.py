"""The body of an approval: the ids of the events that may start before their time."""

from collections.abc import Iterable

import msgspec

from forewarn.wire.bodies import read_body
from forewarn.wire.words import read_id, show_id


class _StartRequest(msgspec.Struct, rename="pascal"):
    event_id: str


class _Approval(msgspec.Struct, rename="pascal"):
    """Keys count as they are documented, case included: taking others would hide a client's mistake.

    Azure: clients once sent DocumentIncarnation too, as text or number; like any other key it means nothing.
    """

    start_requests: tuple[_StartRequest, ...]


_decoder = msgspec.json.Decoder(_Approval)


def parse(body: bytes) -> tuple[str, ...]:
    """Return the ids it holds, each once, lower case, in the order given; raise BadBody if it is no approval.

    An id that is no GUID is handed on like any other: it names no event, which is for the caller to say.
    """
    approval = read_body(_decoder, body, "approval")
    return tuple(dict.fromkeys(read_id(request.event_id) for request in approval.start_requests))


def encode(events: Iterable[str]) -> bytes:
    """Write the body that approves the events with these ids."""
    return msgspec.json.encode(_Approval(tuple(_StartRequest(show_id(event)) for event in events)))
