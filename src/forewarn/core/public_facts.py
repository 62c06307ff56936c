"""What may be shown of facts that hold secrets: in the log, in history and to those who listen to changes.

token           all but the hash of its secret
subscription    all but its signing secret, and of a URL the host alone
"""

from typing import assert_never

import msgspec
from msgspec.structs import replace

from forewarn.core.credentials import Subscription, SubscriptionKind, Token
from forewarn.core.facts import (
    AnyFact,
    ClockStepped,
    Delivered,
    EnrolmentFact,
    EventChanged,
    EventCreated,
    Fetched,
    FleetFact,
    ObservationRecorded,
    SubscriptionRemoved,
    SubscriptionSet,
    TokenCreated,
    TokenRevoked,
)
from forewarn.core.redaction import shown_url


def shown_target(subscription: Subscription) -> str:
    """Return what may be shown of a subscription's address."""
    is_mail = subscription.kind is SubscriptionKind.MAIL
    return subscription.target if is_mail else shown_url(subscription.target)


def public_fields(record: msgspec.Struct) -> dict[str, object]:
    """Return the fields of a fact, or of a record in one, as JSON has them, without secrets."""
    if isinstance(record, AnyFact):
        return _public_fact(record)
    if isinstance(record, Subscription):
        record = replace(record, secret="", target=shown_target(record))
    fields = _all_fields(record)
    if isinstance(record, Token):
        del fields["hash"]
    return fields


def _public_fact(fact: AnyFact) -> dict[str, object]:
    match fact:
        case TokenCreated(token=token):
            return {"fact": "token-created", "token": public_fields(token)}
        case SubscriptionSet(subscription=subscription):
            return {"fact": "subscription-set", "subscription": public_fields(subscription)}
        case _ if isinstance(fact, EventChanged):
            fields = _all_fields(fact)
            fields.pop("group", None)  # the journal's alone: readers are told the group with the event
            return fields
        case _ if isinstance(fact, (EventCreated, FleetFact, EnrolmentFact)):
            return _all_fields(fact)
        case (
            TokenRevoked() | SubscriptionRemoved() | Delivered() | Fetched() | ObservationRecorded() | ClockStepped()
        ):
            return _all_fields(fact)
        case _:
            assert_never(fact)


def _all_fields(record: msgspec.Struct) -> dict[str, object]:
    fields: dict[str, object] = msgspec.to_builtins(record)
    return fields
