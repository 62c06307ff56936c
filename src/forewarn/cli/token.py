"""``forewarn token``: manage the tokens for access over TCP."""

from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

import click

from forewarn.cli.confirmation import confirm, yes_option
from forewarn.cli.control_commands import connect, connected
from forewarn.cli.output import json_option, print_json, print_list, print_result, wide_option
from forewarn.cli.root import ControlCommandGroup
from forewarn.cli.times import clock, period_option, relative

if TYPE_CHECKING:
    from forewarn.control.bodies import NewToken, TokenView
    from forewarn.control.client import ControlClient


@click.group(cls=ControlCommandGroup)
def token() -> None:
    """Create, list, rotate and revoke tokens."""


@token.command
@click.argument("name")
@click.option("--role", type=click.Choice(["operator", "owner", "viewer"]), required=True, help="What it allows.")
@click.option("--group", "groups", multiple=True, metavar="NAME", help="A group of an owner; may be given again.")
@click.option(
    "--expires-in",
    "lasts",
    metavar="DURATION",
    callback=period_option,
    help="Such as 90d. [default: when it is revoked]",
)
@json_option
@click.pass_context
def create(
    context: click.Context, name: str, role: str, groups: tuple[str, ...], lasts: int | None, as_json: bool
) -> None:
    """Create a token.

    It is shown only once: the service keeps a hash of it. An operator may do everything, an owner restarts,
    redeploys, deletes, approves and reads its own groups, a viewer reads.
    """
    from forewarn.control.bodies import TokenBody
    from forewarn.core.model import Role

    if (role == "owner") != bool(groups):
        raise click.UsageError("--role owner needs --group NAME, and no other role has groups", context)
    with connect(context) as client:
        made = client.create_token(TokenBody(name=name, role=Role(role), groups=groups, lasts=lasts))
    _print_new(made, as_json=as_json)


def _print_new(made: "NewToken", *, as_json: bool) -> None:
    if as_json:
        print_json(made)
        return
    click.echo(made.token)
    until = f", expires {relative(made.expires_at, datetime.now(UTC))}" if made.expires_at else ""
    click.echo(f"token {made.name}: {made.role}{until}; it is shown only this once", err=True)
    if made.previous_until:
        click.echo(f"the old secret is valid until {clock(made.previous_until, datetime.now(UTC))}", err=True)


@token.command("list")
@wide_option
@connected
def list_tokens(client: "ControlClient", as_json: bool) -> None:
    """List the tokens that were not revoked."""
    headers = ("TOKEN", "NAME", "ROLE", "GROUPS", "CREATED", "EXPIRES")
    empty = "no tokens yet; create one with 'forewarn token create NAME'"
    row = partial(_row, datetime.now(UTC))
    print_list(client.tokens(), headers, row, empty, as_json=as_json, drop=("CREATED", "EXPIRES", "GROUPS", "ROLE"))


def _row(now: datetime, each: "TokenView") -> tuple[str, ...]:
    expires = relative(each.expires_at, now) if each.expires_at else "-"
    groups = ", ".join(f"{name} (removed)" if name in each.missing_groups else name for name in each.groups)
    return each.id, each.name, each.role, groups or "-", relative(each.created_at, now), expires


@token.command
@click.argument("token", metavar="NAME|ID")
@click.option(
    "--overlap", metavar="DURATION", callback=period_option, help="How long the old secret stays valid, such as 1h."
)
@connected
def rotate(client: "ControlClient", token: str, overlap: int | None, as_json: bool) -> None:
    """Give a token a new secret; its id, name and role stay.

    Its groups and duration stay, too. The old secret is not accepted any more, or with --overlap after that time; a
    secret that was rotated away before it is not accepted in any case.
    """
    _print_new(client.rotate_token(token, overlap=overlap), as_json=as_json)


@token.command
@click.argument("token", metavar="NAME|ID")
@yes_option
@connected
def revoke(client: "ControlClient", token: str, as_json: bool) -> None:
    """Revoke a token at once."""
    confirm(f"revoke token {token}")
    client.revoke_token(token)
    print_result({"revoked": token}, f"token {token} revoked", as_json=as_json)
