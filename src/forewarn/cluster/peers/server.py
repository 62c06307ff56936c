"""The peer port: answers the other nodes of the cluster, and no other callers.

The TLS context refuses callers without a certificate of the cluster's authority, before anything is read. What a node
says about the operator it speaks for is therefore trusted here, and nowhere else.
"""

import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from forewarn.cluster.leadership import Leadership
from forewarn.cluster.peers.messages import CONTROL, LARGEST_MESSAGE, MISDIRECTED, STATUS, encode
from forewarn.control.bodies import NodeStatus
from forewarn.control.server.http_server import ControlServer
from forewarn.control.server.sockets import Certificate, ServerLimits
from forewarn.core.errors import ForewarnError

AnswerMessage = Callable[[bytes], Awaitable[bytes]]
"""Answers a message with another."""
AnswerControl = Callable[[Any, Any, Any], Awaitable[None]]
"""Answers a request of the control API, as an ASGI application does."""
LIMITS = ServerLimits(connections=1_024, per_address=256, arrival=10.0)


class _TooLarge(Exception):
    """A message is larger than any can be."""


class PeerServer:
    """Listens on the peer port."""

    def __init__(
        self,
        leadership: Leadership,
        listening: socket.socket,
        certificate: Certificate,
        messages: Mapping[str, AnswerMessage],
        limits: ServerLimits = LIMITS,
    ) -> None:
        """``messages`` are the paths that answer messages."""
        self.control: AnswerControl | None = None
        """Answers requests of the control API; None until that has started."""
        self.status: Callable[[], NodeStatus] | None = None
        """Says how this node is."""
        self._leadership = leadership
        self._messages = messages
        self._server = ControlServer(self._answer, [listening], certificate.context, limits)

    async def open(self) -> None:
        await self._server.open()

    async def close(self) -> None:
        await self._server.close()

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request, where this node leads."""
        path: str = scope["path"]
        if path == STATUS and self.status:
            await _send(send, 200, encode(self.status()))
        elif not self._leadership.is_leading:
            await _send(send, MISDIRECTED, encode(self._leadership.leader))
        elif path.startswith(CONTROL + "/"):
            if self.control is None:
                await _send(send, 503, b"this node is starting")
            else:
                await self.control(scope, receive, send)
        elif scope["method"] == "POST" and (answer := self._messages.get(path)):
            await _send(send, *await _answered(answer, receive))
        else:
            await _send(send, 404, b"there is nothing here; does the other node run another release?")


async def _answered(answer: AnswerMessage, receive: Any) -> tuple[int, bytes]:
    try:
        return 200, await answer(await _read(receive))
    except _TooLarge:
        return 413, b"the message is too large"
    except msgspec.DecodeError as error:
        return 400, f"the message cannot be read ({error}); does the other node run another release?".encode()
    except ForewarnError as error:
        return 503, str(error).encode()


async def _read(receive: Any) -> bytes:
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > LARGEST_MESSAGE:
            raise _TooLarge
        if not message.get("more_body"):
            return bytes(body)


async def _send(send: Any, status: int, body: bytes) -> None:
    headers = [(b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
