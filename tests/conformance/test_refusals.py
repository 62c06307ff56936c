"""Rows of ``docs/reference/azure.md``: refusals."""

import re
from pathlib import Path

import pytest

from forewarn.journal.port import JournalFailed
from tests.conformance.harness import EVENTS, NEWEST, Reply, ServiceHarness
from tests.conformance.test_azure import PAGE

TARGET = f"{EVENTS}?api-version={NEWEST}".encode()
HEAD = b"GET " + TARGET + b" HTTP/1.1\r\nHost: x\r\nMetadata: true\r\n"


def promised(row: str) -> tuple[int, str]:
    """Return the status and the body that the page promises in a row."""
    found = re.search(rf"^\| `{row}` \|[^|]*\| (\d+) \| `(.*)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert found
    return int(found[1]), found[2]


def status_of(answer: bytes) -> tuple[int, str]:
    """Return the status and the body of an answer."""
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split(b" ")[1]), body.decode()


def said(reply: Reply) -> tuple[int, str]:
    return reply.status, reply.body.decode()


@pytest.mark.parametrize(
    "request_",
    [
        b"GET " + TARGET + b" HTTP/1.1\nHost: x\n\n",
        b"GET " + TARGET + b" HTTP/1.1\r\nMetadata: true\r\n\r\n",
        HEAD + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
        HEAD + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}",
        HEAD + b"X: one\r\n two\r\n\r\n",
        b"hello\r\n\r\n",
    ],
)
def test_refused_http(harness: ServiceHarness, request_: bytes) -> None:
    """What is no request is refused, and its connection closed."""
    answer = harness.send(request_)

    assert status_of(answer) == promised("refused-http")
    assert b"Connection: close" in answer


def test_refused_slow(harness: ServiceHarness) -> None:
    """Half a request is waited for, but not for ever."""
    with harness.connect() as connection:
        connection.sendall(HEAD)
        # The answer to a second connection shows that the first one's bytes have arrived.
        harness.get()
        harness.pass_time(seconds=12)
        answer = connection.recv(65_536)

    assert status_of(answer) == promised("refused-slow")


def test_refused_large_body(harness: ServiceHarness) -> None:
    """One byte more than 64 KiB is too much; 64 KiB are not."""
    assert said(harness.post(b" " * 65_537)) == promised("refused-large-body")
    assert harness.post(b'{"StartRequests":[]}'.ljust(65_536)).status == 200


def test_refused_long_line(harness: ServiceHarness) -> None:
    """A line without end is not read to its end."""
    assert status_of(harness.send(b"GET /" + b"x" * 9_000)) == promised("refused-long-line")


def test_refused_expectation(harness: ServiceHarness) -> None:
    """Nothing else can be expected than to be asked for the body."""
    assert status_of(harness.send(HEAD + b"Expect: tea\r\n\r\n")) == promised("refused-expectation")


def test_refused_large_head(harness: ServiceHarness) -> None:
    """Neither long fields nor many of them."""
    assert status_of(harness.send(HEAD + b"X: " + b"x" * 17_000)) == promised("refused-large-head")
    assert status_of(harness.send(HEAD + b"X: x\r\n" * 100 + b"\r\n")) == promised("refused-large-head")


