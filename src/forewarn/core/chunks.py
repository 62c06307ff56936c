"""A fleet in chunks, for snapshots: no second copy of the whole is needed in memory."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import islice
from typing import TypeVar

import msgspec

from forewarn.core.declared_keys import HeldChange, RecordName
from forewarn.core.facts import ClockStepped
from forewarn.core.model import (
    Event,
    Eviction,
    Group,
    GroupTerms,
    Host,
    HostState,
    PowerRequest,
    Subscription,
    Token,
    Vm,
)
from forewarn.core.rollouts.model import HostRun, Rollout

CHUNK_SIZE = 10_000
_Record = TypeVar("_Record")


class DeclarationHead(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The identity of the declaration last applied."""

    revision: int = 0
    digest: str = ""
    source: str = ""


class FleetChunk(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One chunk."""

    hosts: tuple[Host, ...] = ()
    groups: tuple[Group, ...] = ()
    vms: tuple[Vm, ...] = ()
    events: tuple[Event, ...] = ()
    tokens: tuple[Token, ...] = ()
    subscriptions: tuple[Subscription, ...] = ()
    last_at: datetime | None = None
    clock_step: ClockStepped | None = None
    changes: int = 0
    retired_incarnation: int = 0
    host_states: dict[str, HostState] = {}
    cordoned: tuple[str, ...] = ()
    power_requests: tuple[PowerRequest, ...] = ()
    crashed: tuple[str, ...] = ()
    evictions: tuple[Eviction, ...] = ()
    rollouts: tuple[Rollout, ...] = ()
    rollout_hosts: tuple[HostRun, ...] = ()
    declaration: DeclarationHead | None = None
    """None for a fleet of an earlier release, which recorded no declaration."""
    undeclared: tuple[RecordName, ...] = ()
    """Records of the fleet that are not declared."""
    declared_hosts: tuple[Host, ...] = ()
    declared_groups: tuple[GroupTerms, ...] = ()
    declared_vms: tuple[Vm, ...] = ()
    """Declared records that differ from the fleet."""
    held: tuple[HeldChange, ...] = ()


def chunks_of(records: Iterable[_Record], size: int = CHUNK_SIZE) -> Iterator[tuple[_Record, ...]]:
    """Yield the records in slices of some thousands."""
    rest = iter(records)
    while piece := tuple(islice(rest, size)):
        yield piece
