"""Address of the agent's local socket: a Unix socket file, or a loopback port protected by a token."""

import errno
import os
import socket
from pathlib import Path

from forewarn import socket_files
from forewarn.config.values import ENDPOINT, ListenAddress
from forewarn.core.errors import BadInput, Unavailable

LocalAddress = Path | ListenAddress
TOKEN_FILE = "token"  # noqa: S105 a file's name, in the agent's state directory

_BACKLOG = 64
_NOT_FOR_OTHERS = 0o117
"""Owner and group may open it."""


def read_address(text: str) -> LocalAddress | None:
    """Return the address in the setting ``socket``, None for ``off``; raise BadInput if it is invalid."""
    if text in ("", "off"):
        return None
    host, colon, port = text.rpartition(":")
    if colon and host and port.isascii() and port.isdigit() and not host.startswith(("/", ".")):
        try:
            endpoint = ENDPOINT.read(text)
        except ValueError:
            raise BadInput(f'socket = "{text}": expected a path, 127.0.0.1:PORT or off') from None
        assert isinstance(endpoint, ListenAddress)  # noqa: S101 ENDPOINT reads nothing else
        if not endpoint.is_loopback:
            raise BadInput(f'socket = "{text}": other machines could reach it; give 127.0.0.1:PORT, or a path')
        return endpoint
    return Path(text).expanduser()


def listen(place: LocalAddress) -> socket.socket:
    """Return a listening socket; raise BadInput or Unavailable with the remedy."""
    return _listen_on_port(place) if isinstance(place, ListenAddress) else _listen_on_file(place)


def _listen_on_file(path: Path) -> socket.socket:
    if not hasattr(socket, "AF_UNIX"):
        raise BadInput(f'socket = "{path}": this system has no Unix sockets; give 127.0.0.1:PORT')
    if len(os.fsencode(path)) > socket_files.LONGEST_PATH:
        raise BadInput(
            f'socket = "{path}" is longer than the {socket_files.LONGEST_PATH} bytes of a socket\'s path; shorten it'
        )
    try:
        return socket_files.listen(
            path, mask=_NOT_FOR_OTHERS, backlog=_BACKLOG, owner="agent", remedy="give another socket"
        )
    except OSError as error:
        raise BadInput(
            f'socket = "{path}" cannot be created: {error.strerror or error}; give a writable directory'
        ) from None


def _listen_on_port(endpoint: ListenAddress) -> socket.socket:
    listener = socket.socket(socket.AF_INET6 if ":" in endpoint.host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        if os.name == "posix":  # on Windows the option means something else: sharing the port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((endpoint.host, endpoint.port))
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        said = "another program listens there" if error.errno == errno.EADDRINUSE else error.strerror or str(error)
        raise Unavailable(f'cannot listen on socket = "{endpoint}": {said}; choose another port') from None
    return listener


def make_token(file: Path) -> str:
    """Write a new token atomically to a file that only its owner can read; return it."""
    token = os.urandom(32).hex()
    new = file.with_name(f"{file.name}.new")
    try:
        new.unlink(missing_ok=True)
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as written:
            written.write(f"{token}\n")
        new.replace(file)
    except OSError as error:
        raise BadInput(
            f"{file} cannot be written: {error.strerror or error}; check the setting state and the free disk space"
        ) from None
    return token


def read_token(file: Path) -> str:
    """Return the token for the port; raise Unavailable if it cannot be read."""
    try:
        return file.read_text(encoding="ascii").strip()
    except (OSError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) else "it contains no token"
        raise Unavailable(f"{file} cannot be read: {said}; run this as the user of the agent") from None