def test_refused_coding(harness: ServiceHarness) -> None:
    """No compression."""
    assert status_of(harness.send(HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n")) == promised("refused-coding")


def test_refused_http_version(harness: ServiceHarness) -> None:
    """HTTP/2 begins otherwise."""
    request = HEAD.replace(b"HTTP/1.1", b"HTTP/2.0") + b"\r\n"

    assert status_of(harness.send(request)) == promised("refused-http-version")


def test_refused_stranger(harness: ServiceHarness) -> None:
    """An address that no VM has gets nothing."""
    assert said(harness.get(vm="127.0.9.9")) == promised("refused-stranger")


def test_refused_deallocated(harness: ServiceHarness) -> None:
    """A VM that is deallocated is told so, and what brings it back; once started it may ask again."""
    harness.deallocate("web-0")

    assert said(harness.get(vm="web-0")) == promised("refused-deallocated")


def test_refused_rate(tmp_path: Path) -> None:
    """Twenty at once, then five a second; the answer says when to come again."""
    with ServiceHarness(tmp_path, rate_limit=5.0) as harness:
        assert [harness.get().status for _ in range(20)] == [200] * 20
        refused = harness.get()
        assert said(refused) == promised("refused-rate")
        assert refused.header("Retry-After") == "1"
        assert harness.get(vm="web-1").status == 200
        harness.pass_time(seconds=1)
        assert [harness.get().status for _ in range(6)] == [200] * 5 + [429]


def test_refused_host(tmp_path: Path) -> None:
    """A name with a dot that is not configured; before the caller and the rate, of which it takes nothing."""
    with ServiceHarness(tmp_path, rate_limit=5.0, rate_burst=5, allowed_hosts=("meta.example.org",)) as harness:
        harness.enrol()
        harness.pass_time(seconds=60)
        for vm in ("web-0", "127.9.9.9"):
            assert [said(harness.get(vm=vm, Host="evil.example")) for _ in range(9)] == [promised("refused-host")] * 9
        names = (harness.host, f"{harness.host}:1", "localhost", "meta.example.org", "META.example.org.:80")
        assert [harness.get(Host=name).status for name in names] == [200] * 5
        assert harness.get().status == 429
        assert said(harness.post(b"{}", Host="evil.example")) == promised("refused-host")


@pytest.mark.parametrize("value", ["", "false", "1", "true, true"])
def test_refused_without_header(harness: ServiceHarness, value: str) -> None:
    """The header keeps out what was sent here by mistake."""
    assert said(harness.get(Metadata=value)) == promised("refused-without-header")


def test_refused_forwarded(harness: ServiceHarness) -> None:
    """A proxy must not speak for a VM."""
    assert said(harness.get(X_Forwarded_For="10.0.0.1")) == promised("refused-forwarded")


def test_refused_duplicate(harness: ServiceHarness) -> None:
    """Of two values, neither is taken."""
    target = f"{EVENTS}?api-version={NEWEST}&api-version={NEWEST}"

    assert said(harness.get(target)) == promised("refused-duplicate")


def test_refused_version(harness: ServiceHarness) -> None:
    """The refusal names the newest of the route."""
    assert said(harness.get(EVENTS)) == promised("refused-version")
    assert said(harness.get(f"{EVENTS}?api-version=2016-01-01")) == promised("refused-version")
    assert harness.get("/metadata/instance").json["newest-versions"] == ["2025-04-07", "2024-07-17", "2024-03-15"]


def test_refused_route(harness: ServiceHarness) -> None:
    """What is not there is not found."""
    for path in ("/metadata/nonsense", "/", "/control", "/metadata/instance/compute/colour"):
        assert said(harness.get(f"{path}?api-version=2019-08-01")) == promised("refused-route")


@pytest.mark.parametrize(
    ("path", "method", "allowed"),
    [
        (EVENTS, "PUT", "GET, HEAD, POST"),
        (EVENTS, "DELETE", "GET, HEAD, POST"),
        ("/metadata/instance", "POST", "GET, HEAD"),
        ("/metadata/versions", "POST", "GET, HEAD"),
    ],
)
def test_refused_method(harness: ServiceHarness, path: str, method: str, allowed: str) -> None:
    """The refusal names what can be done."""
    reply = harness.get(f"{path}?api-version=2019-08-01", method=method)

    assert said(reply) == promised("refused-method")
    assert reply.header("Allow") == allowed


def test_refused_body(harness: ServiceHarness) -> None:
    """The refusal names the event."""
    status, body = promised("refused-body")
    event = "11111111-2222-3333-4444-555555555555"

    assert said(harness.approve(event)) == (status, body.replace("...", event))


def test_refused_format(harness: ServiceHarness) -> None:
    """There are two formats."""
    reply = harness.get("/metadata/instance?api-version=2021-02-01&format=xml")

    assert said(reply) == promised("refused-format")


def test_refused_leaf_as_json(harness: ServiceHarness) -> None:
    """A single value has no JSON form."""
    reply = harness.get("/metadata/instance/compute/name?api-version=2021-02-01")

    assert said(reply) == promised("refused-leaf-as-json")


def test_refused_while_failing(harness: ServiceHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """What could not be recorded was not done, and may be tried again; reading goes on."""
    event = harness.operate("restart", "web-0")

    def fail(*_: object) -> None:
        raise JournalFailed("the disk is full")

    with monkeypatch.context() as broken:
        broken.setattr(harness.assembly.journal, "append", fail)
        assert said(harness.approve(event)) == promised("refused-while-failing")
        assert harness.events()[0]["EventStatus"] == "Scheduled"
    assert harness.approve(event).status == 200
    assert harness.events()[0]["EventStatus"] == "Started"


def test_refused_when_full(tmp_path: Path) -> None:
    """When all connections are taken, the next is told so."""
    with ServiceHarness(tmp_path, connections=1) as harness, harness.connect() as taken:
        taken.sendall(HEAD + b"\r\n")
        assert status_of(taken.recv(65_536))[0] == 200
        with harness.connect("web-1") as refused:
            refused.sendall(HEAD + b"\r\n")
            assert status_of(b"".join(iter(lambda: refused.recv(65_536), b""))) == promised("refused-when-full")


def test_check_order(tmp_path: Path) -> None:
    """A request in which everything is wrong is refused for one thing after the other, as each is put right."""
    with ServiceHarness(tmp_path, rate_limit=0.001, rate_burst=7) as harness:
        stranger = harness.get("/metadata/x", "127.0.9.9", "PUT", b"{", Metadata="", X_Forwarded_For="y")
        wrong = [
            stranger,
            harness.get("/metadata/x?a=1&a=2", "web-0", "PUT", b"{", Metadata="", X_Forwarded_For="y"),
            harness.get("/metadata/x?a=1&a=2", "web-0", "PUT", b"{", X_Forwarded_For="y"),
            harness.get("/metadata/x?a=1&a=2", "web-0", "PUT", b"{"),
            harness.get("/metadata/x?a=1", "web-0", "PUT", b"{"),
            harness.get("/metadata/x?api-version=2020-07-01", "web-0", "PUT", b"{"),
            harness.get(f"{EVENTS}?api-version=2020-07-01", "web-0", "PUT", b"{"),
            harness.get(f"{EVENTS}?api-version=2020-07-01", "web-0", "POST", b"{"),
            harness.get("/metadata/x?a=1&a=2", "web-0", "PUT", b"{", Metadata="", X_Forwarded_For="y"),
        ]

    assert [reply.status for reply in wrong] == [403, 400, 400, 400, 400, 404, 405, 400, 429]
    assert [said(reply)[1] for reply in wrong[1:4]] == [
        promised(row)[1] for row in ("refused-without-header", "refused-forwarded", "refused-duplicate")
    ]
    assert "newest-versions" in wrong[4].json
    assert "approval cannot be read" in wrong[7].error


def test_root_without_version(harness: ServiceHarness) -> None:
    """The root takes the versions of both routes."""
    reply = harness.get("/metadata")

    assert (reply.status, reply.json["newest-versions"][0]) == (400, "2025-04-07")
    assert harness.get("/metadata?api-version=2020-07-01").status == 404


def test_refusals_are_free(tmp_path: Path) -> None:
    """Knocking too often does not block it for ever."""
    with ServiceHarness(tmp_path, rate_limit=5.0, rate_burst=5) as harness:
        assert [harness.get().status for _ in range(50)] == [200] * 5 + [429] * 45
        harness.pass_time(seconds=1)
        assert [harness.get().status for _ in range(5)] == [200] * 5
