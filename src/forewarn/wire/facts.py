"""Facts as they are shown outside: without secrets, with ids, types, statuses and sources as Azure spells them.

token           all but the hash of its secret
subscription    all but its signing secret, and of a URL the host alone
"""

import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from types import NoneType
from typing import TypeVar, assert_never, get_args

import msgspec
from msgspec.structs import replace

from forewarn.core import facts
from forewarn.core.declared_keys import HeldChange, HoldReason, RecordKind
from forewarn.core.facts import AnyFact
from forewarn.core.model import Subscription, SubscriptionKind, Token
from forewarn.core.redaction import shown_url
from forewarn.core.rollouts import facts as rollout_facts
from forewarn.wire.azure_names import SOURCES, STATUSES, TYPES, show_id

_Member = TypeVar("_Member", bound=StrEnum)
_KINDS = {RecordKind.HOST: "host", RecordKind.GROUP: "group", RecordKind.VM: "VM"}
_GUID = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")


def show_ids(text: str) -> str:
    """Return a sentence with the ids in it as they are shown."""
    return _GUID.sub(lambda found: show_id(found[0]), text)


def describe_held(held: HeldChange) -> str:
    """Say what is held and until when."""
    what = f"{_KINDS[held.kind]} {held.name}: {held.action}"
    match held.reason:
        case HoldReason.EVENT:
            return f"{what} waits until event {show_id(held.because)} ends"
        case HoldReason.IN_USE:
            return f"{what} waits: {show_ids(held.because)}"
        case HoldReason.TOO_MANY:
            return f"{what} waits for 'forewarn fleet apply FILE --yes': {held.because}"


def show_record(record: msgspec.Struct) -> dict[str, object]:
    """Return a fact, or a record in one, as JSON has it, without secrets."""
    return _fields(public_fields(record))


def _fields(record: Mapping[str, object]) -> dict[str, object]:
    return {
        key: _SPELLED[key](value) if key in _SPELLED else value if type(value) in _SIMPLE else _inside(value)
        for key, value in record.items()
    }


_SIMPLE = frozenset((str, int, bool, float, NoneType))


def _inside(value: object) -> object:
    match value:
        case dict():
            return _fields(value)
        case list() | tuple():
            return [_inside(each) for each in value]
        case _:
            return value


def _id(value: object) -> object:
    """Return an id as it is shown; a key of that name may also hold a record, or an id that is no GUID."""
    return show_ids(value) if isinstance(value, str) else _inside(value)


def _word(words: Mapping[str, str]) -> Callable[[object], object]:
    return lambda value: words.get(value, value) if isinstance(value, str) else _inside(value)


def _by_value(words: Mapping[_Member, str]) -> dict[str, str]:
    return {member.value: word for member, word in words.items()}


def _first_ids(value: object) -> object:
    """Return rows that begin with the id of an event."""
    return [[_id(row[0]), *row[1:]] for row in value] if isinstance(value, list | tuple) else value


def _ids_of_keys(value: object) -> object:
    return {show_id(key): each for key, each in value.items()} if isinstance(value, dict) else value


_SPELLED: dict[str, Callable[[object], object]] = {
    **dict.fromkeys(("id", "event", "behind", "waits_for", "subscription", "because", "request"), _id),
    "type": _word(_by_value(TYPES)),
    "types": lambda value: [_SPELLED["type"](each) for each in value] if isinstance(value, list | tuple) else value,
    "status": _word(_by_value(STATUSES)),
    "source": _word(_by_value(SOURCES)),
    "fetches": _first_ids,
    "revisions": _ids_of_keys,
}


def shown_target(subscription: Subscription) -> str:
    """Return what may be shown of a subscription's address."""
    is_mail = subscription.kind is SubscriptionKind.MAIL
    return subscription.target if is_mail else shown_url(subscription.target)


def public_fields(record: msgspec.Struct) -> dict[str, object]:
    """Return the fields of a fact, or of a record in one, as JSON has them, without secrets."""
    if type(record) in _EVENT_CHANGED:  # most facts: the checks below take longer than everything else
        return _changed_fields(record)
    if isinstance(record, AnyFact):
        return _public_fact(record)
    if isinstance(record, Subscription):
        record = replace(record, secret="", target=shown_target(record))
    fields = _all_fields(record)
    if isinstance(record, Token):
        del fields["hash"]
        fields.pop("previous_hash", None)
    return fields


def _public_fact(fact: AnyFact) -> dict[str, object]:
    match fact:
        case facts.TokenCreated(token=token):
            return {"fact": "token-created", "token": public_fields(token)}
        case facts.SubscriptionSet(subscription=subscription):
            return {"fact": "subscription-set", "subscription": public_fields(subscription)}
        case _ if isinstance(fact, facts.EventChanged):
            return _changed_fields(fact)
        case _ if isinstance(
            fact, (facts.EventCreated, facts.FleetFact, facts.EnrolmentFact, rollout_facts.RolloutFact)
        ):
            return _all_fields(fact)
        case (
            facts.TokenRevoked()
            | facts.SubscriptionRemoved()
            | facts.Delivered()
            | facts.Fetched()
            | facts.ObservationRecorded()
            | facts.ClockStepped()
            | facts.Selected()
        ):
            return _all_fields(fact)
        case _:
            assert_never(fact)


_EVENT_CHANGED = frozenset(get_args(facts.EventChanged))


def _changed_fields(fact: msgspec.Struct) -> dict[str, object]:
    fields = _all_fields(fact)
    fields.pop("group", None)  # only for the journal: readers get the group with the event
    return fields


def _all_fields(record: msgspec.Struct) -> dict[str, object]:
    fields: dict[str, object] = msgspec.to_builtins(record)
    return fields
