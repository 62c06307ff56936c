"""``forewarn subscription``: manage subscriptions to notifications."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from forewarn.cli.confirmation import confirm, yes_option
from forewarn.cli.control_commands import connected
from forewarn.cli.flags import CaseInsensitiveChoice
from forewarn.cli.output import print_json_list, print_result, print_table, wide_option
from forewarn.cli.root import ControlCommandGroup, SecretCommand
from forewarn.cli.times import clock, relative
from forewarn.wire.azure_names import TYPES

if TYPE_CHECKING:
    from forewarn.control.bodies import SubscriptionView
    from forewarn.control.client import ControlClient


@click.group(cls=ControlCommandGroup)
def subscription() -> None:
    """Send notifications of events to webhooks, Slack, Teams and mail."""


@subscription.command(cls=SecretCommand)
@click.argument("name")
@click.argument("target", metavar="URL|ADDRESS")
@click.option(
    "--kind",
    type=click.Choice(["webhook", "slack", "teams", "mail"]),
    default="webhook",
    show_default=True,
    help="The kind of receiver.",
)
@click.option(
    "--group", "groups", multiple=True, metavar="NAME", help="Only events of this group; may be given again."
)
@click.option(
    "--type",
    "types",
    multiple=True,
    type=CaseInsensitiveChoice(*TYPES.values()),
    help="Only events of this type; may be given again.",
)
@connected
def add(
    client: "ControlClient",
    name: str,
    target: str,
    kind: str,
    groups: tuple[str, ...],
    types: tuple[str, ...],
    as_json: bool,
) -> None:
    """Add a subscription.

    A webhook's messages are signed with a secret that is shown only this once.
    """
    from forewarn.control.bodies import SubscriptionBody
    from forewarn.core.model import SubscriptionKind

    body = SubscriptionBody(name=name, kind=SubscriptionKind(kind), target=target, groups=groups, types=types)
    made = client.add_subscription(body)
    said = f"subscription {name} added; test it with 'forewarn subscription test {name}'"
    if made.secret:
        said += f"\nits messages are signed with the secret {made.secret}, which is shown only this once"
    print_result(made, said, as_json=as_json)


@subscription.command("list")
@wide_option
@connected
def list_subscriptions(client: "ControlClient", as_json: bool) -> None:
    """List subscriptions, and whether their messages are delivered."""
    subscriptions = client.subscriptions()
    if as_json:
        print_json_list(subscriptions)
        return
    listed = list(subscriptions)
    headers = ("NAME", "KIND", "TARGET", "GROUPS", "TYPES", "STATE", "WAITING")
    empty = "no subscriptions yet; add one with 'forewarn subscription add NAME URL'"
    print_table(headers, _rows(listed), empty, drop=("TYPES", "GROUPS", "KIND", "WAITING", "TARGET"))
    for each in listed:
        for line in _troubles(each, datetime.now(UTC)):
            click.echo(f"{each.name}: {line}")


def _troubles(each: "SubscriptionView", now: datetime) -> Iterator[str]:
    """Yield why messages do not get through, and what was lost."""
    if each.last_error:
        since = f"since {clock(each.since, now)}: " if each.since else f"{each.refused} refused: "
        again = f"; tried again {relative(each.next_try_at, now)}" if each.next_try_at else ""
        yield f"{since}{each.last_error}{again}"
    if each.state == "gone":
        yield f"delivery stopped; to start it again: forewarn subscription test {each.name}"
    if each.missed:
        yield f"{each.missed} revisions were not delivered"


def _rows(subscriptions: "Iterable[SubscriptionView]") -> Iterator[tuple[str, ...]]:
    for each in subscriptions:
        yield (
            each.name,
            each.kind,
            each.target,
            ", ".join(each.groups) or "all",
            ", ".join(each.types) or "all",
            each.state or "-",
            str(each.waiting or "-"),
        )


@subscription.command
@click.argument("subscription", metavar="NAME|ID")
@yes_option
@connected
def remove(client: "ControlClient", subscription: str, as_json: bool) -> None:
    """Remove a subscription."""
    confirm(f"remove subscription {subscription}")
    client.remove_subscription(subscription)
    print_result({"removed": subscription}, f"subscription {subscription} removed", as_json=as_json)


@subscription.command
@click.argument("subscription", metavar="NAME|ID")
@connected
def test(client: "ControlClient", subscription: str, as_json: bool) -> None:
    """Send a test message to a subscription."""
    sent = client.test_subscription(subscription)
    print_result(sent, sent.detail, as_json=as_json)
