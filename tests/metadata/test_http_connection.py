"""One connection: what is sent on it, byte by byte, and what comes back."""

import contextlib
import time

import pytest

from forewarn.metadata.limits import Limits
from forewarn.metadata.responses import ThrottledResponse
from tests.metadata.harness import DATE, EVENTS, GENEROUS, get, harness, on_both_loops, post

DOCUMENT = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json; charset=utf-8\r\nServer: Forewarn\r\nDate: " + DATE
    + b'\r\nETag: "web-1"\r\nContent-Length: 37\r\n\r\n{"DocumentIncarnation":1,"Events":[]}'
)  # fmt: skip
CLOSED = DOCUMENT.replace(b"ETag", b"Connection: close\r\nETag")


@on_both_loops
async def test_a_document_is_these_bytes() -> None:
    """An answer has the lines that Azure's has, in their order, and nothing else."""
    async with harness() as service:
        assert bytes(await service.ask(get())) == DOCUMENT


@on_both_loops
async def test_connections_stay_open() -> None:
    """One connection carries one request after another."""
    async with harness() as service:
        caller = await service.call()
        for _ in range(5):
            await caller.send(get())
            assert bytes(await caller.answer()) == DOCUMENT


@pytest.mark.end_to_end
@on_both_loops
async def test_a_request_may_arrive_in_any_pieces() -> None:
    """However a request is split on its way, the answer is the same."""
    async with harness() as service:
        request = get()
        for cut in range(1, len(request)):
            caller = await service.call(request[:cut])
            await service.settle()
            await caller.send(request[cut:])
            assert bytes(await caller.answer()) == DOCUMENT
            caller.close()


@on_both_loops
async def test_a_request_may_arrive_byte_by_byte() -> None:
    """A head and a body in packets of one byte are one request."""
    async with harness() as service:
        caller = await service.call()
        await caller.send_slowly(post(b'{"StartRequests":[]}') + get())
        assert (await caller.answer()).status == 200
        assert bytes(await caller.answer()) == DOCUMENT


@on_both_loops
async def test_pipelined_requests_are_answered_in_order() -> None:
    """Requests sent together are answered one by one, in their order, also behind one that takes its time."""
    async with harness() as service:
        service.gate.clear()
        caller = await service.call(
            get() + post(b'{"StartRequests":[{"EventId":"a"}]}') + get("/metadata/nothing?api-version=2020-07-01")
        )
        assert bytes(await caller.answer()) == DOCUMENT
        await service.settle()
        assert caller.has_nothing()
        service.gate.set()
        assert [(await caller.answer()).status for _ in range(2)] == [200, 404]


@on_both_loops
async def test_close_is_honoured_and_said() -> None:
    """Connection: close is answered with the same, and the connection closed."""
    async with harness() as service:
        for request in (get(EVENTS, "Connection: close"), get(EVENTS, "connection: Keep-Alive, CLOSE")):
            caller = await service.call(request)
            assert await caller.rest() == CLOSED


@on_both_loops
async def test_close_is_honoured_on_an_old_connection() -> None:
    """Connection: close ends a connection that served other requests before."""
    async with harness() as service:
        caller = await service.call(get())
        await caller.answer()
        await caller.send(get(EVENTS, "Connection: close"))
        assert await caller.rest() == CLOSED


@on_both_loops
async def test_http_1_0_closes_unless_asked_not_to() -> None:
    """HTTP/1.0 is answered once, or for as long as the caller asks to keep the connection."""
    async with harness() as service:
        old = f"GET {EVENTS} HTTP/1.0\r\nMetadata: true\r\n".encode()
        caller = await service.call(old + b"\r\n")
        assert await caller.rest() == CLOSED
        caller = await service.call(old + b"Connection: keep-alive\r\n\r\n")
        assert bytes(await caller.answer()) == DOCUMENT.replace(b"ETag", b"Connection: keep-alive\r\nETag")
        await caller.send(old + b"\r\n")
        assert await caller.rest() == CLOSED


@on_both_loops
async def test_head_is_get_without_the_body() -> None:
    """HEAD tells the length of the body it leaves out; a refusal too has no body."""
    async with harness() as service:
        caller = await service.call(get(method="HEAD") + get(metadata="", method="HEAD") + get())
        assert bytes(await caller.answer(is_head=True)) == DOCUMENT.partition(b"{")[0]
        assert (await caller.answer(is_head=True)).status == 400
        assert bytes(await caller.answer()) == DOCUMENT


