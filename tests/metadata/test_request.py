"""What follows from a request's bytes, and the memo of those already understood."""

from forewarn.metadata.http_grammar import read_head
from forewarn.metadata.request import EVENTS, INSTANCE, RequestCache, interpret_head
from tests.metadata.harness import get, post


def test_the_memo_gives_the_request_back() -> None:
    """The same bytes are understood once."""
    request_cache = RequestCache()
    request, _ = request_cache.read(get())
    assert request_cache.read(get())[0] is request
    assert request_cache.young[get()] is request


def test_the_memo_holds_gets_without_a_body_only() -> None:
    """A POST, a HEAD, and a GET with a body are read anew each time."""
    request_cache = RequestCache()
    for block in (get(method="HEAD"), get("/x", "Content-Length: 3"), get("/x", "Transfer-Encoding: chunked")):
        assert request_cache.read(block)[1] is not None
    request_cache.read(post(b""))
    assert len(request_cache) == 0


def test_the_memo_is_bounded() -> None:
    """However many different requests come, it holds two halves of them, and none that is long."""
    request_cache = RequestCache(half=10)
    for number in range(1_000):
        request_cache.read(get(f"/{number}"))
    assert len(request_cache) <= 20
    request_cache.read(get("/" + "a" * 2_000))
    assert get("/" + "a" * 2_000) not in request_cache.young


def test_what_is_asked_often_stays_in_the_memo() -> None:
    """Requests that keep coming survive a flood of others."""
    request_cache = RequestCache(half=10)
    request, _ = request_cache.read(get())
    for number in range(1_000):
        request_cache.read(get(f"/{number}"))
        if number % 5 == 0:
            assert request_cache.read(get())[0] is request


def test_the_memo_keeps_its_young_half_in_place() -> None:
    """The hot path may hold on to it."""
    request_cache = RequestCache(half=2)
    young = request_cache.young
    for number in range(10):
        request_cache.read(get(f"/{number}"))
    assert request_cache.young is young


def test_a_request_alone_is_one_whole_request_without_a_body() -> None:
    """Half a request, two of them, one with a body and what is none are not for the short way."""
    request_cache = RequestCache()
    assert request_cache.read_single(get()) is not None
    for received in (get()[:-1], get() * 2, post(b"{}"), get(method="HEAD"), b"GARBAGE\r\n\r\n", b"\r\n" + get()):
        assert request_cache.read_single(received) is None


def test_only_an_immediate_good_get_of_the_document_is_plain() -> None:
    """Everything else takes the longer way."""
    plain = interpret_head(read_head(get()))
    assert plain.is_plain
    assert plain.target.route is EVENTS
    for block in (
        get(method="HEAD"),
        get(metadata=""),
        get("/metadata/versions"),
        get("/metadata/scheduledevents?api-version=2020-07-01", "If-None-Match: x", "Prefer: wait=5"),
    ):
        assert not interpret_head(read_head(block)).is_plain


def test_what_follows_a_route_is_its_part() -> None:
    """The part of instance facts that is asked for keeps its case and its encoding is undone."""
    target = interpret_head(
        read_head(get("/Metadata/instance/compute/tagsList/0/n%61me?api-version=2021-02-01"))
    ).target
    assert (target.route, target.part) == (INSTANCE, "/compute/tagsList/0/name")
