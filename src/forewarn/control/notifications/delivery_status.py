"""How it stands with a subscriber, as an operator is shown it."""

from datetime import datetime
from enum import StrEnum

import msgspec


class DeliveryState(StrEnum):
    """Whether messages get through."""

    HEALTHY = "healthy"
    PARKED = "parked"
    """The receiver is down or refuses; it is tried again and again, and nothing is lost."""
    GONE = "gone"
    """The receiver answered 410 Gone; it is not tried any more until a test message gets through."""


class DeliveryStatus(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How it stands with a subscriber."""

    state: DeliveryState = DeliveryState.HEALTHY
    waiting: int = 0
    """How many messages wait for it."""
    since: datetime | None = None
    """Since when nothing gets through."""
    next_try_at: datetime | None = None
    last_error: str = ""
    refused: int = 0
    """How many of those that wait the receiver refuses, though it takes others."""
    missed: int = 0
    """How many revisions it was never told of: the journal no longer held them, or it refused them for long."""
