"""The body of an approval: the events that may start before their time, and those that should come later.

Beyond Azure: ``PostponeRequests`` ask for more time, where the group's policy allows it.
"""

from collections.abc import Iterable

import msgspec
from msgspec import UNSET, UnsetType

from forewarn.core.commands import Postponement
from forewarn.wire.azure_names import read_id
from forewarn.wire.bodies import BadBody, read_body


class _StartRequest(msgspec.Struct, rename="pascal"):
    event_id: str


class _PostponeRequest(msgspec.Struct, rename="pascal", omit_defaults=True):
    event_id: str
    seconds: int
    reason: str = ""


class _ApprovalBody(msgspec.Struct, rename="pascal"):
    """Keys count as they are documented, case included: taking others would hide a client's mistake.

    Azure: clients once sent DocumentIncarnation too, as text or number; like any other key it means nothing.
    """

    start_requests: tuple[_StartRequest, ...] | UnsetType = UNSET
    postpone_requests: tuple[_PostponeRequest, ...] | UnsetType = UNSET


class Approval(msgspec.Struct, frozen=True):
    """What a VM says of its events. Ids are in lower case."""

    events: tuple[str, ...] = ()
    """The events that may start, each once."""
    postponements: tuple[Postponement, ...] = ()


_decoder = msgspec.json.Decoder(_ApprovalBody)


def parse(body: bytes) -> Approval:
    """Read an approval; raise BadBody if it is none.

    An id that is no GUID is handed on like any other: it names no event, which is for the caller to say.
    """
    approval = read_body(_decoder, body, "approval")
    if approval.start_requests is UNSET and approval.postpone_requests is UNSET:
        raise BadBody("the approval cannot be read: it has no StartRequests")
    starts = approval.start_requests or ()
    postpones = approval.postpone_requests or ()
    return Approval(
        tuple(dict.fromkeys(read_id(request.event_id) for request in starts)),
        tuple(Postponement(read_id(each.event_id), each.seconds, each.reason) for each in postpones),
    )


def encode(events: Iterable[str], postponements: Iterable[Postponement] = ()) -> bytes:
    """Write the body that approves events and asks for more time for others; ids are written as they are given."""
    starts = tuple(map(_StartRequest, events))
    postpones = tuple(_PostponeRequest(each.event, each.seconds, each.reason) for each in postponements)
    return msgspec.json.encode(_ApprovalBody(starts, postpones or UNSET))