@on_both_loops
async def test_continue_is_said_to_those_who_wait_for_it() -> None:
    """Expect: 100-continue is answered only while the body has not come."""
    async with harness() as service:
        body = b'{"StartRequests":[]}'
        request = post(body, "Expect: 100-continue")
        caller = await service.call(request[: -len(body)])
        assert bytes(await caller.answer()) == b"HTTP/1.1 100 Continue\r\n\r\n"
        await caller.send(body)
        assert (await caller.answer()).status == 200
        await caller.send(request)
        assert (await caller.answer()).status == 200


@on_both_loops
async def test_bodies_come_by_length_or_in_chunks() -> None:
    """A chunked body is read to its end, extensions and trailers included, and the next request after it."""
    async with harness() as service:
        head = get(EVENTS, "Transfer-Encoding: chunked", method="POST")
        body = b'8;name="v"\r\n{"StartR\r\n00c\r\nequests":[]}\r\n0\r\nTrailer: x\r\n\r\n'
        caller = await service.call(head + body + get())
        assert (await caller.answer()).status == 200
        assert bytes(await caller.answer()) == DOCUMENT


@on_both_loops
async def test_a_body_too_large_is_refused_before_it_comes() -> None:
    """A length over 64 KiB is refused at once; so are chunks once they exceed it. The refusal can be read."""
    async with harness() as service:
        caller = await service.call(get(EVENTS, "Content-Length: 65537", method="POST"))
        assert (await caller.answer()).status == 413
        caller = await service.call(get(EVENTS, "Transfer-Encoding: chunked", method="POST") + b"10001\r\n")
        assert (await caller.answer()).status == 413
        caller = await service.call(post(b"x" * 1_000_000))
        answer = await caller.answer()
        assert (answer.status, answer.fields["connection"]) == (413, "close")


@on_both_loops
async def test_a_body_in_too_many_chunks_is_refused() -> None:
    """A body that comes in thousands of chunks is refused; in a thousand it is read."""
    async with harness() as service:
        head = get(EVENTS, "Transfer-Encoding: chunked", method="POST")
        blanks = b"1\r\n \r\n"
        end = b'14\r\n{"StartRequests":[]}\r\n0\r\n\r\n'
        assert (await service.ask(head + blanks * 1000 + end)).status == 200
        assert (await service.ask(head + blanks * 2000 + end)).status == 413


@on_both_loops
async def test_many_requests_at_once_give_others_their_turn() -> None:
    """A caller that sends thousands of requests at once is answered in turns, completely and in order."""
    async with harness() as service:
        greedy = await service.call(get() * 2000 + get("/metadata/versions"))
        modest = await service.call(get(), "127.0.0.2")
        assert (await modest.answer()).status == 200
        answers = [await greedy.answer() for _ in range(2001)]
        assert [answer.fields.get("etag") for answer in answers] == ['"web-1"'] * 2000 + [None]
        greedy.wire.shutdown(1)
        assert await greedy.rest() == b""


@on_both_loops
@pytest.mark.parametrize(("address", "status"), [("127.0.0.1", 429), ("127.0.0.9", 403)])
async def test_who_asks_too_often_or_is_nobody_waits_for_the_next_answer(address: str, status: int) -> None:
    """He would have all our time; all that he asks is answered in the end."""
    async with harness(Limits(rate=0.001, burst=1)) as service:
        began = time.monotonic()
        greedy = await service.call(get() * 3, address)
        answers = [(await greedy.answer()).status for _ in range(3)]
        assert time.monotonic() - began > 0.8 * ThrottledResponse.pause
        assert answers[1:] == [status] * 2
        began = time.monotonic()
        await greedy.send(get())
        await greedy.answer()
        await greedy.send(get())
        assert (await greedy.answer()).status == status
        assert time.monotonic() - began > 0.8 * ThrottledResponse.pause


@on_both_loops
async def test_a_plain_request_too_many_makes_the_next_one_wait() -> None:
    """Also for a caller that asks one by one, as nearly all do."""
    async with harness(Limits(rate=0.001, burst=1)) as service:
        greedy = await service.call(get())
        statuses = [(await greedy.answer()).status]
        began = time.monotonic()
        for _ in range(2):
            await greedy.send(get())
            statuses.append((await greedy.answer()).status)
        assert statuses == [200, 429, 429]
        assert time.monotonic() - began > 0.8 * ThrottledResponse.pause


@on_both_loops
async def test_the_end_of_many_requests_is_not_the_end_of_their_answers() -> None:
    """A caller that sends many requests and shuts down its side gets every answer."""
    async with harness() as service:
        caller = await service.call(get() * 300)
        caller.wire.shutdown(1)
        assert await caller.rest() == DOCUMENT * 300


