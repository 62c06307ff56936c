"""``forewarn login``: save the URL and the token of a remote service."""

import os
import sys
from pathlib import Path

import click

from forewarn.cli.output import json_option, print_json
from forewarn.cli.root import SecretCommand, not_empty


class _SavedLogin(SecretCommand):
    surplus = (
        "login takes no arguments, which other users could see: name the service with --url URL; "
        "type the token at the prompt, pipe it to 'forewarn login', or give --token-file FILE"
    )


@click.command(cls=_SavedLogin)
@click.option(
    "--url", metavar="URL", callback=not_empty, help="The control plane of the service. [default: FOREWARN_URL]"
)
@click.option("--token-file", metavar="FILE", help="Read the token from a file; - is standard input.")
@click.option(
    "--authority", metavar="FILE", help="The PEM file of the authority that signed the service's certificate."
)
@click.option("--plain-http", is_flag=True, help="Send the token over a network without TLS.")
@json_option
@click.pass_context
def login(
    context: click.Context,
    url: str | None,
    token_file: str | None,
    authority: str | None,
    plain_http: bool,
    as_json: bool,
) -> None:
    """Save the address and the token of a service.

    The token is taken from --token-file or FOREWARN_TOKEN, else read from standard input; it is tried, and kept in a
    file that no other user may read. Commands then speak to that service where no other is named and none runs in the
    data directory.
    """
    from forewarn.cli.logins import URL_VARIABLE, Login, save
    from forewarn.config.values import ListenAddress
    from forewarn.control.client import ControlClient
    from forewarn.control.transport import parse_service_url
    from forewarn.core.errors import BadInput

    url = url or context.find_root().obj.url or os.environ.get(URL_VARIABLE)
    if not url:
        raise click.UsageError(f"no service is named; give --url URL, or set {URL_VARIABLE}", context)
    parts = parse_service_url(url)
    if parts.scheme == "http" and not plain_http and not ListenAddress(parts.hostname or "", 0).is_loopback:
        raise BadInput(f"{url} would send the token without encryption; use https://, or allow it with --plain-http")
    given = Login(url.rstrip("/"), _read_token(token_file), str(Path(authority).absolute()) if authority else "")
    with ControlClient.remote(given.url, given.token, Path(given.authority) if given.authority else None) as client:
        me = client.me()
    file = save(given)
    if as_json:
        print_json(me)
    else:
        groups = f" of {', '.join(me.groups)}" if me.groups else ""
        click.echo(f"logged in to {given.url} as {me.name}, {me.role}{groups}; the token is kept in {file}")


def _read_token(file: str | None) -> str:
    from forewarn.core.errors import BadInput

    if not file and (token := os.environ.get("FOREWARN_TOKEN")):
        return token
    if not file and sys.stdin.isatty():
        return str(click.prompt("Token", hide_input=True)).strip()
    is_piped = not file or file == "-"
    place = "standard input" if is_piped else str(file)
    try:
        token = (sys.stdin.read() if is_piped else Path(place).read_text(encoding="utf-8")).strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise BadInput(f"{place} cannot be read: {why}; give a file with the token") from None
    if not token:
        raise BadInput(f"{place} contains no token; write it there, give --token-file FILE, or set FOREWARN_TOKEN")
    return token
