"""What follows from a request's bytes, and the memo of those already understood."""

import pytest

from forewarn.metadata.http_grammar import Refusal, read_head
from forewarn.metadata.request import EVENTS, INSTANCE, AllowedHosts, RequestCache, interpret_head
from forewarn.wire import error_responses
from tests.metadata import harness
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
        get("/metadata/scheduledevents?api-version=2020-07-01", 'If-None-Match: "x", "y"'),
    ):
        assert not interpret_head(read_head(block)).is_plain


def test_what_follows_a_route_is_its_part() -> None:
    """The part of instance facts that is asked for keeps its case and its encoding is undone."""
    target = interpret_head(
        read_head(get("/Metadata/instance/compute/tagsList/0/n%61me?api-version=2021-02-01"))
    ).target
    assert (target.route, target.part) == (INSTANCE, "/compute/tagsList/0/name")


ADDRESSES = ["169.254.169.254", "169.254.169.254:80", "[fe80::1]", "[::1]:8080", "127.1", "0xa9.254.1", "10.0.0.4."]
NO_DOT = ["", ":80", "localhost", "LOCALHOST:", "metadata", "metadata.", "a", "my_host-1"]
DOTTED = [
    "evil.example",
    "evil.example:80",
    "EVIL.EXAMPLE",
    "a.b.",
    "169.254.169.254.evil.example",
    "a%2eb",
    "x.0y",
    "..",
]


@pytest.mark.parametrize("host", [*ADDRESSES, *NO_DOT])
def test_addresses_and_names_without_a_dot_are_allowed(host: str) -> None:
    """No page of a stranger can have such a name."""
    assert AllowedHosts(()).allows(host.encode())


@pytest.mark.parametrize("host", DOTTED)
def test_other_names_are_not_allowed_unless_all_are(host: str) -> None:
    """Whatever port they have."""
    assert not AllowedHosts(("other.example",)).allows(host.encode())
    assert AllowedHosts(("other.example", "*")).allows(host.encode())
    assert AllowedHosts().allows(host.encode())


@pytest.mark.parametrize(
    "host", ["meta.example.org", "Meta.Example.ORG:8080", "meta.example.org.", "meta.example.org.:1"]
)
def test_a_configured_name_is_allowed(host: str) -> None:
    """In any case, with any port, with or without the dot at its end; names below it are not."""
    for name in ("meta.example.org", "META.example.org."):
        hosts = AllowedHosts((name,))
        assert hosts.allows(host.encode())
        assert not hosts.allows(b"a." + host.encode())


def read(request_cache: RequestCache, target: str, host: str | None, version: str = "1.1") -> str:
    """Return the error of a request, empty where there is none."""
    lines = [f"GET {target} HTTP/{version}", *([] if host is None else [f"Host: {host}"]), "Metadata: true", "", ""]
    try:
        request_cache.read("\r\n".join(lines).encode())
    except Refusal as refusal:
        return "host" if refusal.problem is error_responses.HOST_NOT_ALLOWED else "malformed"
    return ""


@pytest.mark.parametrize(
    ("target", "host", "said"),
    [
        (f"http://evil.example{harness.EVENTS}", "169.254.169.254", "host"),
        (f"HTTP://Evil.Example:80{harness.EVENTS}", "169.254.169.254", "host"),
        (f"http://169.254.169.254{harness.EVENTS}", "evil.example", ""),
        (f"http://[::1]:80{harness.EVENTS}", "evil.example", ""),
        (f"http://evil.example{harness.EVENTS}", "a b", "malformed"),
        (harness.EVENTS, "evil.example", "host"),
        (harness.EVENTS, "a b", "malformed"),
        (harness.EVENTS, "a.b, c.d", "malformed"),
        ("evil.example", "evil.example", "malformed"),
        (harness.EVENTS, "", ""),
    ],
)
def test_the_authority_of_the_target_counts_before_host(target: str, host: str, said: str) -> None:
    """As RFC 9112 says; what is malformed stays so."""
    assert read(RequestCache(AllowedHosts(())), target, host) == said


def test_a_request_of_http_1_0_needs_no_host() -> None:
    """But one that has a host must have an allowed one."""
    request_cache = RequestCache(AllowedHosts(()))

    assert [read(request_cache, harness.EVENTS, host, "1.0") for host in (None, "web", "evil.example")] == [
        "",
        "",
        "host",
    ]
    assert read(request_cache, harness.EVENTS, None) == "malformed"


def test_requests_understood_before_are_judged_by_the_new_names() -> None:
    """The hot path holds on to the same dictionary."""
    request_cache = RequestCache(half=1)
    young = request_cache.young
    for number in range(3):
        assert read(request_cache, f"/{number}", "evil.example") == ""
    request_cache.set_hosts(AllowedHosts(()))

    assert [read(request_cache, f"/{number}", "evil.example") for number in range(3)] == ["host"] * 3
    assert request_cache.young is young
    assert len(request_cache) == 0
