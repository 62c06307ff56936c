"""The sockets of the control plane: one of the data directory's owner alone, and one for TCP, with TLS if given."""

import errno
import os
import socket
import ssl
from pathlib import Path

from forewarn import socket_files
from forewarn.config.values import ListenAddress
from forewarn.control.socket_path import short_path, socket_path
from forewarn.core.errors import BadInput, Unavailable

MOST_CONNECTIONS = 4_096
"""Over TCP; whoever comes through the unix socket is always let in."""
MOST_PER_ADDRESS = 1_024
"""Of those, from one address: one that holds many open must not shut the others out."""
_BACKLOG = 2048
_OWNER_ALONE = 0o177


def most_connections() -> int:
    """Return how many connections over TCP there may be: no more than a quarter of the files there may be."""
    try:
        import resource  # noqa: PLC0415 - Windows has none, and no such limit
    except ImportError:
        return MOST_CONNECTIONS
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_CONNECTIONS if hard == resource.RLIM_INFINITY else min(MOST_CONNECTIONS, hard // 4)


class UnixSocket:
    """The socket in the data directory; whoever may open the file is an operator."""

    def __init__(self, directory: Path) -> None:
        self._path = socket_path(directory)
        self._made = (0, 0)
        self.is_open = False

    def open(self) -> socket.socket:
        """Return it, listening; raise what is in the way."""
        try:
            with short_path(self._path) as name:
                listener = socket_files.listen(
                    self._path,
                    name=name,
                    mask=_OWNER_ALONE,
                    backlog=_BACKLOG,
                    whose="service",
                    remedy="give another --data",
                )
            self._made = socket_files.identity(self._path)
            self.is_open = True
        except OSError as error:
            raise BadInput(
                f"{self._path} cannot be made: {error.strerror or error}; give a directory you may write to"
            ) from None
        return listener

    def adopt(self, passed: socket.socket) -> socket.socket:
        """Return a socket that a service manager opened, and that stays its own."""
        path = os.fsdecode(passed.getsockname())
        self.is_open |= os.path.realpath(path) == os.path.realpath(self._path)
        return passed

    def remove(self) -> None:
        """Take the file away, if it is still the one that was made."""
        socket_files.remove(self._path, self._made)


def listen(endpoint: ListenAddress) -> socket.socket:
    """Return a socket that listens there; raise Unavailable that says why not, and what to do."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            endpoint.host, endpoint.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError:
        raise Unavailable(
            f"cannot answer operators on {endpoint}: {endpoint.host!r} is no address of this machine"
        ) from None
    listener = socket.socket(family, kind, protocol)
    try:
        if os.name == "posix":  # on Windows the option means something else: sharing the port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise Unavailable(f"cannot answer operators on {endpoint}: {_remedy(error)}") from None
    return listener


def _remedy(error: OSError) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return "another program listens there; choose another port with --control HOST:PORT, or --control off"
        case errno.EACCES:
            return "that port is for privileged programs; choose one above 1023 with --control HOST:PORT"
        case errno.EADDRNOTAVAIL:
            return "no interface of this machine has that address; add it to one, or choose another"
        case _:
            return error.strerror or str(error)


def load_certificate(certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    """Return what TLS is spoken with, if it is; raise BadInput that names the file that is wrong."""
    if certificate is None:
        if key is not None:
            raise BadInput("control_key is given without control_certificate; give both, or none")
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        said = error.strerror or str(error)
        raise BadInput(
            f"control_certificate {certificate} and control_key {key or certificate} cannot be used: {said};"
            " give a certificate and its key, both in PEM"
        ) from None
    return context


class Certificate:
    """The certificate of a listener; a renewed one counts for connections made from then on."""

    def __init__(self, current: ssl.SSLContext) -> None:
        self._current = current
        self.context = current
        """What the listener is opened with."""
        self.context.sni_callback = self._choose

    def renew(self, current: ssl.SSLContext) -> None:
        self._current = current

    def _choose(self, connection: ssl.SSLSocket | ssl.SSLObject, name: str | None, first: ssl.SSLContext) -> None:
        connection.context = self._current
