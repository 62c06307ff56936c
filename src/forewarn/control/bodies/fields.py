"""Types of fields that bodies share, pages of lists, and the body of a refusal."""

from datetime import datetime
from typing import Annotated, Generic, TypeVar

import msgspec
from msgspec import Meta

from forewarn.core.label_selectors import LONGEST_SELECTOR
from forewarn.core.terms import LONGEST_IMPACT, LONGEST_LINE, LONGEST_POSTPONEMENT, MOST_VMS, ONE_LINE
from forewarn.wire.azure_names import TYPES

_Item = TypeVar("_Item")
MOST_AT_ONCE = 1_000
"""VMs, hosts or events that one request operates on: it is decided in one step."""
_ONE_LINE = rf"^{ONE_LINE}*$(?!\n)"
"""In Python, ``$`` alone also matches before a line feed at the end."""
Instant = Annotated[datetime, Meta(tz=True, description="A time with its zone, such as 2026-01-31T14:32:00Z.")]
Seconds = Annotated[int, Meta(ge=1, le=LONGEST_POSTPONEMENT, description="Whole seconds.")]
OneLine = Annotated[str, Meta(max_length=LONGEST_LINE, pattern=_ONE_LINE, description="One line of text.")]
Name = Annotated[str, Meta(min_length=1, max_length=LONGEST_LINE, pattern=_ONE_LINE)]
ImpactSeconds = Annotated[
    int, Meta(ge=-1, le=LONGEST_IMPACT, description="Seconds of interruption to announce; -1: not known.")
]
TypeName = Annotated[
    str, Meta(extra_json_schema={"enum": [*TYPES.values()]}, description="An event type, in any case.")
]
LabelText = Annotated[str, Meta(min_length=1, max_length=LONGEST_SELECTOR)]
Count = Annotated[int, Meta(ge=1, le=MOST_VMS)]


class ApiBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A request body."""


Names = Annotated[tuple[Name, ...], Meta(max_length=MOST_AT_ONCE)]


class ResultPage(msgspec.Struct, Generic[_Item], frozen=True):
    """A page of a list."""

    items: tuple[_Item, ...]
    next: str | None = None
    """Cursor of the next page; null on the last."""


class FieldError(msgspec.Struct, frozen=True):
    """An invalid value and its place."""

    place: str
    detail: str


class ProblemDetails(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a request was refused, and the remedy (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    errors: tuple[FieldError, ...] = ()
