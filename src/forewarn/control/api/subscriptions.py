"""Subscriptions: list, show, add, remove and test."""

from base64 import b64encode
from collections.abc import Mapping
from typing import Any

from litestar import Router, delete
from litestar.params import FromPath, JSONBody
from msgspec.structs import asdict

from forewarn.control.api.context import ApiContext, ContextDependency
from forewarn.control.api.idempotency import IdempotencyKey
from forewarn.control.api.paging import Cursor, Limit, make_page, names_after, read_cursor
from forewarn.control.api.problems import known_word
from forewarn.control.api.routing import reads, replay_empty, writes
from forewarn.control.bodies import DeliveryReceipt, NewSubscription, ResultPage, SubscriptionBody, SubscriptionView
from forewarn.core.access import Action
from forewarn.core.commands import RecordTest, RemoveSubscription, SetSubscription
from forewarn.core.errors import Unavailable, unknown
from forewarn.core.facts import Entry, SubscriptionSet
from forewarn.core.fleet import Fleet
from forewarn.core.model import EventType, Subscription, SubscriptionKind
from forewarn.randomness import new_uuid, secret_bytes
from forewarn.signature import key_of
from forewarn.wire.azure_names import TYPES, read_id, read_type, show_id
from forewarn.wire.facts import shown_target


@reads("/", Action.KEEP_SUBSCRIPTIONS, summary="List subscriptions", asks_leader=True)
async def list_subscriptions(
    context: ContextDependency, limit: Limit = 100, cursor: Cursor = None
) -> ResultPage[SubscriptionView]:
    """List the subscriptions with their delivery status."""
    known = context.fleet.subscriptions
    ids = names_after(known, read_cursor(cursor))
    return make_page(((id_, known.get(id_)) for id_ in ids), limit, lambda each: view_subscription(context, each))


@reads("/{id:str}", Action.KEEP_SUBSCRIPTIONS, summary="Show a subscription", asks_leader=True)
async def show_subscription(context: ContextDependency, id: FromPath[str]) -> SubscriptionView:
    """Return a subscription, by its id or name, with its delivery status."""
    return view_subscription(context, _subscription(context.fleet, id))


async def _show_again(context: ApiContext, given: Mapping[str, Any], entry: Entry) -> NewSubscription:
    """Return a subscription as it was added, with its secret, because the first response may have been lost."""
    (made,) = (fact.subscription for fact in entry.facts if isinstance(fact, SubscriptionSet))
    return NewSubscription(**asdict(view_subscription(context, made)), secret=made.secret)


@writes("/", Action.KEEP_SUBSCRIPTIONS, summary="Add a subscription", replay=_show_again)
async def add_subscription(
    context: ContextDependency, data: JSONBody[SubscriptionBody], key: IdempotencyKey
) -> NewSubscription:
    """Add a subscription; the signing secret of a webhook is returned in this response only."""
    if data.secret:
        key_of(data.secret)  # refused here rather than with the first message
    secret = data.secret or (_generate_secret() if data.kind is SubscriptionKind.WEBHOOK else "")
    types = tuple(known_word(read_type(word), EventType, "body.types") for word in data.types)
    revision = context.node.replica.revision
    subscription = Subscription(
        new_uuid(), data.name, data.kind, data.target, secret, data.groups, types, delivered_revision=revision
    )
    if context.deliveries is not None:
        context.deliveries.check(subscription)
    command = SetSubscription(id=key.id, by=key.by, subscription=subscription)
    await context.operations.record(command, key)
    return NewSubscription(**asdict(view_subscription(context, subscription)), secret=subscription.secret)


@writes("/{id:str}", Action.KEEP_SUBSCRIPTIONS, summary="Remove a subscription", method=delete, replay=replay_empty)
async def remove_subscription(context: ContextDependency, id: FromPath[str], key: IdempotencyKey) -> None:
    """Remove a subscription."""
    found = _subscription(context.fleet, id)
    command = RemoveSubscription(id=key.id, by=key.by, subscription=found.id)
    await context.operations.record(command, key)


async def _sent_before(context: ApiContext, given: Mapping[str, Any], entry: Entry) -> DeliveryReceipt:
    return DeliveryReceipt(
        detail="the test was sent with this Idempotency-Key before and was delivered; it was not sent again"
    )


@writes("/{id:str}/test", Action.KEEP_SUBSCRIPTIONS, summary="Test a subscription", replay=_sent_before)
async def test_subscription(context: ContextDependency, id: FromPath[str], key: IdempotencyKey) -> DeliveryReceipt:
    """Send a test notification, and report whether it was delivered."""
    found = _subscription(context.fleet, id)
    if context.deliveries is None:
        raise Unavailable("this service sends no notifications")
    sent = await context.deliveries.send_test(found)
    command = RecordTest(id=key.id, by=key.by, subscription=found.id)
    await context.operations.record(command, key)
    return sent


def _generate_secret() -> str:
    """Generate a secret in the format of Standard Webhooks."""
    return "whsec_" + b64encode(secret_bytes()).decode()


def _subscription(fleet: Fleet, given: str) -> Subscription:
    names = {each.name: each for each in fleet.subscriptions.values()}
    found = fleet.subscriptions.get(read_id(given)) or names.get(given)
    if found is None:
        raise unknown("subscription", given, [*map(show_id, fleet.subscriptions), *names])
    return found


def view_subscription(context: ApiContext, each: Subscription) -> SubscriptionView:
    delivery = asdict(context.deliveries.delivery_of(each.id)) if context.deliveries else {}
    return SubscriptionView(
        id=show_id(each.id),
        name=each.name,
        kind=each.kind,
        target=shown_target(each),
        groups=each.groups,
        types=tuple(TYPES[type_] for type_ in each.types),
        delivered_revision=each.delivered_revision,
        **delivery,
    )


subscriptions = Router(
    "/subscriptions",
    tags=["Subscriptions"],
    route_handlers=[list_subscriptions, show_subscription, add_subscription, remove_subscription, test_subscription],
)
