"""A fleet in pieces, small enough to be written and read without holding the whole twice."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import islice
from typing import TypeVar

import msgspec

from forewarn.core.model import Event, Group, Host, Vm
from forewarn.core.outsiders import Subscription, Token

_PIECE = 10_000
_Record = TypeVar("_Record")


class Part(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One piece."""

    hosts: tuple[Host, ...] = ()
    groups: tuple[Group, ...] = ()
    vms: tuple[Vm, ...] = ()
    events: tuple[Event, ...] = ()
    tokens: tuple[Token, ...] = ()
    subscriptions: tuple[Subscription, ...] = ()
    last_at: datetime | None = None
    changes: int = 0
    retired_incarnation: int = 0


def pieces_of(records: Iterable[_Record]) -> Iterator[tuple[_Record, ...]]:
    """Yield the records, some thousands at a time."""
    rest = iter(records)
    while piece := tuple(islice(rest, _PIECE)):
        yield piece
