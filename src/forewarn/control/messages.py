"""What is said over the control socket: one JSON object per line, in both directions.

    operator's line                              service's lines
    {"call": "vms"}                              {"part": [...]}  any number of times
                                                 {"ok": ...}  or  {"error": {"kind": ..., "message": ...}}
    {"call": "more", "vms": [...], ...}          (nothing; it is put to the change that is submitted next)
    {"call": "submit", "command": {...}}         {"ok": ...}  or  {"error": ...}

Neither side ever holds a large answer or a large change as one line, so neither is held up by one.
"""

import msgspec

from forewarn.control.difference import Difference
from forewarn.core.errors import BadInput, ForewarnError, LimitReached, Refused, Unavailable, Unknown

LONGEST_LINE = 64 * 1024 * 1024
SLICE = 500
"""How many records one line holds."""


class Call(msgspec.Struct, frozen=True, tag_field="call", forbid_unknown_fields=True, omit_defaults=True):
    """One thing an operator asks for."""


class More(Call, frozen=True, tag="more"):
    """A slice of a change that is too large for one line."""

    change: Difference


class Submit(Call, frozen=True, tag="submit"):
    """Carry out a command; who asks is found out from the socket, not believed."""

    command: msgspec.Raw


class Vms(Call, frozen=True, tag="vms"):
    """List all VMs."""


class OneVm(Call, frozen=True, tag="vm"):
    """Show a VM."""

    name: str


class Hosts(Call, frozen=True, tag="hosts"):
    """List all hosts."""


class Groups(Call, frozen=True, tag="groups"):
    """List all groups."""


class OneGroup(Call, frozen=True, tag="group"):
    """Show a group."""

    name: str


class Events(Call, frozen=True, tag="events"):
    """List the unfinished events, and the newest so many finished ones."""

    finished: int = 0


class OneEvent(Call, frozen=True, tag="event"):
    """Tell the story of an event; its id may be shortened, and ``last`` is the one announced last."""

    id: str


class DeclaredFleet(Call, frozen=True, tag="declared"):
    """Hand out what is declared, for a difference to be computed; of one VM only when it is named."""

    vm: str = ""


AnyCall = More | Submit | Vms | OneVm | Hosts | Groups | OneGroup | Events | OneEvent | DeclaredFleet


class ErrorView(msgspec.Struct, frozen=True):
    """Why a call was not answered."""

    kind: str
    message: str


class Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of an answer."""

    part: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    ok: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    error: ErrorView | None = None


KINDS: dict[str, type[ForewarnError]] = {
    "limit": LimitReached,
    "unknown": Unknown,
    "refused": Refused,
    "bad-input": BadInput,
    "unavailable": Unavailable,
}
"""What an error is called on the socket; the first that fits counts."""


def show_error(error: ForewarnError) -> ErrorView:
    kind = next((kind for kind, family in KINDS.items() if isinstance(error, family)), "unavailable")
    return ErrorView(kind, str(error))


def read_error(view: ErrorView) -> ForewarnError:
    return KINDS.get(view.kind, Unavailable)(view.message)
