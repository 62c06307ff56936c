"""Delivery status of a subscription."""

from datetime import datetime
from enum import StrEnum

import msgspec


class DeliveryState(StrEnum):
    """Delivery state of a subscription."""

    HEALTHY = "healthy"
    PARKED = "parked"
    """The receiver is down or refuses; deliveries are retried, and nothing is lost."""
    GONE = "gone"
    """The receiver answered 410 Gone; it is not tried again until a test notification is delivered."""


class DeliveryStatus(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Delivery status of one subscription."""

    state: DeliveryState = DeliveryState.HEALTHY
    waiting: int = 0
    """Number of pending notifications."""
    since: datetime | None = None
    """Since when deliveries fail."""
    next_try_at: datetime | None = None
    last_error: str = ""
    refused: int = 0
    """Number of pending notifications that the receiver refuses, while it accepts others."""
    missed: int = 0
    """Number of revisions that were never delivered: no longer in the journal, or refused for long."""
