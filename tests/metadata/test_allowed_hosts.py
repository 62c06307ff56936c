"""Which names a request may use for the service."""

import pytest

from forewarn.metadata.allowed_hosts import AllowedHosts
from forewarn.metadata.http_grammar import Refusal
from forewarn.metadata.request import RequestCache
from forewarn.wire import error_responses
from tests.metadata.harness import EVENTS

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
        (f"http://evil.example{EVENTS}", "169.254.169.254", "host"),
        (f"HTTP://Evil.Example:80{EVENTS}", "169.254.169.254", "host"),
        (f"http://169.254.169.254{EVENTS}", "evil.example", ""),
        (f"http://[::1]:80{EVENTS}", "evil.example", ""),
        (f"http://evil.example{EVENTS}", "a b", "malformed"),
        (EVENTS, "evil.example", "host"),
        (EVENTS, "a b", "malformed"),
        (EVENTS, "a.b, c.d", "malformed"),
        ("evil.example", "evil.example", "malformed"),
        (EVENTS, "", ""),
    ],
)
def test_the_authority_of_the_target_counts_before_host(target: str, host: str, said: str) -> None:
    """As RFC 9112 says; what is malformed stays so."""
    assert read(RequestCache(AllowedHosts(())), target, host) == said


def test_a_request_of_http_1_0_needs_no_host() -> None:
    """But one that has a host must have an allowed one."""
    request_cache = RequestCache(AllowedHosts(()))

    assert [read(request_cache, EVENTS, host, "1.0") for host in (None, "web", "evil.example")] == ["", "", "host"]
    assert read(request_cache, EVENTS, None) == "malformed"


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
