"""Those outside the fleet: who holds a key to the control plane, and who is told what happens."""

from datetime import datetime
from enum import StrEnum

import msgspec

from forewarn.core.model import EventType


class Role(StrEnum):
    """What the bearer of a token may do."""

    OPERATOR = "operator"
    OWNER = "owner"
    VIEWER = "viewer"


class Token(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A key to the control plane. The secret itself is known to its bearer alone."""

    id: str
    name: str
    role: Role
    hash: str
    """The SHA-256 of the secret, in hexadecimal."""
    created_at: datetime
    expires_at: datetime | None = None
    groups: tuple[str, ...] = ()
    """The groups of an owner."""


class SubscriptionKind(StrEnum):
    """How somebody outside is told."""

    WEBHOOK = "webhook"
    SLACK = "slack"
    TEAMS = "teams"
    MAIL = "mail"


class Subscription(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Somebody outside who is told what happens to events."""

    id: str
    name: str
    kind: SubscriptionKind
    target: str
    """The address: a URL, or for mail an address of a person."""
    secret: str = ""
    """What a webhook's messages are signed with."""
    groups: tuple[str, ...] = ()
    """Only events of these groups; all when empty."""
    types: tuple[EventType, ...] = ()
    """Only events of these types; all when empty."""
    told: int = 0
    """The last revision that was told of, as recorded."""
