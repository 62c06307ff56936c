"""The sockets of the control plane: one of the data directory's owner alone, and one for TCP, with TLS if given."""

import errno
import os
import socket
import ssl
import stat
from contextlib import suppress
from pathlib import Path

from forewarn.config.values import Endpoint
from forewarn.control.place import reachable, socket_path
from forewarn.core.errors import BadInput, ForewarnError, Unavailable

_BACKLOG = 2048


class UnixSocket:
    """The socket in the data directory; whoever may open the file is an operator."""

    def __init__(self, directory: Path) -> None:
        self._path = socket_path(directory)
        self._identity = (0, 0)

    def open(self) -> socket.socket:
        """Return it, listening; raise what is in the way."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with reachable(self._path) as name:
                _remove_stale(self._path, name)
                _bind(listener, name)
            found = self._path.lstat()
        except OSError as error:
            listener.close()
            raise BadInput(
                f"{self._path} cannot be made: {error.strerror or error}; give a directory you may write to"
            ) from None
        except ForewarnError:
            listener.close()
            raise
        self._identity = (found.st_dev, found.st_ino)
        return listener

    def remove(self) -> None:
        """Take the file away, if it is still the one that was made."""
        with suppress(OSError):
            found = self._path.lstat()
            if (found.st_dev, found.st_ino) == self._identity:
                self._path.unlink()


def _bind(listener: socket.socket, name: str) -> None:
    """Make the socket such that nobody else could open it even for a moment."""
    mask = os.umask(0o177)
    try:
        listener.bind(name)
    finally:
        os.umask(mask)
    listener.listen(_BACKLOG)
    listener.setblocking(False)


def _remove_stale(path: Path, name: str) -> None:
    """Remove a socket that a service left behind, and nothing else."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise BadInput(f"{path} is in the way and is not a socket; move it elsewhere")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(name)
        except ConnectionRefusedError:
            path.unlink()
            return
        except BlockingIOError:
            pass  # somebody listens, with many waiting
    raise Unavailable(f"another service answers on {path}; stop it, or give another --data")


def listen(endpoint: Endpoint) -> socket.socket:
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


def load_certificate(certificate: Path, key: Path | None) -> ssl.SSLContext:
    """Return what TLS is spoken with; raise BadInput that names the file that is wrong."""
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
