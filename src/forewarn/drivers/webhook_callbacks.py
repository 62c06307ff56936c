"""Listener for callbacks of a webhook receiver; accepts signed messages only.

POST /   {"event": "…", "outcome": "done", "hosts": {…}, "detail": "…"}

    204 accepted
    400 cannot be parsed
    401 signature invalid, or too old
    404 event unknown, or its record was deleted
    503 busy; send it again
"""

import socket
import threading
from collections.abc import Callable
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import msgspec

from forewarn import signature
from forewarn.config.values import ListenAddress
from forewarn.core.errors import BadInput, NotAllowed, Unavailable, Unknown
from forewarn.drivers.webhook_replies import WebhookReply

_LARGEST = 64 * 1024
_LONGEST_SILENCE = 10.0


class Callback(WebhookReply, frozen=True, kw_only=True):
    """A callback of a receiver."""

    event: str


class CallbackListener:
    """HTTP server for callbacks; listens until closed."""

    def __init__(
        self, endpoint: ListenAddress, secret: str, now: Callable[[], datetime], take: Callable[[Callback], None]
    ) -> None:
        try:
            self._server = _CallbackServer(endpoint, _handler(secret, now, take))
        except OSError as error:
            raise BadInput(
                f"setting 'callback' of driver 'webhook': cannot listen on {endpoint}: {error.strerror or error}"
            ) from None
        self.port = int(self._server.server_address[1])
        threading.Thread(target=self._server.serve_forever, args=(0.1,), name="callbacks", daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _CallbackServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, endpoint: ListenAddress, handler: type[BaseHTTPRequestHandler]) -> None:
        self.address_family = socket.AF_INET6 if ":" in endpoint.host else socket.AF_INET
        super().__init__((endpoint.host, endpoint.port), handler)


def _handler(
    secret: str, now: Callable[[], datetime], take: Callable[[Callback], None]
) -> type["_CallbackRequestHandler"]:
    """Return one handler class per listener, as ``http.server`` requires."""

    class CallbackHandler(_CallbackRequestHandler):
        def accept(self, body: bytes) -> None:
            signature.verify(secret, dict(self.headers.items()), body, now())
            take(msgspec.json.decode(body, type=Callback))

    return CallbackHandler


class _CallbackRequestHandler(BaseHTTPRequestHandler):
    timeout = _LONGEST_SILENCE
    server_version = "Forewarn"
    sys_version = ""

    def do_POST(self) -> None:
        try:
            self.accept(self._body())
        except NotAllowed as error:
            self._answer(401, str(error))
        except (BadInput, msgspec.DecodeError, UnicodeDecodeError) as error:
            self._answer(400, str(error))
        except Unknown as error:
            self._answer(404, str(error))
        except (Unavailable, OSError) as error:
            self._answer(503, str(error))
        else:
            self._answer(204)

    def accept(self, body: bytes) -> None:
        raise NotImplementedError

    def _body(self) -> bytes:
        length = self.headers.get("Content-Length", "")
        if not length.isascii() or not length.isdigit() or len(length) > 9 or int(length) > _LARGEST:
            raise BadInput(f"the body has no Content-Length, or is longer than {_LARGEST} bytes")
        return self.rfile.read(int(length))

    def _answer(self, status: int, said: str = "") -> None:
        self.close_connection = True
        content = f"{said}\n".encode() if said else b""
        self.send_response(status)
        self.send_header("Connection", "close")
        if status != 204:
            self.send_header("Content-Type", "text/plain; charset=utf-8")
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: unauthenticated callers could fill the log."""