@on_both_loops
async def test_a_flood_of_empty_lines_is_skipped() -> None:
    """Empty lines before a request cost nothing and mean nothing."""
    async with harness() as service:
        assert bytes(await service.ask(b"\r\n" * 100_000 + get())) == DOCUMENT


@on_both_loops
async def test_the_last_answer_waits_for_a_slow_reader() -> None:
    """A large answer on a connection that closes is not cut off while it is being read in good time."""
    async with harness() as service:
        service.announce("e1", description="x" * 10_000_000)
        caller = await service.call(get("/metadata/versions") + get(EVENTS, "Connection: close"))
        await caller.answer()
        service.move(5)
        assert (await caller.rest()).endswith(b"}]}")


@on_both_loops
async def test_the_largest_body_is_read() -> None:
    """A body of exactly 64 KiB is taken."""
    async with harness() as service:
        body = b'{"StartRequests":[]}'.ljust(65536)
        assert (await service.ask(post(body))).status == 200


@on_both_loops
async def test_a_get_with_a_body_is_answered_and_the_body_passed_over() -> None:
    """A body that means nothing does not become the next request."""
    async with harness() as service:
        caller = await service.call(get(EVENTS, "Content-Length: 5") + b"GET /" + get())
        assert [bytes(await caller.answer()) for _ in range(2)] == [DOCUMENT, DOCUMENT]


_HOST = "Host: 169.254.169.254"
_LINE = f"GET {EVENTS} HTTP/1.1"


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GARBAGE\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00", 400),
        (f"GET {EVENTS}\r\n\r\n".encode(), 400),
        (f"{_LINE}\n{_HOST}\nMetadata: true\n\n".encode(), 400),
        (f"{_LINE}\r\n{_HOST}\r\nMetadata: true\n\r\n".encode(), 400),
        (f"{_LINE}\r\n{_HOST}\rMetadata: true\r\n\r\n".encode(), 400),
        (f"{_LINE}\r\nMetadata: true\r\n\r\n".encode(), 400),
        (f"{_LINE}\r\n{_HOST}\r\n{_HOST}\r\n\r\n".encode(), 400),
        (f"{_LINE}\r\nHost: a b\r\n\r\n".encode(), 400),
        (f"{_LINE}\r\n{_HOST}\r\nMetadata: true\r\n folded\r\n\r\n".encode(), 400),
        (f"{_LINE}\r\n{_HOST}\r\nMetadata : true\r\n\r\n".encode(), 400),
        (f"{_LINE}\r\n{_HOST}\r\n: true\r\n\r\n".encode(), 400),
        (f"{_LINE}\r\n{_HOST}\r\nA: \0\r\n\r\n".encode(), 400),
        (f"GET  {EVENTS} HTTP/1.1\r\n{_HOST}\r\n\r\n".encode(), 400),
        (f"GET {EVENTS}#a HTTP/1.1\r\n{_HOST}\r\n\r\n".encode(), 400),
        (f"GET {EVENTS}&a=%zz HTTP/1.1\r\n{_HOST}\r\n\r\n".encode(), 400),
        (f"GET metadata HTTP/1.1\r\n{_HOST}\r\n\r\n".encode(), 400),
        (f"GET ftp://h/ HTTP/1.1\r\n{_HOST}\r\n\r\n".encode(), 400),
        (f"{_LINE}\r\n{_HOST}\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n".encode(), 400),
        (f"{_LINE}\r\n{_HOST}\r\nContent-Length: 1, 1\r\n\r\n".encode(), 400),
        (f"{_LINE}\r\n{_HOST}\r\nContent-Length: +1\r\n\r\n".encode(), 400),
        (f"{_LINE}\r\n{_HOST}\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n".encode(), 400),
        (f"{_LINE}\r\n{_HOST}\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".encode(), 400),
        (f"GET {EVENTS} HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n".encode(), 400),
        (f"{_LINE}\r\n{_HOST}\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n".encode(), 400),
        (f"{_LINE}\r\n{_HOST}\r\nTransfer-Encoding: gzip, chunked\r\n\r\n".encode(), 501),
        (f"{_LINE}\r\n{_HOST}\r\nTransfer-Encoding: identity\r\n\r\n".encode(), 501),
        (f"{_LINE}\r\n{_HOST}\r\nTransfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n".encode(), 400),
        (f"{_LINE}\r\n{_HOST}\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n".encode(), 400),
        (f"{_LINE}\r\n{_HOST}\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloX\r\n0\r\n\r\n".encode(), 400),
        (f"{_LINE}\r\n{_HOST}\r\nExpect: 200-ok\r\n\r\n".encode(), 417),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
        (f"GET {EVENTS} HTTP/0.9\r\n{_HOST}\r\n\r\n".encode(), 505),
        (f"GET /{'a' * 9000} HTTP/1.1\r\n{_HOST}\r\n\r\n".encode(), 414),
        (f"{_LINE}\r\n{_HOST}\r\nA: {'a' * 17000}\r\n\r\n".encode(), 431),
        ((f"{_LINE}\r\n{_HOST}\r\n" + "A: a\r\n" * 100 + "\r\n").encode(), 431),
    ],
)
@on_both_loops
async def test_what_is_not_http_is_refused_and_the_connection_closed(request_: bytes, status: int) -> None:
    """Each fault has its status and the usual body, at once, and is the last thing on its connection."""
    async with harness() as service:
        for more in (b"", get()):
            caller = await service.call(request_ + more)
            answer = await caller.answer()
            assert (answer.status, answer.fields["connection"]) == (status, "close")
            assert answer.body.startswith(b'{ "error": ')
            assert await caller.rest() == b""


