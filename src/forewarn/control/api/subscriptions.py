"""Subscriptions: who outside is told what happens to events."""

import secrets
from base64 import b64encode
from uuid import uuid4

from litestar import Router, delete
from litestar.params import FromPath, JSONBody
from msgspec.structs import asdict

from forewarn.control.access import Action
from forewarn.control.api.idempotency import IdempotencyKey
from forewarn.control.api.paging import Cursor, Limit, after, page, read_cursor
from forewarn.control.api.plane import Asking, Behind, Plane
from forewarn.control.api.routing import reads, writes
from forewarn.control.bodies import NewSubscription, Page, Sent, SubscriptionBody, SubscriptionView
from forewarn.core.commands import RemoveSubscription, SetSubscription
from forewarn.core.errors import Unavailable, unknown
from forewarn.core.facts import SubscriptionSet
from forewarn.core.fleet import Fleet
from forewarn.core.outsiders import Subscription, SubscriptionKind
from forewarn.signature import key_of

_TAGS = ("Subscriptions",)


@reads("/", Action.KEEP_SUBSCRIPTIONS, summary="List subscriptions", tags=_TAGS)
async def list_subscriptions(plane: Behind, limit: Limit = 100, cursor: Cursor = None) -> Page[SubscriptionView]:
    """List who is told, and whether messages get through."""

    def look(fleet: Fleet) -> Page[SubscriptionView]:
        ids = after(fleet.subscriptions, read_cursor(cursor))
        return page(((id_, fleet.subscriptions.get(id_)) for id_ in ids), limit, lambda each: _view(plane, each))

    return await plane.node.look(look)


@reads("/{id:str}", Action.KEEP_SUBSCRIPTIONS, summary="Show a subscription", tags=_TAGS)
async def show_subscription(plane: Behind, id: FromPath[str]) -> SubscriptionView:
    """Tell of a subscription, by its id or its name, and whether messages get through."""
    return await plane.node.look(lambda fleet: _view(plane, _subscription(fleet, id)))


@writes("/", Action.KEEP_SUBSCRIPTIONS, summary="Add a subscription", tags=_TAGS, body=SubscriptionBody)
async def add_subscription(
    plane: Behind, bearer: Asking, data: JSONBody[SubscriptionBody], key: IdempotencyKey = None
) -> NewSubscription:
    """Tell somebody from now on; a webhook's signing secret is told in this answer and never again."""
    if data.secret:
        key_of(data.secret)  # refused here rather than with the first message
    secret = data.secret or (_draw_secret() if data.kind is SubscriptionKind.WEBHOOK else "")
    wished = Subscription(
        str(uuid4()), data.name, data.kind, data.target, secret, data.groups, data.types, told=plane.node.revision
    )
    command_id = plane.command_id(bearer, key, "subscription", data)
    facts = await plane.node.submit_once(SetSubscription(id=command_id, by=bearer.caller, subscription=wished))
    made = next((fact.subscription for fact in facts if isinstance(fact, SubscriptionSet)), wished)
    return NewSubscription(**asdict(_view(plane, made)), secret=made.secret)


@writes("/{id:str}", Action.KEEP_SUBSCRIPTIONS, summary="Remove a subscription", tags=_TAGS, method=delete)
async def remove_subscription(plane: Behind, bearer: Asking, id: FromPath[str], key: IdempotencyKey = None) -> None:
    """Tell somebody nothing any more."""
    found = await plane.node.look(lambda fleet: _subscription(fleet, id))
    command_id = plane.command_id(bearer, key, f"remove {found.id}")
    await plane.node.submit_once(RemoveSubscription(id=command_id, by=bearer.caller, subscription=found.id))


@writes("/{id:str}/test", Action.KEEP_SUBSCRIPTIONS, summary="Test a subscription", tags=_TAGS)
async def test_subscription(plane: Behind, id: FromPath[str]) -> Sent:
    """Send a message that says it is a test, and tell whether it arrived."""
    found = await plane.node.look(lambda fleet: _subscription(fleet, id))
    if plane.deliveries is None:
        raise Unavailable("this service tells nobody outside")
    return await plane.deliveries.send_test(found)


def _draw_secret() -> str:
    """Draw a secret as Standard Webhooks writes them."""
    return "whsec_" + b64encode(secrets.token_bytes(32)).decode()


def _subscription(fleet: Fleet, given: str) -> Subscription:
    names = {each.name: each for each in fleet.subscriptions.values()}
    found = fleet.subscriptions.get(given) or names.get(given)
    if found is None:
        raise unknown("subscription", given, [*fleet.subscriptions, *names])
    return found


def _view(plane: Plane, each: Subscription) -> SubscriptionView:
    delivery = asdict(plane.deliveries.delivery_of(each.id)) if plane.deliveries else {}
    return SubscriptionView(
        id=each.id,
        name=each.name,
        kind=each.kind,
        target=each.target,
        groups=each.groups,
        types=each.types,
        told=each.told,
        **delivery,
    )


subscriptions = Router(
    "/subscriptions",
    route_handlers=[list_subscriptions, show_subscription, add_subscription, remove_subscription, test_subscription],
)
