"""Chooses the service of a command, and stores the tokens of remote services.

    --url URL, or --data DIR                                 the flag goes first,
    FOREWARN_URL, or FOREWARN_DATA                           then the environment,
    data in forewarn.toml, else ./forewarn-data              then what is on this machine,
    the service that 'forewarn login' was last used for      and last what is elsewhere

Tokens are kept in a file that no other user may read, in the user's configuration directory.
"""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from forewarn.cli.root import ServiceChoice, data_directory
from forewarn.cli.times import key_prefix
from forewarn.core.errors import BadInput
from forewarn.core.redaction import shown_address

if TYPE_CHECKING:
    from forewarn.control.client import ControlClient


URL_VARIABLE = "FOREWARN_URL"


class Login(msgspec.Struct, frozen=True, omit_defaults=True):
    """URL and token of one service."""

    url: str
    token: str
    authority: str = ""
    """File of the authority of its certificate."""


class Logins(msgspec.Struct, frozen=True):
    """All saved logins, the latest last."""

    logins: tuple[Login, ...] = ()


def logins_path() -> Path:
    if sys.platform == "win32":
        base = Path(os.environ.get("APPDATA") or Path.home() / "AppData" / "Roaming")
    else:
        base = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return base / "forewarn" / "logins.json"


def load() -> Logins:
    """Return the saved logins; none if there is no file."""
    try:
        return msgspec.json.decode(logins_path().read_bytes(), type=Logins)
    except FileNotFoundError:
        return Logins()
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{logins_path()} cannot be read: {error}; mend it or remove it, and log in again") from None


def save(login: Login) -> Path:
    """Save a login, replacing an earlier one to the same service; return the file."""
    others = tuple(each for each in load().logins if each.url != login.url)
    file = logins_path()
    new = file.with_suffix(".new")
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        new.unlink(missing_ok=True)
        opened = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(opened, "wb") as writing:
            writing.write(msgspec.json.encode(Logins((*others, login))))
        new.replace(file)
    except OSError as error:
        raise BadInput(
            f"{file} cannot be written: {error.strerror or error}; set XDG_CONFIG_HOME elsewhere"
        ) from None
    return file


def connect_chosen(context: click.Context) -> "ControlClient":
    """Return a client of the service in the command line, the environment or a saved login."""
    client = _chosen(context)
    chosen: ServiceChoice = context.find_root().obj
    client.key, client.key_prefix = chosen.idempotency_key or "", key_prefix(chosen.at)
    return client


def _chosen(context: click.Context) -> "ControlClient":
    from forewarn.control.client import ControlClient
    from forewarn.control.socket_path import socket_path

    chosen: ServiceChoice = context.find_root().obj
    if chosen.data and chosen.url:
        raise click.UsageError("--data names a service on this machine, --url one elsewhere; give one of them")
    named = chosen.url or ("" if chosen.data else os.environ.get(URL_VARIABLE, ""))
    logins = load().logins if named or not _is_local_named(chosen) else ()
    if named:
        return _reach(next((each for each in logins if each.url == named.rstrip("/")), Login(named, "")))
    directory = data_directory(context)
    if not _is_local_named(chosen) and logins and not os.access(socket_path(directory), os.W_OK):
        return _reach(logins[-1])
    return ControlClient.local(directory)


def _is_local_named(chosen: ServiceChoice) -> bool:
    return bool(chosen.data or os.environ.get("FOREWARN_DATA"))


def _reach(login: Login) -> "ControlClient":
    from forewarn.control.client import ControlClient

    token = os.environ.get("FOREWARN_TOKEN") or login.token
    if not token:
        url = shown_address(login.url)
        raise BadInput(
            f"there is no token for {url}; log in with 'forewarn login --url {url}', or set FOREWARN_TOKEN"
        )
    return ControlClient.remote(login.url, token, Path(login.authority) if login.authority else None)
