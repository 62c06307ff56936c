"""Sockets, limits and certificate of the control plane. It is light: the framework of the API is not loaded here."""

import errno
import os
import socket
import ssl
from pathlib import Path

import msgspec

from forewarn import socket_files
from forewarn.config.values import ListenAddress
from forewarn.control.socket_path import short_path, socket_path
from forewarn.core.errors import BadInput, Unavailable
from forewarn.socket_activation import PassedSockets

_BACKLOG = 2048
_OWNER_ALONE = 0o177


class ServerLimits(msgspec.Struct, frozen=True):
    """What callers may take of the server; times are in seconds."""

    connections: int = 4_096
    """TCP connections; those over the unix socket have no limit."""
    per_address: int = 1_024
    """Connections of one address, so that it cannot use all of them."""
    arrival: float = 20.0
    """How long the head of a request may take to arrive."""
    body_arrival: float = 600.0
    """How long its body may take: a large fleet comes over a slow line."""
    unread: int = 64 * 1024 * 1024
    """Bytes of a body of unknown length that are read and dropped after its request was refused."""
    log_interval: float = 60.0
    """The time between log lines about invalid requests: callers without a token must not fill the log."""


LIMITS = ServerLimits()


def most_connections(most: int = LIMITS.connections) -> int:
    """Return the limit of TCP connections: at most a quarter of the file descriptors of the process."""
    try:
        import resource  # noqa: PLC0415 - Windows has none, and no such limit
    except ImportError:
        return most
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return most if hard == resource.RLIM_INFINITY else min(most, hard // 4)


class UnixSocket:
    """The socket in the data directory; any user that may open it is an operator."""

    def __init__(self, directory: Path) -> None:
        self._path = socket_path(directory)
        self._made = (0, 0)
        self.is_open = False

    def open(self) -> socket.socket:
        """Return the listening socket; raise if that is not possible."""
        try:
            with short_path(self._path) as name:
                listener = socket_files.listen(
                    self._path,
                    name=name,
                    mask=_OWNER_ALONE,
                    backlog=_BACKLOG,
                    owner="service",
                    remedy="use another --data",
                )
            self._made = socket_files.identity(self._path)
            self.is_open = True
        except OSError as error:
            raise BadInput(
                f"cannot create {self._path}: {error.strerror or error}; use a writable directory"
            ) from None
        return listener

    def adopt(self, passed: socket.socket) -> socket.socket:
        """Return a socket that a service manager opened, and that stays its own."""
        path = os.fsdecode(passed.getsockname())
        self.is_open |= os.path.realpath(path) == os.path.realpath(self._path)
        return passed

    def remove(self) -> None:
        """Remove the file, if it is still the one that was created."""
        socket_files.remove(self._path, self._made)


class ControlSockets:
    """All sockets of the control plane."""

    def __init__(
        self,
        directory: Path,
        endpoint: ListenAddress | None = None,
        passed: PassedSockets = PassedSockets(),  # noqa: B008 - frozen
    ) -> None:
        self._unix = UnixSocket(directory)
        self._endpoint = endpoint
        self._passed = passed
        self.tcp: tuple[socket.socket, ...] = ()
        """The TCP sockets, once open."""
        self.all: tuple[socket.socket, ...] = ()
        """These and the unix sockets, once open."""

    def open(self) -> None:
        """Listen; connections wait until the server accepts them. Raise if that is not possible."""
        self.tcp = (*self._passed.control,) or ((listen(self._endpoint),) if self._endpoint else ())
        self.all = (*self.tcp, *(self._unix.adopt(each) for each in self._passed.control_socket))
        if not self._unix.is_open:  # commands look for the service in its data directory
            try:
                self.all += (self._unix.open(),)
            except BaseException:
                self.close()
                raise

    def remove_file(self) -> None:
        """Remove the file of the unix socket, so that no further command connects."""
        self._unix.remove()

    def close(self) -> None:
        """Close all sockets and remove the file; do nothing if none is open."""
        self.remove_file()
        for each in self.all:
            each.close()
        self.tcp = self.all = ()


def listen(endpoint: ListenAddress) -> socket.socket:
    """Return a listening TCP socket; raise Unavailable with the reason and the remedy."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            endpoint.host, endpoint.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError:
        raise Unavailable(
            f"cannot listen for operators on {endpoint}: {endpoint.host!r} is not an address of this machine"
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
        raise Unavailable(f"cannot listen for operators on {endpoint}: {_remedy(error)}") from None
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
    """Return the TLS context, or None without a certificate; raise BadInput that names the invalid file."""
    if certificate is None:
        if key is not None:
            raise BadInput("control_key needs control_certificate; set both or neither")
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        said = error.strerror or str(error)
        raise BadInput(
            f"control_certificate {certificate} and control_key {key or certificate} cannot be used: {said};"
            " use a certificate and its key, both in PEM"
        ) from None
    return context


class Certificate:
    """The certificate of a listener; a renewed one applies to new connections."""

    def __init__(self, current: ssl.SSLContext) -> None:
        self._current = current
        self.context = current
        """The TLS context of the listener."""
        self.context.sni_callback = self._choose

    def renew(self, current: ssl.SSLContext) -> None:
        self._current = current

    def _choose(self, connection: ssl.SSLSocket | ssl.SSLObject, name: str | None, first: ssl.SSLContext) -> None:
        connection.context = self._current
