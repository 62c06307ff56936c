"""Tokens and subscriptions."""

from collections.abc import Iterator

from forewarn.core.commands import (
    CreateToken,
    RecordDelivered,
    RecordTest,
    RemoveSubscription,
    RevokeToken,
    SetSubscription,
)
from forewarn.core.errors import Refused, unknown
from forewarn.core.facts import Delivered, SubscriptionRemoved, SubscriptionSet, TokenCreated, TokenRevoked
from forewarn.core.fleet import Fleet
from forewarn.core.model import Role, Subscription, SubscriptionKind
from forewarn.core.notice import check_line
from forewarn.core.web_addresses import split_web_address


def create_token(fleet: Fleet, command: CreateToken) -> Iterator[TokenRevoked | TokenCreated]:
    """Create a token; names are unique among valid tokens, so that the history distinguishes them."""
    token = command.token
    if command.replaces and command.replaces not in fleet.tokens:
        raise unknown("token", command.replaces, fleet.tokens)
    others = [other for other in fleet.tokens.values() if other.id != command.replaces]
    old = fleet.tokens.get(command.replaces)
    if old is None or old.name != token.name:
        _check_name("a token's name", token.name)
    if (token.id in fleet.tokens and token.id != command.replaces) or any(
        other.name == token.name for other in others
    ):
        raise Refused(f"there is a token named {token.name!r} already; revoke it first, or choose another name")
    if (token.role is Role.OWNER) != bool(token.groups):
        raise Refused("an owner's token names the groups it is for, and no other token names any")
    for group in token.groups:
        # A token can be given another secret after one of its groups was removed.
        if group not in fleet.groups and not (old and group in old.groups):
            raise unknown("group", group, fleet.groups)
    if command.replaces and not token.previous_hash:  # else its old secret is valid for a while
        yield TokenRevoked(command.replaces)
    yield TokenCreated(token)


def revoke_token(fleet: Fleet, command: RevokeToken) -> Iterator[TokenRevoked]:
    if command.token not in fleet.tokens:
        raise unknown("token", command.token, fleet.tokens)
    yield TokenRevoked(command.token)


def set_subscription(fleet: Fleet, command: SetSubscription) -> Iterator[SubscriptionSet]:
    subscription = command.subscription
    if subscription.id not in fleet.subscriptions:
        _check_name("a subscription's name", subscription.name)
    _check_target(subscription)
    others = (each for each in fleet.subscriptions.values() if each.id != subscription.id)
    if any(other.name == subscription.name for other in others):
        raise Refused(f"there is a subscription {subscription.name!r} already; remove it, or choose another name")
    for group in subscription.groups:
        if group not in fleet.groups:
            raise unknown("group", group, fleet.groups)
    if fleet.subscriptions.get(subscription.id) != subscription:
        yield SubscriptionSet(subscription)


def remove_subscription(fleet: Fleet, command: RemoveSubscription) -> Iterator[SubscriptionRemoved]:
    if command.subscription not in fleet.subscriptions:
        raise unknown("subscription", command.subscription, fleet.subscriptions)
    yield SubscriptionRemoved(command.subscription)


def record_test(fleet: Fleet, command: RecordTest) -> tuple[()]:
    """Change nothing: the test is recorded by its request."""
    if command.subscription not in fleet.subscriptions:
        raise unknown("subscription", command.subscription, fleet.subscriptions)
    return ()


def record_delivered(fleet: Fleet, command: RecordDelivered) -> Iterator[Delivered]:
    """Record delivery progress; it never falls."""
    further = {
        id_: revision
        for id_, revision in command.revisions.items()
        if id_ in fleet.subscriptions and revision > fleet.subscriptions[id_].delivered_revision
    }
    if further:
        yield Delivered(further)


def _check_name(what: str, name: str) -> None:
    """Refuse a name that is ambiguous in the history, or not valid in a path."""
    check_line(what, name)
    if not name.isprintable() or name != name.strip() or not name:
        raise Refused(f"{what} has visible characters, and no space at its beginning or end; it is {name!r}")
    if "/" in name or name in (".", ".."):  # requests name it in their path
        raise Refused(f"{what} contains no '/', and is not '.' or '..'; it is {name!r}")


def _check_target(subscription: Subscription) -> None:
    target = subscription.target
    if subscription.kind is SubscriptionKind.MAIL:
        name, _, domain = target.rpartition("@")
        if not name or not domain or not target.isprintable() or " " in target:
            raise Refused(f"{target!r} is not a valid mail address; write it like ops@example.org")
        return
    if split_web_address(target) is None or not target.isprintable() or " " in target:
        raise Refused(
            f"the target of subscription {subscription.name!r} is not a valid web address; write it like "
            "https://example.org/hook"
        )
