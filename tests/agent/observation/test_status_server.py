"""Metrics, health and status over HTTP, and who may not have them."""

import asyncio
import http.client
import json
from collections.abc import Awaitable, Callable

import pytest

from forewarn.agent.decision.run_counters import RunCounters
from forewarn.agent.observation import status_server
from forewarn.agent.observation.metrics import render
from forewarn.agent.observation.status import AgentStatus
from forewarn.agent.observation.status_server import StatusServer
from forewarn.config.values import ListenAddress
from forewarn.core.errors import Unavailable
from tests.agent.samples import status, view

LOOPBACK = ListenAddress("127.0.0.1", 0)


def visit(
    check: Callable[[StatusServer], Awaitable[None]],
    result: Callable[[], AgentStatus] = lambda: status(view()),
    timeout: float = status_server.TIMEOUT,
) -> None:
    """Run a front for as long as the check takes."""

    async def run() -> None:
        opened = StatusServer(LOOPBACK, result, RunCounters(), timeout=timeout)
        await opened.open()
        try:
            async with asyncio.timeout(60):
                await check(opened)
        finally:
            await opened.close()

    asyncio.run(run())


async def said(opened: StatusServer, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", opened.port)
    writer.write(request)
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


async def get(opened: StatusServer, path: str, method: str = "GET") -> tuple[int, str, bytes]:
    """Ask with the standard library's client, which knows HTTP better than we do."""

    def ask() -> tuple[int, str, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", opened.port, timeout=30)
        connection.request(method, path, headers={"Accept-Encoding": "gzip"})
        answer = connection.getresponse()
        found = answer.status, answer.headers["Content-Type"], answer.read()
        connection.close()
        return found

    return await asyncio.to_thread(ask)


def test_metrics_are_what_the_tally_renders() -> None:
    """In the type that Prometheus expects, also when something is asked behind the path."""

    async def check(opened: StatusServer) -> None:
        code, kind, body = await get(opened, "/metrics?name=x")

        assert (code, kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
        assert body == render(RunCounters(), status(view()))

    visit(check)


def test_health_is_200_when_all_is_well() -> None:
    """With a body that says so."""

    async def check(opened: StatusServer) -> None:
        code, kind, body = await get(opened, "/healthz")

        assert (code, kind) == (200, "application/json")
        assert json.loads(body) == {"healthy": True, "reasons": []}

    visit(check)


@pytest.mark.parametrize("ill", [{"trouble": "no answer"}, {"memory_trouble": "disk full"}])
def test_health_is_503_with_the_reason(ill: dict[str, str]) -> None:
    """An endpoint that is silent, and a memory that cannot be written."""

    async def check(opened: StatusServer) -> None:
        code, _, body = await get(opened, "/healthz")

        assert code == 503
        assert json.loads(body) == {"healthy": False, "reasons": [*ill.values()]}

    visit(check, lambda: status(**ill))  # type: ignore[arg-type]


def test_the_status_is_told_whole() -> None:
    """As JSON, with the events in it."""

    async def check(opened: StatusServer) -> None:
        _, _, body = await get(opened, "/status")

        assert json.loads(body)["events"][0]["event"]["EventType"] == "Reboot"

    visit(check)


def test_head_is_get_without_a_body() -> None:
    """The length is told all the same."""

    async def check(opened: StatusServer) -> None:
        _, _, body = await get(opened, "/healthz")
        head, _, rest = (await said(opened, b"HEAD /healthz HTTP/1.1\r\n\r\n")).partition(b"\r\n\r\n")

        assert f"Content-Length: {len(body)}".encode() in head
        assert rest == b""

    visit(check)


def test_other_paths_and_methods_are_refused() -> None:
    """404 and 405, each with a sentence."""

    async def check(opened: StatusServer) -> None:
        assert (await get(opened, "/"))[0] == 404
        assert (await get(opened, "/status", "POST"))[0] == 405
        assert b"Allow: GET, HEAD" in await said(opened, b"DELETE /status HTTP/1.1\r\n\r\n")

    visit(check)


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (b"\x16\x03\x01 nonsense\r\n\r\n", b"400"),
        (b"GET /metrics SPDY/3\r\n\r\n", b"400"),
        (b"GET /metrics HTTP/1.1\r\nX: " + b"y" * 100_000 + b"\r\n\r\n", b"431"),
    ],
)
def test_nonsense_is_answered_and_survived(request_: bytes, code: bytes) -> None:
    """Whoever speaks no HTTP, or too much of it, is told so; the next is answered."""

    async def check(opened: StatusServer) -> None:
        assert (await said(opened, request_)).startswith(b"HTTP/1.1 " + code)
        assert (await get(opened, "/healthz"))[0] == 200

    visit(check)


def test_who_stays_silent_is_let_go() -> None:
    """A request that never ends costs its connection, and nothing else."""

    async def check(opened: StatusServer) -> None:
        assert await said(opened, b"GET /metrics HT") == b""

    visit(check, timeout=0.05)


def test_connections_are_bounded() -> None:
    """Beyond the bound a connection is closed unanswered; when one is free, the next is answered."""

    async def check(opened: StatusServer) -> None:
        silent = [
            await asyncio.open_connection("127.0.0.1", opened.port) for _ in range(status_server.MOST_CONNECTIONS)
        ]
        async with asyncio.timeout(status_server.TIMEOUT / 2):  # nobody else is let go so soon
            assert await said(opened, b"") == b""
        for _, writer in silent:
            writer.close()
            await writer.wait_closed()
        for _ in range(100):
            if (await said(opened, b"GET /healthz HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 200"):
                return
        raise AssertionError("nobody was answered any more")

    visit(check)


def test_closing_lets_go_of_who_asks() -> None:
    """A connection that is open does not keep the agent from ending."""

    async def run() -> None:
        opened = StatusServer(LOOPBACK, status, RunCounters())
        await opened.open()
        reader, writer = await asyncio.open_connection("127.0.0.1", opened.port)
        writer.write(b"GET /healthz HTTP/1.1\r\n\r\n")
        await reader.readuntil(b"\r\n")
        await opened.close()
        writer.close()

    asyncio.run(asyncio.wait_for(run(), status_server.TIMEOUT / 2))


def test_a_port_that_is_taken_is_named() -> None:
    """The sentence has the setting, the reason and the remedy."""

    async def check(opened: StatusServer) -> None:
        second = StatusServer(ListenAddress("127.0.0.1", opened.port), status, RunCounters())
        with pytest.raises(Unavailable, match=rf"http = '127.0.0.1:{opened.port}'.*in use.*off"):
            await second.open()

    visit(check)
