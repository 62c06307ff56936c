"""HTTP server for the agent's metrics, health and status; read-only, one request per connection."""

import asyncio
import os
from collections.abc import Callable, Iterable
from http import HTTPStatus

import msgspec

from forewarn.agent.decision.run_counters import RunCounters
from forewarn.agent.observation import metrics
from forewarn.agent.observation.status import AgentStatus
from forewarn.config.values import ListenAddress
from forewarn.core.errors import Unavailable

LONGEST_HEAD = 8 * 1024
MOST_CONNECTIONS = 16
TIMEOUT = 10.0
"""Seconds for the whole request and response."""

_JSON = "application/json"
_REUSE = os.name == "posix"  # on Windows the option means something else: sharing the port


class _StatusResponse(msgspec.Struct, frozen=True):
    status: HTTPStatus
    body: bytes
    content_type: str = _JSON
    headers: tuple[str, ...] = ()


class _Health(msgspec.Struct, frozen=True):
    """Response body of /healthz."""

    healthy: bool
    reasons: tuple[str, ...]


class StatusServer:
    """Serves GET and HEAD."""

    def __init__(
        self,
        endpoint: ListenAddress,
        status: Callable[[], AgentStatus],
        counters: RunCounters,
        handlers: Iterable[str] = (),
        timeout: float = TIMEOUT,
    ) -> None:
        self._endpoint = endpoint
        self._status = status
        self._counters = counters
        self._handlers = tuple(handlers)
        self._timeout = timeout
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._answers: dict[str, Callable[[], _StatusResponse]] = {
            "/metrics": self._metrics,
            "/healthz": self._health,
            "/status": self._whole_status,
        }

    async def open(self) -> None:
        """Start listening; raise Unavailable with the cause and the remedy."""
        try:
            self._server = await asyncio.start_server(
                self._serve_connection,
                self._endpoint.host,
                self._endpoint.port,
                limit=LONGEST_HEAD,
                reuse_address=_REUSE,
            )
        except OSError as error:
            # The event loop wraps the system's message in its own.
            said = os.strerror(error.errno).lower() if error.errno else str(error)
            raise Unavailable(
                f'cannot listen on http = {str(self._endpoint)!r}: {said}; set another HOST:PORT, or http = "off"'
            ) from None

    @property
    def port(self) -> int:
        """The listening port, also if the configured port is 0."""
        return int(self._server.sockets[0].getsockname()[1]) if self._server else self._endpoint.port

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            tasks = [*self._connections]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._server.wait_closed()

    async def _serve_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 the server runs each connection as a task
        self._connections.add(task)
        try:
            if len(self._connections) <= MOST_CONNECTIONS:
                async with asyncio.timeout(self._timeout):
                    await self._serve(reader, writer)
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            writer.transport.abort()
        finally:
            self._connections.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            answer = _problem(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the request is too long")
            method = ""
        else:
            method, answer = self._answer(head)
        writer.write(_rendered(answer, with_body=method != "HEAD"))
        await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
        # Closing with unread input resets the connection, and the response could be lost.
        while await reader.read(LONGEST_HEAD):
            pass

    def _answer(self, head: bytes) -> tuple[str, _StatusResponse]:
        words = head.partition(b"\r\n")[0].decode("latin-1").split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            return "", _problem(HTTPStatus.BAD_REQUEST, "not an HTTP/1.1 request")
        method, target, _ = words
        found = self._answers.get(target.partition("?")[0])
        if found is None:
            known = ", ".join(self._answers)
            return method, _problem(HTTPStatus.NOT_FOUND, f"unknown path; known paths: {known}")
        if method not in ("GET", "HEAD"):
            refused = _problem(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD are allowed")
            return method, msgspec.structs.replace(refused, headers=("Allow: GET, HEAD",))
        return method, found()

    def _metrics(self) -> _StatusResponse:
        return _StatusResponse(
            HTTPStatus.OK, metrics.render(self._counters, self._status(), self._handlers), metrics.CONTENT_TYPE
        )

    def _health(self) -> _StatusResponse:
        reasons = self._status().unhealthy_reasons
        status = HTTPStatus.SERVICE_UNAVAILABLE if reasons else HTTPStatus.OK
        return _StatusResponse(status, msgspec.json.encode(_Health(not reasons, reasons)) + b"\n")

    def _whole_status(self) -> _StatusResponse:
        return _StatusResponse(HTTPStatus.OK, msgspec.json.encode(self._status()) + b"\n")


def _problem(status: HTTPStatus, said: str) -> _StatusResponse:
    return _StatusResponse(status, msgspec.json.encode({"error": said}) + b"\n")


def _rendered(answer: _StatusResponse, *, with_body: bool) -> bytes:
    head = [
        f"HTTP/1.1 {answer.status.value} {answer.status.phrase}",
        f"Content-Type: {answer.content_type}",
        f"Content-Length: {len(answer.body)}",
        "Cache-Control: no-store",
        "Connection: close",
        *answer.headers,
    ]
    return "\r\n".join([*head, "", ""]).encode("latin-1") + (answer.body if with_body else b"")
