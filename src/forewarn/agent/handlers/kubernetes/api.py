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

if TYPE_CHECKING:
    # Both are costly to load, and an agent without this handler does not need them.
    import ssl
    from http.client import HTTPConnection, HTTPResponse

Decoded = TypeVar("Decoded")
Method = Literal["GET", "POST", "PATCH", "DELETE"]

MERGE = "application/merge-patch+json"
"""Lists are replaced whole."""
STRATEGIC = "application/strategic-merge-patch+json"
"""Lists are merged by the key that Kubernetes knows, such as a condition's type."""


class KubernetesApi:
    """A conversation with one API server; a context manager that closes the connection."""

    def __init__(self, access: KubernetesAccess, patience: Callable[[], float]) -> None:
        self._access = access
        self._patience = patience
        """Tells how many seconds the next answer may take."""
        self._connection: HTTPConnection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._hang_up()

    def ask(
        self,
        method: Method,
        path: str,
        into: type[Decoded],
        body: object = None,
        content: str = "application/json",
    ) -> Decoded:
        """Return the answer's body as a record; raise what ``troubles`` tells where it is no success."""
        encoded = None if body is None else msgspec.json.encode(body)
        try:
            return self._ask(method, path, into, encoded, content)
        except ApiForbidden as error:
            # An API server that has just started knows nobody's rights for a moment.
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
        from http.client import HTTPException  # noqa: PLC0415 as above

        headers = {"Accept": "application/json", "User-Agent": "forewarn-agent"}
        if body is not None:
            headers["Content-Type"] = content
        # Read for each request: the token of a pod is replaced about once an hour.
        if token := self._access.token.read().strip():
            headers["Authorization"] = f"Bearer {token}"
        while True:
            is_old = self._connection is not None
            try:
                answer = self._send(method, path, body, headers)
                return answer.status, answer.read()
            except (OSError, HTTPException) as error:
                self._hang_up()
                if not is_old or isinstance(error, TimeoutError):
                    raise error_of_failure(error, self._access.url) from None

    def _send(self, method: Method, path: str, body: bytes | None, headers: dict[str, str]) -> "HTTPResponse":
        if self._connection is None:
            self._connection = self._connect()
        self._connection.timeout = self._patience()
        if self._connection.sock is not None:
            self._connection.sock.settimeout(self._connection.timeout)
        self._connection.request(method, urlsplit(self._access.url).path.rstrip("/") + path, body, headers)
        return self._connection.getresponse()

    def _connect(self) -> "HTTPConnection":
        from http.client import HTTPConnection, HTTPSConnection  # noqa: PLC0415 as above

        parts = urlsplit(self._access.url)
        host = parts.hostname or ""
        if parts.scheme == "http":
            return HTTPConnection(host, parts.port or 80)
        return HTTPSConnection(host, parts.port or 443, context=self._tls())

    def _tls(self) -> "ssl.SSLContext":
        import ssl  # noqa: PLC0415 as above

        access = self._access
        try:
            context = ssl.create_default_context(cadata=access.authority.read() if access.authority else None)
            if access.certificate:
                _show_certificate(context, access)
        except (ssl.SSLError, OSError) as error:
            raise BadInput(
                f"a certificate or key for the API server {access.url} cannot be used ({error.strerror or error});"
                " it must be a PEM file, and the key must belong to the certificate and have no password"
            ) from None
        return context

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _show_certificate(context: "ssl.SSLContext", access: KubernetesAccess) -> None:
    # OpenSSL takes files only; ours is readable for nobody else, and gone at once.
    with tempfile.TemporaryDirectory(prefix="forewarn-") as directory:
        file = Path(directory) / "certificate.pem"
        file.write_text(f"{access.certificate.read()}\n{access.key.read() if access.key else ''}", encoding="utf-8")
        context.load_cert_chain(file, password="")
