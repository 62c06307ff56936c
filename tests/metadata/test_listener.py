"""Where callers arrive: sockets, limits on connections, and the end."""

import asyncio
import errno
import logging
import os
import socket
from typing import Any

import pytest

from forewarn.core.errors import Unavailable
from forewarn.metadata.limits import Limits
from forewarn.metadata.listener import MetadataListener, adopt, bind
from tests.metadata.harness import EVENTS, RunningMetadataHarness, get, harness, on_both_loops, on_plain_asyncio, post


def test_a_port_in_use_is_said_with_its_remedy() -> None:
    """The sentence names the address and what to do."""
    (taken,) = bind("127.0.0.1", 0)
    taken.listen()
    port = taken.getsockname()[1]
    with pytest.raises(Unavailable, match=rf"cannot listen on 127\.0\.0\.1:{port}: another program .* --metadata"):
        bind("127.0.0.1", port)
    taken.close()


@pytest.mark.parametrize(
    ("code", "remedy"),
    [(errno.EACCES, "above 1023"), (errno.EADDRNOTAVAIL, "no interface"), (errno.ENODEV, os.strerror(errno.ENODEV))],
)
def test_what_keeps_it_from_listening_is_said(monkeypatch: pytest.MonkeyPatch, code: int, remedy: str) -> None:
    """A privileged port, a foreign address and anything else are each one sentence."""

    def fail(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(socket.socket, "bind", fail)
    with pytest.raises(Unavailable, match=remedy):
        bind("127.0.0.1", 80)


def test_a_name_that_is_no_address_is_said() -> None:
    """A host that cannot be found is named."""
    with pytest.raises(Unavailable, match=r"'no\.such\.host\.invalid' is not an address"):
        bind("no.such.host.invalid", 80)


@pytest.mark.parametrize(("host", "family"), [("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6)])
def test_answers_travel_no_further_than_they_may(host: str, family: socket.AddressFamily) -> None:
    """A connection inherits the limit from the socket that accepts it."""
    (listening,) = bind(host, 0, ttl=1)
    level, option = (
        (socket.IPPROTO_IP, socket.IP_TTL)
        if family == socket.AF_INET
        else (socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS)
    )
    with listening, socket.socket(family) as caller:
        listening.listen()
        listening.setblocking(True)
        caller.connect(listening.getsockname()[:2])
        caller.send(b"GET")
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(level, option) == 1


def test_a_passed_socket_keeps_nothing_of_an_earlier_configuration() -> None:
    """It outlives the service, which may have been told otherwise meanwhile."""
    (listening,) = bind("127.0.0.1", 0)
    with listening:
        usual = listening.getsockopt(socket.IPPROTO_IP, socket.IP_TTL)
        adopt((listening,), 1)
        assert listening.getsockopt(socket.IPPROTO_IP, socket.IP_TTL) == 1
        adopt((listening,))
        assert listening.getsockopt(socket.IPPROTO_IP, socket.IP_TTL) == usual


@on_both_loops
async def test_nobody_is_let_in_before_the_start() -> None:
    """Until it starts, a listener refuses connections; a port that was taken meanwhile is said then."""
    async with harness() as service:
        listener = MetadataListener(service.registry, bind("127.0.0.1", 0))
        with socket.socket() as early, pytest.raises(ConnectionRefusedError):
            early.connect(("127.0.0.1", listener.port))
        (rival,) = bind("127.0.0.1", listener.port)
        rival.listen()
        with pytest.raises(Unavailable, match="another program listens there"):
            await listener.start()
        rival.close()
        await listener.stop()


@on_both_loops
async def test_a_listener_on_all_addresses_knows_ipv4_callers() -> None:
    """A caller over IPv4 that reaches an IPv6 socket is the VM with its IPv4 address."""
    async with harness() as service:
        listener = MetadataListener(service.registry, bind("::", 0))
        await listener.start()
        for request in (get(), get(EVENTS, "Connection: close")):
            with socket.socket() as wire:
                wire.setblocking(False)
                loop = asyncio.get_running_loop()
                await loop.sock_connect(wire, ("127.0.0.1", listener.port))
                await loop.sock_sendall(wire, request)
                assert (await loop.sock_recv(wire, 4096)).startswith(b"HTTP/1.1 200 OK")
        await listener.stop()


@on_both_loops
async def test_a_caller_that_asks_again_is_answered_again() -> None:
    """A connection that was answered without more ado serves on, whatever comes next, and ends in silence."""
    async with harness() as service:
        for more in (get(), post(b'{"StartRequests":[]}'), get() * 3, b"GARBAGE\r\n\r\n"):
            caller = await service.call(get())
            assert (await caller.answer()).status == 200
            assert len(service.registry) == 1
            await caller.send(more)
            assert (await caller.answer()).status == (400 if more.startswith(b"GARBAGE") else 200)
            caller.close()
            await service.settle()


@on_both_loops
async def test_a_caller_that_says_nothing_is_watched_and_closed() -> None:
    """A connection without a byte is taken in when its time comes, and closed when it stays idle."""
    async with harness() as service:
        caller = await service.call()
        service.listener._fast_path.accept(os.dup(caller.wire.fileno()), "127.0.0.1")
        assert len(service.registry) == 1
        service.move(76)
        assert len(service.registry) == 0


@on_both_loops
async def test_too_many_connections_are_refused() -> None:
    """Past the limit in all a new connection gets 503, whoever makes it; one that closes makes room."""
    async with harness(Limits(connections=2, connections_per_caller=0)) as service:
        first, second = await service.call(get()), await service.call(get())
        await asyncio.gather(first.answer(), second.answer())
        third = await service.call(get(), "127.0.0.2")
        answer = await third.answer()
        assert (answer.status, answer.fields["connection"], answer.fields["retry-after"]) == (503, "close", "1")
        assert await third.rest() == b""
        first.close()
        statuses = [(await service.ask(get(), "127.0.0.2")).status for _ in range(5)]
        assert statuses[-1] == 200


@on_both_loops
async def test_callers_that_are_nobody_leave_room_for_vms() -> None:
    """However many addresses they use, they have a quarter of the connections; what closes is free again."""
    async with harness(Limits(connections=8, connections_per_caller=2)) as service:
        strangers = [await service.call(get(), f"127.0.0.{number}") for number in (7, 8)]
        assert [(await each.answer()).status for each in strangers] == [403, 403]
        crowded = await service.call(get(), "127.0.0.9")
        assert (await crowded.answer()).status == 503
        assert (await service.ask(get())).status == 200

        strangers[0].close()
        statuses = [(await service.ask(get(), "127.0.0.9")).status for _ in range(5)]
        assert statuses[-1] == 403


@on_both_loops
async def test_too_many_connections_of_one_caller_are_refused() -> None:
    """Past its own limit a caller gets 429; others are not touched."""
    async with harness(Limits(connections_per_caller=1)) as service:
        caller = await service.call(get())
        await caller.answer()
        assert (await service.ask(get())).status == 429
        assert (await service.ask(get(), "127.0.0.2")).status == 200


@on_both_loops
async def test_a_limit_of_none_is_no_limit() -> None:
    """0 switches both limits off."""
    async with harness(Limits(rate=0.0, connections=0, connections_per_caller=0)) as service:
        callers = [await service.call(get()) for _ in range(200)]
        assert {(await caller.answer()).status for caller in callers} == {200}


@on_both_loops
async def test_connections_are_counted_until_they_close() -> None:
    """However they end, connections leave nothing behind."""
    async with harness() as service:
        await service.ask(get(EVENTS, "Connection: close"))
        await service.ask(get())
        await service.ask(b"GARBAGE\r\n\r\n")
        caller = await service.call(post(b"12345")[:-1])
        await service.settle()
        caller.close()
        await service.settle()
        await service.listener.stop()
        assert len(service.registry) == 0
        assert service.registry._open_of == {}


@on_both_loops
async def test_running_out_of_files_is_survived(caplog: pytest.LogCaptureFixture) -> None:
    """When no file is left, accepting pauses and is taken up again; whoever knocked is answered then."""
    async with harness(pause=0.01) as service:
        failures = [OSError(errno.EMFILE, "Too many open files")]
        (listening,) = service.listener._sockets
        accept = listening._accept  # type: ignore[attr-defined]

        class Failing:
            def _accept(self) -> Any:
                if failures:
                    raise failures.pop()
                return accept()

            def __getattr__(self, name: str) -> Any:
                return getattr(listening, name)

        loop = asyncio.get_running_loop()
        loop.remove_reader(listening)
        failing: Any = Failing()
        loop.add_reader(listening, service.listener._accept, failing)
        with caplog.at_level(logging.WARNING):
            assert (await service.ask(get())).status == 200
        assert "ulimit -n" in caplog.text


@on_both_loops
async def test_a_connection_that_was_lost_on_its_way_harms_no_other(caplog: pytest.LogCaptureFixture) -> None:
    """Linux tells of it when it is accepted; the next one is accepted after it, and no traceback is logged."""
    async with harness() as service:
        failures = [OSError(errno.EPERM, "by a firewall"), OSError(errno.EPROTO, "on its way")]
        (listening,) = service.listener._sockets
        accept = listening._accept  # type: ignore[attr-defined]

        class Failing:
            def _accept(self) -> Any:
                if failures:
                    raise failures.pop()
                return accept()

            def __getattr__(self, name: str) -> Any:
                return getattr(listening, name)

        loop = asyncio.get_running_loop()
        loop.remove_reader(listening)
        failing: Any = Failing()
        loop.add_reader(listening, service.listener._accept, failing)
        assert (await service.ask(get())).status == 200
        assert (failures, caplog.text) == ([], "")


@pytest.mark.end_to_end
@on_both_loops
async def test_a_large_document_is_sent_whole_to_a_fresh_connection() -> None:
    """What does not fit into one write is sent after it, and the connection closed when asked to."""
    async with harness() as service:
        service.announce("e1", description="x" * 10_000_000)
        caller = await service.call(get(EVENTS, "Connection: close"))
        received = await caller.rest()
        assert received.endswith(b"}]}")
        assert received.count(b"x" * 1_000_000) == 10


@on_both_loops
async def test_a_caller_that_hangs_up_at_once_harms_nobody() -> None:
    """Connections that end before they began are dropped in silence."""
    async with harness() as service:
        for _ in range(20):
            caller = await service.call(get())
            caller.wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
            caller.close()
        assert (await service.ask(get())).status == 200


@on_both_loops
async def test_stopping_finishes_what_is_owed() -> None:
    """At the end idle connections close, an answer under way is given, and nobody new is let in."""
    async with harness() as service:
        idle = await service.call(get())
        await idle.answer()
        service.gate.clear()
        busy = await service.call(post(b'{"StartRequests":[{"EventId":"x"}]}') + get())
        await service.settle()
        stopping = asyncio.create_task(service.listener.stop())
        assert await idle.rest() == b""
        with pytest.raises(ConnectionRefusedError):
            await service.call(get())
        service.gate.set()
        answer = await busy.answer()
        assert (answer.status, answer.fields["connection"]) == (200, "close")
        assert await busy.rest() == b""
        busy.close()
        await stopping


@on_both_loops
async def test_stopping_does_not_wait_for_ever() -> None:
    """Whoever is still there after the grace is cut off."""
    async with harness() as service:
        service.gate.clear()
        busy = await service.call(post(b'{"StartRequests":[{"EventId":"x"}]}'))
        await service.settle()
        await service.listener.stop(grace=0.01)
        service.gate.set()
        with pytest.raises(ConnectionError):
            await busy.answer()


@on_plain_asyncio
async def test_loops_that_cannot_watch_a_socket_serve_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the loop has no readers (Windows), asyncio accepts, and the same limits hold."""

    def add_reader(*_: object) -> None:
        raise NotImplementedError

    async with harness(Limits(connections=1)) as service:
        loop = asyncio.get_running_loop()
        other = RunningMetadataHarness.__new__(RunningMetadataHarness)
        other.__dict__.update(service.__dict__)
        other.listener = MetadataListener(service.registry, bind("127.0.0.1", 0))
        with monkeypatch.context() as patch:
            patch.setattr(loop, "add_reader", add_reader)
            await other.listener.start()
        caller = await other.call(get())
        assert (await caller.answer()).status == 200
        assert (await other.ask(get())).status == 503
        await other.listener.stop()
        assert await caller.rest() == b""


@on_both_loops
async def test_it_is_sampled_how_long_a_request_waits() -> None:
    """With each tick, which waits as a request does: here it was due two seconds before it could come."""
    async with harness(tick=-2.0) as service:
        await service.settle()
        assert service.service.delays.counts[-1] > 0
