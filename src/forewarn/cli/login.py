"""``forewarn login``: a service elsewhere, and the token that opens it."""

import os
import sys
from pathlib import Path

import click

from forewarn.cli.output import json_option, print_json


@click.command
@click.argument("url", metavar="URL")
@click.option("--token-file", metavar="FILE", help="Read the token from a file; - is standard input.")
@click.option("--authority", metavar="FILE", help="A certificate in PEM that vouches for the service's own.")
@click.option("--plain-http", is_flag=True, help="Send the token over a network without TLS.")
@json_option
def login(url: str, token_file: str | None, authority: str | None, plain_http: bool, as_json: bool) -> None:
    """Remember a service and its token.

    The token is asked for, or taken from --token-file or FOREWARN_TOKEN; it is tried, and kept in a file that nobody
    else may read. Commands then speak to that service where no other is named and none runs in the data directory.
    """
    from forewarn.cli.logins import Login, save
    from forewarn.config.values import Endpoint
    from forewarn.control.client import Client
    from forewarn.control.transport import read_url
    from forewarn.core.errors import BadInput

    parts = read_url(url)
    if parts.scheme == "http" and not plain_http and not Endpoint(parts.hostname or "", 0).is_loopback:
        raise BadInput(
            f"{url} would show the token to everybody on the way; use https://, or allow it with --plain-http"
        )
    given = Login(url.rstrip("/"), _read_token(token_file), str(Path(authority).absolute()) if authority else "")
    with Client.remote(given.url, given.token, Path(given.authority) if given.authority else None) as client:
        me = client.me()
    file = save(given)
    if as_json:
        print_json(me)
    else:
        groups = f" of {', '.join(me.groups)}" if me.groups else ""
        click.echo(f"logged in to {given.url} as {me.name}, {me.role}{groups}; the token is kept in {file}")


def _read_token(file: str | None) -> str:
    from forewarn.core.errors import BadInput

    if file:
        try:
            text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(f"{file} cannot be read: {error}; name a file that holds the token") from None
        return text.strip()
    return os.environ.get("FOREWARN_TOKEN") or str(click.prompt("Token", hide_input=True)).strip()
