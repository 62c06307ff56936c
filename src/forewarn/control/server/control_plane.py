"""Opens and closes the control plane: its sockets, and the API server on them."""

import ssl
from pathlib import Path
from socket import socket

from forewarn.config.values import ListenAddress
from forewarn.control.api.app import make_app
from forewarn.control.api.context import ApiContext
from forewarn.control.server.http_server import ControlServer
from forewarn.control.server.sockets import Certificate, UnixSocket, listen, load_certificate
from forewarn.socket_activation import PassedSockets


class ControlPlane:
    """Serves the API on the unix socket in ``directory``, and on a TCP port if one is given."""

    def __init__(
        self,
        plane: ApiContext,
        directory: Path,
        endpoint: ListenAddress | None = None,
        certificate: Path | None = None,
        key: Path | None = None,
        passed: PassedSockets = PassedSockets(),  # noqa: B008 - frozen
    ) -> None:
        self._plane = plane
        self._unix = UnixSocket(directory)
        self._endpoint = endpoint
        self._certificate = certificate
        self._key = key
        self._passed = passed
        self._server: ControlServer | None = None
        self._tls: Certificate | None = None
        self.port = 0
        """The TCP port, once open."""
        self.listening: tuple[socket, ...] = ()
        """The TCP sockets, once open."""

    async def open(self) -> None:
        """Start serving; raise if that is not possible."""
        if context := load_certificate(self._certificate, self._key):
            self._tls = Certificate(context)
        sockets = [*self._passed.control] or ([listen(self._endpoint)] if self._endpoint else [])
        self.port = int(sockets[0].getsockname()[1]) if sockets else 0
        self.listening = tuple(sockets)
        try:
            sockets += [self._unix.adopt(each) for each in self._passed.control_socket]
            if not self._unix.is_open:  # commands look for the service in its data directory
                sockets.append(self._unix.open())
        except BaseException:
            for each in sockets:
                each.close()
            raise
        self._plane.follow()
        self._server = ControlServer(make_app(self._plane), sockets, self._tls.context if self._tls else None)
        await self._server.open()

    def renew_certificate(self, context: ssl.SSLContext) -> None:
        """Use a renewed certificate for new connections."""
        if self._tls:
            self._tls.renew(context)

    async def close(self) -> None:
        """Stop accepting connections, and finish pending requests."""
        if self._server is None:
            return
        self._unix.remove()
        self._plane.changes.close()
        await self._server.close()
        self._server = None
