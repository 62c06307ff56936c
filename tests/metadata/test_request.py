"""What follows from a request's bytes, and the memo of those already understood."""

from forewarn.metadata.heads import read_head
from forewarn.metadata.request import EVENTS, INSTANCE, Memo, understand
from tests.metadata.site import get, post


def test_the_memo_gives_the_request_back() -> None:
    """The same bytes are understood once."""
    memo = Memo()
    request, _ = memo.read(get())
    assert memo.read(get())[0] is request
    assert memo.young[get()] is request


def test_the_memo_holds_gets_without_a_body_only() -> None:
    """A POST, a HEAD, and a GET with a body are read anew each time."""
    memo = Memo()
    for block in (get(method="HEAD"), get("/x", "Content-Length: 3"), get("/x", "Transfer-Encoding: chunked")):
        assert memo.read(block)[1] is not None
    memo.read(post(b""))
    assert len(memo) == 0


def test_the_memo_is_bounded() -> None:
    """However many different requests come, it holds two halves of them, and none that is long."""
    memo = Memo(half=10)
    for number in range(1_000):
        memo.read(get(f"/{number}"))
    assert len(memo) <= 20
    memo.read(get("/" + "a" * 2_000))
    assert get("/" + "a" * 2_000) not in memo.young


def test_what_is_asked_often_stays_in_the_memo() -> None:
    """Requests that keep coming survive a flood of others."""
    memo = Memo(half=10)
    request, _ = memo.read(get())
    for number in range(1_000):
        memo.read(get(f"/{number}"))
        if number % 5 == 0:
            assert memo.read(get())[0] is request


def test_the_memo_keeps_its_young_half_in_place() -> None:
    """The hot path may hold on to it."""
    memo = Memo(half=2)
    young = memo.young
    for number in range(10):
        memo.read(get(f"/{number}"))
    assert memo.young is young


def test_a_request_alone_is_one_whole_request_without_a_body() -> None:
    """Half a request, two of them, one with a body and what is none are not for the short way."""
    memo = Memo()
    assert memo.read_alone(get()) is not None
    for received in (get()[:-1], get() * 2, post(b"{}"), get(method="HEAD"), b"GARBAGE\r\n\r\n", b"\r\n" + get()):
        assert memo.read_alone(received) is None


def test_only_an_immediate_good_get_of_the_document_is_plain() -> None:
    """Everything else takes the longer way."""
    plain = understand(read_head(get()))
    assert plain.is_plain
    assert plain.target.route is EVENTS
    for block in (
        get(method="HEAD"),
        get(metadata=""),
        get("/metadata/versions"),
        get("/metadata/scheduledevents?api-version=2020-07-01", "If-None-Match: x", "Prefer: wait=5"),
    ):
        assert not understand(read_head(block)).is_plain


def test_what_follows_a_route_is_its_part() -> None:
    """The part of instance facts that is asked for keeps its case and its encoding is undone."""
    target = understand(read_head(get("/Metadata/instance/compute/tagsList/0/n%61me?api-version=2021-02-01"))).target
    assert (target.route, target.part) == (INSTANCE, "/compute/tagsList/0/name")
