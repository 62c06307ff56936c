"""Bodies about tokens, the caller, links to the dashboard, and subscriptions."""

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from forewarn.control.bodies.fields import ApiBody, Name, TypeName
from forewarn.core.model import Role, SubscriptionKind

LONGEST_OVERLAP = 30 * 24 * 3600
"""Seconds for which the old secret of a token can stay valid."""
MOST_GROUPS = 1_000
"""Groups of one token or subscription."""


class TokenBody(ApiBody, frozen=True, kw_only=True):
    """A token to be created."""

    name: Name
    role: Role
    groups: Annotated[tuple[Name, ...], Meta(max_length=MOST_GROUPS)] = ()
    """The groups of an owner; other roles have none."""
    lasts: Annotated[int, Meta(ge=1, le=100 * 365 * 24 * 3600)] | None = None
    """Seconds until it expires; unlimited if omitted."""


class SubscriptionBody(ApiBody, frozen=True, kw_only=True):
    """A subscription to be added."""

    name: Name
    kind: SubscriptionKind
    target: Annotated[str, Meta(min_length=1, max_length=2_000)]
    """A URL; for mail an address."""
    groups: Annotated[tuple[Name, ...], Meta(max_length=MOST_GROUPS)] = ()
    types: Annotated[tuple[TypeName, ...], Meta(max_length=10)] = ()
    secret: Annotated[str, Meta(max_length=200)] = ""
    """Signing secret of a webhook; generated if omitted."""


class TokenView(msgspec.Struct, frozen=True, kw_only=True):
    """A token without its secret."""

    id: str
    name: str
    role: Role
    groups: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None
    is_expired: bool
    previous_until: datetime | None = None
    """Until when the secret before the last rotation is valid, too."""
    missing_groups: tuple[str, ...] = ()
    """Groups that it names and that do not exist; a group created with such a name later belongs to it."""


class NewToken(TokenView, frozen=True, kw_only=True):
    """A token that was just created."""

    token: str
    """The secret token. It is returned once and not stored."""


class SubscriptionView(msgspec.Struct, frozen=True, kw_only=True):
    """A subscription and its delivery status."""

    id: str
    name: str
    kind: SubscriptionKind
    target: str
    """Its mail address, or the host of its URL: the rest of a URL may be secret."""
    groups: tuple[str, ...]
    types: tuple[str, ...]
    delivered_revision: int = msgspec.field(name="told")
    """The last revision that was delivered."""
    state: str = ""
    """Delivery state; empty while unknown."""
    waiting: int = 0
    """Number of pending notifications."""
    since: datetime | None = None
    """Since when deliveries fail."""
    next_try_at: datetime | None = None
    last_error: str = ""
    """Why deliveries fail."""
    refused: int = 0
    """Number of pending notifications that the receiver refuses, while it accepts others."""
    missed: int = 0
    """Number of revisions that were never delivered: no longer in the journal, or refused for a day."""


class NewSubscription(SubscriptionView, frozen=True, kw_only=True):
    """A subscription that was just added."""

    secret: str
    """The signing secret; it is returned once."""


class CallerView(msgspec.Struct, frozen=True, kw_only=True):
    """The caller's identity."""

    name: str
    role: Role
    groups: tuple[str, ...]
    origin: str
    expires_at: datetime | None
    version: str
    """The version of the service."""


class DashboardLinkBody(ApiBody, frozen=True, kw_only=True):
    """Whom a link to the dashboard logs in."""

    token: Annotated[str, Meta(max_length=200)] = ""
    """The token of the session; the caller's own if empty."""


class DashboardLink(msgspec.Struct, frozen=True, kw_only=True):
    """A link that logs a browser in to the dashboard, once, within five minutes."""

    path: str


class DeliveryReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a test notification."""

    detail: str