@on_both_loops
async def test_what_is_odd_but_right_is_answered() -> None:
    """Absolute URIs, Upgrade, empty lines before a request and a hundred fields are all HTTP."""
    async with harness() as service:
        for request in (
            get(f"http://169.254.169.254{EVENTS}"),
            get(f"HTTP://[::1]:80{EVENTS}"),
            get(EVENTS, "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__"),
            b"\r\n\r\n" + get(),
            get(EVENTS, *["A: a"] * 98),
            get(EVENTS, "X: \xe4\xf6"),
            get().replace(b": ", b":\t "),
        ):
            assert bytes(await service.ask(request)) == DOCUMENT


@on_both_loops
async def test_a_head_that_dawdles_is_given_up() -> None:
    """A head that has begun must be there in time, however regularly its bytes drip in; 408 says so."""
    async with harness() as service:
        caller = await service.call(get()[:10])
        for position in range(10, 19):
            await service.settle()
            service.move(1)
            await caller.send(get()[position : position + 1])
        await service.settle()
        assert caller.has_nothing()
        service.move(2)
        assert (await caller.answer()).status == 408
        assert await caller.rest() == b""


@on_both_loops
async def test_a_body_that_dawdles_is_given_up() -> None:
    """A body must be there in time after its head."""
    async with harness() as service:
        caller = await service.call(post(b"0123456789")[:-5])
        await service.settle()
        service.move(9)
        await service.settle()
        assert caller.has_nothing()
        service.move(2)
        assert (await caller.answer()).status == 408


@on_both_loops
async def test_an_idle_connection_is_closed_in_silence() -> None:
    """A connection without requests is closed after a while, counted from its last answer."""
    async with harness() as service:
        caller = await service.call(get())
        await caller.answer()
        await service.settle()
        service.move(70)
        await caller.send(get())
        assert (await caller.answer()).status == 200
        service.move(70)
        await service.settle()
        assert caller.has_nothing()
        service.move(6)
        assert await caller.rest() == b""


@on_both_loops
async def test_half_a_connection_is_answered() -> None:
    """A caller that shuts down its sending side gets its answers before the connection closes."""
    async with harness() as service:
        caller = await service.call(get() + get())
        caller.wire.shutdown(1)
        assert await caller.rest() == DOCUMENT * 2


@on_both_loops
async def test_a_caller_that_reads_nothing_is_cut_off() -> None:
    """Answers that nobody reads pile up to a limit only, and after a while the caller is given up."""
    async with harness() as service:
        service.announce("e1", description="x" * 60_000)
        caller = await service.call(get() * 500)
        await service.settle()
        service.move(11)
        received = 0
        with contextlib.suppress(ConnectionResetError):
            received = len(await caller.rest())
        assert received < 500 * 60_000


@on_both_loops
async def test_answers_read_late_are_complete() -> None:
    """A caller that reads late gets every answer it is owed, whole and in order."""
    async with harness(GENEROUS) as service:
        service.announce("e1", description="x" * 60_000)
        caller = await service.call(get() * 200)
        await service.settle()
        answers = [await caller.answer() for _ in range(200)]
        assert {answer.status for answer in answers} == {200}
        assert len({answer.body for answer in answers}) == 1
