"""``forewarn token``: who may come in over TCP."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from forewarn.cli.operating import connect
from forewarn.cli.output import json_option, print_json, print_json_list, print_table
from forewarn.cli.root import Ordered
from forewarn.cli.times import period_option, relative

if TYPE_CHECKING:
    from forewarn.control.bodies import NewToken, TokenView


@click.group(cls=Ordered)
def token() -> None:
    """Create, list, rotate and revoke tokens."""


@token.command
@click.argument("name")
@click.option(
    "--role", type=click.Choice(["operator", "owner", "viewer"]), required=True, help="What its bearer may do."
)
@click.option("--group", "groups", multiple=True, metavar="NAME", help="A group of an owner; may be given again.")
@click.option(
    "--expires-in", metavar="DURATION", callback=period_option, help="Such as 90d. [default: when it is revoked]"
)
@json_option
@click.pass_context
def create(
    context: click.Context, name: str, role: str, groups: tuple[str, ...], expires_in: int | None, as_json: bool
) -> None:
    """Create a token.

    It is shown this once, and kept nowhere. An operator may do everything, an owner restarts, redeploys, deletes,
    approves and reads its own groups, a viewer reads.
    """
    from forewarn.control.bodies import TokenBody
    from forewarn.core.outsiders import Role

    with connect(context) as client:
        made = client.create_token(TokenBody(name=name, role=Role(role), groups=groups, lasts=expires_in))
    _print_new(made, as_json=as_json)


def _print_new(made: "NewToken", *, as_json: bool) -> None:
    if as_json:
        print_json(made)
        return
    click.echo(made.token)
    until = f", {relative(made.expires_at, datetime.now(UTC))} no more" if made.expires_at else ""
    click.echo(f"{made.name} is {made.role}{until}; the token above is shown this once", err=True)


@token.command("list")
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
            print_table(headers, _rows(tokens), "no tokens yet; create one with 'forewarn token create NAME'")


def _rows(tokens: "Iterator[TokenView]") -> Iterator[tuple[str, ...]]:
    now = datetime.now(UTC)
    for each in tokens:
        expires = relative(each.expires_at, now) if each.expires_at else "-"
        yield each.id, each.name, each.role, ", ".join(each.groups) or "-", relative(each.created_at, now), expires


@token.command
@click.argument("token", metavar="NAME|ID")
@json_option
@click.pass_context
def rotate(context: click.Context, token: str, as_json: bool) -> None:
    """Replace a token by a new one of the same name.

    Its role, groups and duration stay; the old one opens nothing any more.
    """
    with connect(context) as client:
        made = client.rotate_token(token)
    _print_new(made, as_json=as_json)


@token.command
@click.argument("token", metavar="NAME|ID")
@json_option
@click.pass_context
def revoke(context: click.Context, token: str, as_json: bool) -> None:
    """Let a token open nothing any more, from now on."""
    with connect(context) as client:
        client.revoke_token(token)
    if as_json:
        print_json({"revoked": token})
    else:
        click.echo(f"{token} opens nothing any more")
