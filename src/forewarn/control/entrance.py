"""The control plane as the service opens and closes it: its sockets, and the API that answers on them."""

import ssl
from pathlib import Path

from forewarn.config.values import Endpoint
from forewarn.control.api.app import make_app
from forewarn.control.api.plane import Plane
from forewarn.control.server import ControlServer
from forewarn.control.sockets import UnixSocket, listen, load_certificate
from forewarn.core.errors import BadInput


class Entrance:
    """Answers operators and owners, on the unix socket in ``directory`` and on a TCP port if one is given."""

    def __init__(
        self,
        plane: Plane,
        directory: Path,
        endpoint: Endpoint | None = None,
        certificate: Path | None = None,
        key: Path | None = None,
    ) -> None:
        self._plane = plane
        self._unix = UnixSocket(directory)
        self._endpoint = endpoint
        self._certificate = certificate
        self._key = key
        self._server: ControlServer | None = None
        self.port = 0
        """The TCP port, once it is open."""

    async def open(self) -> None:
        """Begin to answer; raise what is in the way."""
        if self._key and not self._certificate:
            raise BadInput("control_key is given without control_certificate; give both, or none")
        tls: ssl.SSLContext | None = load_certificate(self._certificate, self._key) if self._certificate else None
        sockets = [listen(self._endpoint)] if self._endpoint else []
        self.port = int(sockets[0].getsockname()[1]) if sockets else 0
        try:
            sockets.append(self._unix.open())
        except BaseException:
            for each in sockets:
                each.close()
            raise
        await self._plane.follow()
        self._server = ControlServer(make_app(self._plane), sockets, tls)
        await self._server.open()

    async def close(self) -> None:
        """Take nobody more in, and let what is being answered be answered."""
        if self._server is None:
            return
        self._unix.remove()
        self._plane.changes.close()
        await self._server.close()
        self._server = None
