"""``forewarn token``: manage the tokens for access over TCP."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from forewarn.cli.control_commands import connect
from forewarn.cli.output import json_option, print_json, print_json_list, print_table, wide_option
from forewarn.cli.root import ControlCommandGroup
from forewarn.cli.times import period_option, relative

if TYPE_CHECKING:
    from forewarn.control.bodies import NewToken, TokenView


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


@token.command("list")
@wide_option
@json_option
@click.pass_context
def list_tokens(context: click.Context, as_json: bool) -> None:
    """List the tokens that were not revoked."""
    with connect(context) as client:
        tokens = client.tokens()
        if as_json:
            print_json_list(tokens)
        else:
            headers = ("TOKEN", "NAME", "ROLE", "GROUPS", "CREATED", "EXPIRES")
            empty = "no tokens yet; create one with 'forewarn token create NAME'"
            print_table(headers, _rows(tokens), empty, drop=("CREATED", "EXPIRES", "GROUPS", "ROLE"))


def _rows(tokens: "Iterator[TokenView]") -> Iterator[tuple[str, ...]]:
    now = datetime.now(UTC)
    for each in tokens:
        expires = relative(each.expires_at, now) if each.expires_at else "-"
        groups = ", ".join(f"{name} (removed)" if name in each.missing_groups else name for name in each.groups)
        yield each.id, each.name, each.role, groups or "-", relative(each.created_at, now), expires


@token.command
@click.argument("token", metavar="NAME|ID")
@json_option
@click.pass_context
def rotate(context: click.Context, token: str, as_json: bool) -> None:
    """Give a token a new secret; its id, name and role stay.

    Its groups and duration stay, too; the old secret is not accepted any more.
    """
    with connect(context) as client:
        made = client.rotate_token(token)
    _print_new(made, as_json=as_json)


@token.command
@click.argument("token", metavar="NAME|ID")
@json_option
@click.pass_context
def revoke(context: click.Context, token: str, as_json: bool) -> None:
    """Revoke a token at once."""
    with connect(context) as client:
        client.revoke_token(token)
    if as_json:
        print_json({"revoked": token})
    else:
        click.echo(f"token {token} revoked")
