"""Requests to a Kubernetes API server: JSON over one connection, each answered in time or one clear sentence.

Every request that is made here may be sent twice, so a connection that died while idle is simply opened again.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self, TypeVar
from urllib.parse import urlsplit

import msgspec

from forewarn.agent.handlers.kubernetes.access import KubernetesAccess
from forewarn.agent.handlers.kubernetes.errors import ApiForbidden, ApiUnable, error_of_failure, error_of_response
from forewarn.core.errors import BadInput
from forewarn.http.codec import HttpRequest, MalformedResponse, authority
from forewarn.http.connection import HttpClientConnection, TimeLimits, open_tcp

if TYPE_CHECKING:
    import socket
    import ssl

Decoded = TypeVar("Decoded")
Method = Literal["GET", "POST", "PATCH", "DELETE"]

MERGE = "application/merge-patch+json"
"""Lists are replaced whole."""
STRATEGIC = "application/strategic-merge-patch+json"
"""Lists are merged by the key that Kubernetes knows, such as a condition's type."""


_LARGEST = 1 << 28
"""Bytes that an answer may have: lists of a large cluster are long."""


class KubernetesApi:
    """A conversation with one API server; a context manager that closes the connection."""

    def __init__(self, access: KubernetesAccess, timeout: Callable[[], float]) -> None:
        self._access = access
        self._timeout = timeout
        """Tells how many seconds the next answer may take."""
        parts = urlsplit(access.url)
        self._scheme, self._host, self._path = parts.scheme, parts.hostname or "", parts.path.rstrip("/")
        self._port = parts.port or _default_port(parts.scheme)
        self._connection = HttpClientConnection(self._connect, _LARGEST)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def ask(
        self, method: Method, path: str, into: type[Decoded], body: object = None, content: str = "application/json"
    ) -> Decoded:
        """Return the answer's body as a record; raise the error from ``troubles`` if it failed."""
        encoded = None if body is None else msgspec.json.encode(body)
        try:
            return self._ask(method, path, into, encoded, content)
        except ApiForbidden as error:
            # An API server that has just started knows no permissions for a moment.
            if not self._is_ready():
                raise ApiUnable(str(error)) from None
        return self._ask(method, path, into, encoded, content)

    def _ask(self, method: Method, path: str, into: type[Decoded], body: bytes | None, content: str) -> Decoded:
        status, said = self._exchange(method, path, body, content)
        if not 200 <= status < 300:
            raise error_of_response(status, said, self._access.url)
        try:
            return msgspec.json.decode(said, type=into)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise error_of_failure(error, self._access.url) from None

    def _is_ready(self) -> bool:
        status, _ = self._exchange("GET", "/readyz", None, "")
        return status in {200, 404}  # 404: before Kubernetes 1.16

    def _exchange(self, method: Method, path: str, body: bytes | None, content: str) -> tuple[int, bytes]:
        headers = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "forewarn-agent"}
        if body is not None:
            headers["Content-Type"] = content
        # Read for each request: the token of a pod is replaced about once an hour.
        if token := self._access.token.read().strip():
            headers["Authorization"] = f"Bearer {token}"
        request = HttpRequest(
            method=method,
            target=self._path + path,
            host=authority(self._host, self._port, _default_port(self._scheme)),
            headers=tuple(headers.items()),
            body=body,
        )
        seconds = self._timeout()
        try:
            response = self._connection.exchange(request, TimeLimits(connect=seconds, silence=seconds))
        except (OSError, MalformedResponse) as error:
            raise error_of_failure(error, self._access.url) from None
        return response.status, response.body

    def _connect(self, seconds: float) -> "socket.socket":
        return open_tcp(self._host, self._port, seconds, self._tls() if self._scheme != "http" else None)

    def _tls(self) -> "ssl.SSLContext":
        import ssl  # noqa: PLC0415 it is costly to load, and an agent without this handler does not need it

        from forewarn.http.tls import make_client_context  # noqa: PLC0415 as above

        access = self._access
        try:
            context = make_client_context(pem=access.authority.read() if access.authority else None)
            if access.certificate:
                _show_certificate(context, access)
        except (ssl.SSLError, OSError) as error:
            raise BadInput(
                f"a certificate or key for the API server {access.url} cannot be used ({error.strerror or error});"
                " it must be a PEM file, and the key must belong to the certificate and have no password"
            ) from None
        return context


def _default_port(scheme: str) -> int:
    return 80 if scheme == "http" else 443


def _show_certificate(context: "ssl.SSLContext", access: KubernetesAccess) -> None:
    # OpenSSL accepts files only; ours is private, and deleted at once.
    with tempfile.TemporaryDirectory(prefix="forewarn-") as directory:
        file = Path(directory) / "certificate.pem"
        file.write_text(f"{access.certificate.read()}\n{access.key.read() if access.key else ''}", encoding="utf-8")
        context.load_cert_chain(file, password="")
