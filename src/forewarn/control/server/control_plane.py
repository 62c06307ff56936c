"""Opens and closes the control plane: the API server on its sockets."""

import socket
import ssl
from pathlib import Path

from litestar import Litestar

from forewarn.control.api.app import make_app
from forewarn.control.api.context import ApiContext
from forewarn.control.server.http_server import ControlServer
from forewarn.control.server.sockets import LIMITS, Certificate, ControlSockets, ServerLimits, load_certificate


class ControlPlane:
    """Serves the API on its sockets; opens them if they are not open yet."""

    def __init__(
        self,
        context: ApiContext,
        sockets: ControlSockets,
        certificate: Path | None = None,
        key: Path | None = None,
        limits: ServerLimits = LIMITS,
    ) -> None:
        self.context = context
        self._sockets = sockets
        self._certificate = certificate
        self._key = key
        self._limits = limits
        self.app: Litestar | None = None
        """The application, once open."""
        self._server: ControlServer | None = None
        self._tls: Certificate | None = None

    @property
    def port(self) -> int:
        """The TCP port, once open."""
        return int(self.listening[0].getsockname()[1]) if self.listening else 0

    @property
    def listening(self) -> tuple[socket.socket, ...]:
        """The TCP sockets, once open."""
        return self._sockets.tcp

    async def open(self) -> None:
        if context := load_certificate(self._certificate, self._key):
            self._tls = Certificate(context)
        if not self._sockets.all:
            self._sockets.open()
        self.context.follow()
        tls = self._tls.context if self._tls else None
        self.app = make_app(self.context)
        self._server = ControlServer(self.app, self._sockets.all, tls, self._limits, self.context.durations)
        await self._server.open()

    def renew_certificate(self, context: ssl.SSLContext) -> None:
        """Use a renewed certificate for new connections."""
        if self._tls:
            self._tls.renew(context)

    async def close(self) -> None:
        """Stop accepting connections, and finish pending requests."""
        if self._server is None:
            return
        self._sockets.remove_file()
        self.context.changes.close()
        await self._server.close()
        self._sockets.close()
        self._server = None
